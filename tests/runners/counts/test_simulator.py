from dataclasses import replace
from itertools import pairwise

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from tests.runners.counts.brute import BruteForce

from watersmeet.adapt.policy import GENERATIONS_MAX
from watersmeet.adapt.spilling import STRATEGIES, choose
from watersmeet.runners.counts import Carrier, Level, Limits, Simulation, Stream, Workload, simulate
from watersmeet.state.changes import AddRun
from watersmeet.state.groups import groups_at
from watersmeet.state.invariants import check
from watersmeet.state.sizes import live_bytes, total_bytes

EPOCHS, GROUPS = 6, 4


def five_way(seed, rows=5, values=4, epochs=EPOCHS):
    rng = np.random.default_rng(seed)
    epoch = np.repeat(np.arange(epochs), rows)

    def draw():
        return rng.integers(0, values, len(epoch))

    return [
        Level((Stream(epoch, draw()), Stream(epoch, draw())), Carrier(epoch, draw(), next_key=draw())),
        Level((), Carrier(epoch, draw(), next_key=draw())),
        Level((Stream(epoch, draw()),)),
    ]


def three_way(seed):
    rng = np.random.default_rng(seed)
    epoch = np.repeat(np.arange(EPOCHS), 4)
    return [Level(tuple(Stream(epoch, rng.integers(0, 5, len(epoch))) for _ in range(3)))]


class SpillSome:
    """Takes the place of a strategy: any groups that hold something, and the rows of the same groups are forgotten."""

    def __init__(self, brute, seed=7):
        self.brute, self.rng, self.chosen = brute, np.random.default_rng(seed), 0

    def __call__(self, _):
        return self.choose

    def choose(self, candidates, _):
        some = {each.operator: self.some(each.live_bytes) for each in candidates}
        for candidate in candidates:
            for group in some[candidate.operator]:
                self.brute.spill(candidate.level, group)
        self.chosen += sum(map(len, some.values()))
        return some

    def some(self, live_bytes):
        return np.flatnonzero((live_bytes > 0) & (self.rng.random(len(live_bytes)) < 0.3)).tolist()


EVERY_EPOCH = Limits(budget_bytes=0)


@pytest.mark.parametrize("levels", [five_way(1), five_way(2), three_way(3)], ids=["five", "another five", "three"])
def test_every_count_is_that_of_a_join_row_by_row_whatever_is_spilled(levels):
    brute = BruteForce(levels, GROUPS)
    some = SpillSome(brute)
    run = Simulation(Workload.prepare(levels, EPOCHS, GROUPS), EVERY_EPOCH, some)
    traced = {name: np.zeros(GROUPS, dtype=np.int64) for name in run.runner.names}
    for epoch in range(EPOCHS):
        expected = brute.step(epoch)
        metrics = run.step()
        assert [each.rows_out for each in metrics.operators] == [len(found) for found in expected]
        for level, (name, state) in enumerate(run.versions.manifest.operators.items()):
            np.add.at(traced[name], [trace[level] for trace in expected[-1]], 1)
            assert (state.output.array if state.output else np.zeros(GROUPS)).tolist() == traced[name].tolist()
            held = [brute.live_bytes(level, group) for group in range(GROUPS)]
            assert live_bytes(run.versions.manifest, name).tolist() == held
    assert some.chosen > 0


def test_intermediate_bytes_are_charged_to_the_groups_that_caused_them():
    levels = five_way(4, values=6)
    brute = BruteForce(levels, GROUPS)
    run = Simulation(Workload.prepare(levels, EPOCHS, GROUPS), Limits(budget_bytes=1 << 40, sites=3))
    caused = np.zeros((2, GROUPS), dtype=np.int64)
    for epoch in range(EPOCHS):
        run.step()
        results = brute.step(epoch)
        for trace in results[0]:
            caused[0, trace[0]] += 120
        for trace in results[1]:
            caused[0, trace[0]] += 160
            caused[1, trace[1]] += 160
    states = list(run.versions.manifest.operators.values())
    assert [state.inter.array.tolist() for state in states[:2]] == caused.tolist()
    assert states[2].inter.array.tolist() == [0] * GROUPS


def test_an_unlimited_run_has_as_many_results_as_duckdb():
    levels = five_way(5, rows=200, values=150)
    a, b = levels[0].plain
    c, d, [e] = levels[0].carrier, levels[1].carrier, levels[2].plain
    database = duckdb.connect()
    database.register("A", pa.table({"k": a.key}))
    database.register("B", pa.table({"k": b.key}))
    database.register("C", pa.table({"k": c.key, "n": c.next_key}))
    database.register("D", pa.table({"k": d.key, "n": d.next_key}))
    database.register("E", pa.table({"k": e.key}))
    sql = "SELECT count(*) FROM A JOIN B ON A.k = B.k JOIN C ON A.k = C.k JOIN D ON C.n = D.k JOIN E ON D.n = E.k"
    [(expected,)] = database.execute(sql).fetchall()
    assert simulate(Workload.prepare(levels, EPOCHS, 30)).results == expected > 0


