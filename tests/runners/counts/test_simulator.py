from collections import Counter

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from tests.runners.counts.brute import BruteForce

from watersmeet.adapt.moving.distribution import even
from watersmeet.adapt.spilling import STRATEGIES
from watersmeet.runners.counts import Carrier, Level, Limits, Simulation, Stream, Workload, by, simulate

EPOCHS, GROUPS = 6, 4


def five_way(seed, rows=5, values=4):
    rng = np.random.default_rng(seed)
    epoch = np.repeat(np.arange(EPOCHS), rows)

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


@pytest.mark.parametrize("levels", [five_way(1), five_way(2), three_way(3)], ids=["five", "another five", "three"])
def test_every_count_is_that_of_a_join_row_by_row_whatever_is_spilled(levels):
    run, brute = Simulation(Workload.prepare(levels, EPOCHS, GROUPS)), BruteForce(levels, GROUPS)
    rng = np.random.default_rng(7)
    for epoch in range(EPOCHS):
        before = list(run.statistics)
        run.step(epoch)
        expected = brute.step(epoch)
        assert [made[-1] for made in run.produced] == [len(found) for found in expected]
        for level, operator in enumerate(run.operators):
            traced = Counter(trace[level] for trace in expected[-1])
            grown = run.statistics[level].global_output - before[level].global_output
            assert {group: count for group, count in enumerate(grown.tolist()) if count} == traced
            assert operator.live_bytes.tolist() == [brute.live_bytes(level, group) for group in range(GROUPS)]
        spill_some(run, brute, epoch, rng)


def spill_some(run, brute, epoch, rng):
    chosen = {}
    for level in range(len(run.operators)):
        groups = np.flatnonzero(rng.random(GROUPS) < 0.3).tolist()
        chosen[f"join{level + 1}"] = groups
        for group in groups:
            brute.spill(level, group)
    run.spill(epoch, 0, chosen)


def test_intermediate_bytes_are_charged_to_the_groups_that_caused_them():
    levels = five_way(4, values=6)
    run, brute = Simulation(Workload.prepare(levels, EPOCHS, GROUPS)), BruteForce(levels, GROUPS)
    caused = np.zeros((2, GROUPS))
    for epoch in range(EPOCHS):
        run.step(epoch)
        results = brute.step(epoch)
        for trace in results[0]:
            caused[0, trace[0]] += 120
        for trace in results[1]:
            caused[0, trace[0]] += 160
            caused[1, trace[1]] += 160
    assert [run.statistics[level].inter_bytes.tolist() for level in range(2)] == caused.tolist()
    assert run.statistics[2].inter_bytes.tolist() == [0] * GROUPS


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


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_what_is_live_after_an_epoch_is_within_the_budget_of_every_site(strategy):
    workload = Workload.prepare(five_way(6, rows=60, values=40), EPOCHS, 30)
    unlimited = simulate(workload)
    limits = Limits(unlimited.peak_bytes // 8)
    run = Simulation(workload)
    routing = np.asarray(even(30, limits.sites))
    for epoch in range(EPOCHS):
        run.step(epoch)
        run.relieve(epoch, limits, by(strategy))
        live = sum(operator.live_bytes for operator in run.operators)
        assert max(live[routing == site].sum() for site in range(limits.sites)) <= limits.budget_bytes
    assert run.spills > 0
    assert run.outcome() == simulate(workload, limits, by(strategy))
    assert run.outcome().results < unlimited.results


def test_the_cleanup_costs_what_it_reads_and_the_intermediate_results_it_makes():
    workload = Workload.prepare(five_way(8, rows=60, values=40), EPOCHS, 30)
    unlimited = simulate(workload)
    outcome = simulate(workload, Limits(unlimited.peak_bytes // 8), by("random"))
    missing = outcome.missing(unlimited)
    assert all(count > 0 for count in missing)
    assert outcome.cleanup_bytes(unlimited) == outcome.spilled_bytes + missing[0] * 120 + missing[1] * 160


def test_the_same_seed_gives_the_same_run():
    workload = Workload.prepare(five_way(9, rows=60, values=40), EPOCHS, 30)
    limits = Limits(simulate(workload).peak_bytes // 8)
    assert simulate(workload, limits, by("random")) == simulate(workload, limits, by("random"))


def test_without_a_budget_nothing_is_spilled():
    outcome = simulate(Workload.prepare(five_way(10), EPOCHS, GROUPS))
    assert outcome.spills == outcome.spilled_bytes == 0
    assert outcome.missing(outcome) == (0, 0, 0)
