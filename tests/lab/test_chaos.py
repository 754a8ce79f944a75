"""Whole runs in which all goes wrong that can: every result once, nothing lost, nothing too large, no garbage."""

import pytest

from watersmeet.adapt.moving.policies import NAMES
from watersmeet.adapt.policy import MemoryOptions
from watersmeet.adapt.spilling.policy import SpillPolicy
from watersmeet.driver import task_specs
from watersmeet.driver.loop import Loop
from watersmeet.lab.reproduce.run import reproduce
from watersmeet.lab.simulator.chaos import ChaosError, Told, chaos, draw, run_schedule
from watersmeet.lab.simulator.chaos.schedule import KINDS, Mishap, Schedule
from watersmeet.state import garbage, runs
from watersmeet.state.manifest import Manifest

FEW, SOME, MANY = range(6), range(24), range(2000)


def schedule(*mishaps, budget=None, shape="two streams", adaptation="none", **rest):
    """A plain query, and what is told of it."""
    about = {"epochs": 12, "groups": 12, "sites": 2, "retained": 2} | rest
    return Schedule(
        5,
        shape,
        memory=MemoryOptions(budget, generations_max=4),
        adaptation=adaptation,
        is_hasty=True,
        sites_follow=False,
        starts_uneven=False,
        mishaps=tuple(Mishap(epoch, kind, lot) for epoch, kind, lot in mishaps),
        **about,
    )


@pytest.mark.long
def test_whatever_goes_wrong_every_result_comes_once():
    told = chaos(SOME)
    assert not told.failures
    assert told.epochs > 10 * told.schedules
    assert told.drivers > told.schedules
    assert {"spill", "cleanup", "move"} <= told.adapted.keys()


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_it_does_thousands_of_times():
    told = chaos(MANY)
    assert not told.failures
    assert set(KINDS) <= told.happened.keys()
    assert {"lost commit", "repeated commit", "driver killed", "step failed"} <= told.happened.keys()
    assert told.policies.keys() == set(NAMES)
    assert {"spill", "cleanup", "move", "split", "park", "executors", "reroute"} <= told.adapted.keys()


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_mishap_does_no_harm(kind):
    told = Told()
    lots = (0.1, 0.6, 0.7, 0.9)
    run_schedule(schedule(*((2 + 2 * n, kind, lot) for n, lot in enumerate(lots)), budget=1500), told)
    assert told.happened[kind] == len(lots)


def test_the_same_seed_is_the_same_schedule_and_comes_out_the_same():
    once, again = Told(), Told()
    run_schedule(draw(3), once)
    run_schedule(draw(3), again)
    assert (once.results, once.drivers, once.happened, once.adapted) == (
        again.results,
        again.drivers,
        again.happened,
        again.adapted,
    )


REPLAYED = (3, "kill", 0.7)
"""The driver dies after a commit, so that the batch is given to the next one again."""


def fails(some: Schedule) -> str:
    with pytest.raises(ChaosError) as failed:
        run_schedule(some)
    return str(failed.value)


def test_a_batch_that_were_applied_twice_would_be_noticed(monkeypatch):
    monkeypatch.setattr(Loop, "_is_new", lambda *_: True)
    assert "results were given" in fails(schedule(REPLAYED))


def test_groups_that_a_cleanup_forgot_would_be_noticed(monkeypatch):
    shipped = task_specs.deal
    monkeypatch.setattr(task_specs, "deal", lambda *step: [shipped(*step)[0], ()])
    assert "results were given" in fails(schedule((4, "clean", 0.6), budget=400))


def test_a_budget_that_nobody_kept_to_would_be_noticed(monkeypatch):
    monkeypatch.setattr(SpillPolicy, "suggest", lambda *_: ())
    assert "bytes are live" in fails(schedule(budget=400))


def test_garbage_that_stayed_would_be_noticed(monkeypatch):
    monkeypatch.setattr(garbage.Collector, "_delete", lambda *_: None)
    assert "garbage" in fails(schedule(budget=400))


def test_files_that_were_deleted_too_early_would_be_noticed(monkeypatch):
    monkeypatch.setattr(garbage, "_named", lambda manifest: runs.paths(list(manifest.runs.values())[1:]))
    with pytest.raises(Exception, match=r"runs|missing|No such file"):
        run_schedule(schedule((3, "restart", 0.5), (6, "restart", 0.5)))


def test_a_group_that_a_site_was_not_told_of_would_be_noticed(monkeypatch):
    told = Manifest.groups_probed
    monkeypatch.setattr(Manifest, "groups_probed", lambda *one: told(*one) - type(told(*one)).of([1]))
    assert "results were given" in fails(schedule())


def test_what_fails_is_told_with_its_seed(monkeypatch):
    monkeypatch.setattr(SpillPolicy, "suggest", lambda *_: ())
    said = []
    told = chaos(FEW, said.append)
    assert told.failures
    assert all(any(line.startswith(f"seed {seed}: ") for line in said) for seed in told.failures)


def test_it_is_an_experiment_that_anyone_can_run(tmp_path):
    report = reproduce(None, {"chaos": tmp_path}, lambda _: None, quick=True)
    assert report.ok
    assert {"schedules.csv", "chaos.png", "report.json"} <= {path.name for path in tmp_path.iterdir()}