def crowded(seed):
    """A workload of many groups, and a budget for a small part of it."""
    workload = Workload.prepare(five_way(seed, rows=60, values=40), EPOCHS, 30)
    unlimited = simulate(workload)
    return workload, unlimited, Limits(unlimited.peak_bytes // 8)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_what_is_live_after_an_epoch_is_within_the_budget_of_every_site(strategy):
    workload, unlimited, limits = crowded(6)
    run = Simulation(workload, limits, strategy)
    for _ in range(EPOCHS):
        assert max(run.step().live_bytes) <= limits.budget_bytes
        check(run.versions.manifest)
    outcome = run.outcome()
    assert outcome.spills
    assert outcome == simulate(workload, limits, strategy)
    assert outcome.results < unlimited.results


def test_what_was_live_is_counted_before_the_spill():
    workload, _, limits = crowded(6)
    run = Simulation(workload, limits, "random")
    for _ in range(EPOCHS):
        run.step()
    outcome, manifest = run.outcome(), run.versions.manifest
    both = [(one, other) for one, other in pairwise(outcome.spills) if one.epoch == other.epoch]
    assert both
    for one, other in both:
        assert outcome.live_bytes[one.epoch] == one.before.live_bytes + other.before.live_bytes
    closed = sum(total_bytes(manifest, name).sum() - live_bytes(manifest, name).sum() for name in run.runner.names)
    assert outcome.spilled_bytes == closed


def test_every_site_tells_of_its_own_groups():
    workload, _, limits = crowded(6)
    run = Simulation(workload, limits, "random")
    told, shipped = [], run.runner.run

    def listening(step):
        done = shipped(step)
        told.extend(done.effects)
        return done

    run.runner.run = listening
    for _ in range(EPOCHS):
        run.step()
    routing = run.versions.manifest.operators["join1"].routing
    for effects in told:
        name = f"join{effects.level + 1}"
        elsewhere = ~groups_at(routing, effects.site).mask(30)
        arrived = [change.run for change in effects.changes if isinstance(change, AddRun)]
        assert not any(each.groups.mask(30)[elsewhere].any() for each in arrived)
        assert sum(each.rows for each in arrived) == sum(effects.rows_in.values())
        assert effects.local[name].array[elsewhere].sum() == 0
        assert effects.local[name].array.sum() == effects.rows_out[name] > 0
        traced = {each.array.sum() for each in effects.traced.values()}
        assert traced == ({effects.rows_out[name]} if name == "join3" else set())


def test_the_driver_has_few_runs_to_go_through_as_the_runner_merges_them():
    epochs = 40
    workload = Workload.prepare(five_way(6, rows=12, values=30, epochs=epochs), epochs, 30)
    limits = Limits(simulate(workload).peak_bytes // 8)
    run = Simulation(workload, limits, "lru")
    for _ in range(epochs):
        run.step()
        check(run.versions.manifest)
    inputs = sum(len(operator.inputs) for operator in run.runner.plan.operators)
    live = sum(part.tier == "memory" for state in run.versions.manifest.operators.values() for part in state.slices)
    assert live < 12 * inputs * limits.sites < epochs * inputs * limits.sites
    held = sum(operator.live_bytes.sum() for operator in run.runner.operators)
    last = sum(spill.bytes for spill in run.outcome().spills if spill.epoch == epochs - 1)
    assert sum(live_bytes(run.versions.manifest, name).sum() for name in run.runner.names) == held - last


def test_nothing_is_ever_cleaned_up_however_many_generations_there_are():
    epochs = GENERATIONS_MAX + 10
    workload = Workload.prepare(five_way(6, epochs=epochs), epochs, GROUPS)
    run = Simulation(workload, Limits(budget_bytes=1), "random")
    for _ in range(epochs):
        run.step()
    assert len(run.versions.manifest.generations("join1")) > GENERATIONS_MAX
    assert run.loop.history.cleanup == []


def test_a_site_knows_what_those_before_it_have_just_given_up():
    workload, _, limits = crowded(6)
    asked = []

    def choosing(_):
        def chosen(candidates, pressure):
            some = choose("random", candidates, pressure)
            asked.append((pressure.epoch, candidates, some))
            return some

        return chosen

    simulate(workload, limits, choosing)
    both = [(one, other) for one, other in pairwise(asked) if one[0] == other[0]]
    assert both
    for (_, _, given_up), (_, candidates, _) in both:
        for candidate in candidates:
            gone = list(given_up[candidate.operator])
            assert candidate.statistics.size_bytes[gone].sum() == 0


def test_the_cleanup_costs_what_it_reads_and_the_intermediate_results_it_makes():
    workload, unlimited, limits = crowded(8)
    outcome = simulate(workload, limits, "random")
    missing = outcome.missing(unlimited)
    assert all(count > 0 for count in missing)
    assert outcome.cleanup_bytes(unlimited) == outcome.spilled_bytes + missing[0] * 120 + missing[1] * 160


def test_the_same_seed_gives_the_same_run():
    workload, _, limits = crowded(9)
    assert simulate(workload, limits, "random") == simulate(workload, limits, "random")
    assert simulate(workload, limits, "random") != simulate(workload, replace(limits, seed=1), "random")


def test_without_a_budget_nothing_is_spilled():
    outcome = simulate(Workload.prepare(five_way(10), EPOCHS, GROUPS))
    assert outcome.spills == ()
    assert outcome.spilled_bytes == 0
    assert outcome.missing(outcome) == (0, 0, 0)
