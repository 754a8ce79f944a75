"""The simulated cluster: what goes in comes out, hardware bounds it, and the same seed gives the same."""

from collections import Counter

import numpy as np
import pytest

from watersmeet.adapt.moving.flux import FluxPolicy
from watersmeet.adapt.moving.flux_memory import FluxMemoryPolicy
from watersmeet.adapt.moving.policies import ADAPTATIONS
from watersmeet.adapt.moving.rounds import Rounds
from watersmeet.adapt.policy import MemoryOptions
from watersmeet.lab.reproduce.experiments import EXPERIMENTS
from watersmeet.lab.reproduce.run import reproduce
from watersmeet.lab.simulator import Cluster, Disturbance, Hardware, Traffic, simulate
from watersmeet.lab.simulator.run import first_manifest
from watersmeet.lab.simulator.traffic import LOADED, from_then_on, in_turn
from watersmeet.state.invariants import check

MACHINES, A_MACHINE = 4, 8


def cluster(buffer=256.0, *, seed=1, traffic=None, hardware=None, is_exchange=False):
    hardware = hardware or Hardware(machines=MACHINES)
    sent = traffic or Traffic.even(MACHINES * A_MACHINE)
    return Cluster(hardware, sent, np.random.default_rng(seed), buffer * MACHINES, is_exchange)


def loaded(*machines, start_ms=0.0):
    return Disturbance(MACHINES, from_then_on(start_ms, MACHINES, list(machines), LOADED))


def flux():
    return FluxPolicy(rounds=Rounds(delta_min_ms=10.0))


def test_the_first_manifest_holds_what_every_manifest_must():
    check(first_manifest(32, 4, 800e3))


def test_undisturbed_machines_are_nearly_always_busy():
    course = simulate(cluster(2048.0), 3, Disturbance(MACHINES))
    assert course.mean_per_second == pytest.approx(MACHINES * 1000 / 0.045, rel=0.05)
    assert course.latency_ms == pytest.approx([0.045] * 3)


def test_no_tuple_waits_beyond_what_queues_and_buffer_hold():
    one = cluster(100.0)
    for _ in range(200):
        one.step(2.0, np.array([LOADED, 1.0, 1.0, 1.0]), np.ones(MACHINES))
        waits = np.bincount(one.site, one.waiting, minlength=MACHINES)
        beyond = np.maximum(waits - one.hardware.queue_tuples, 0).sum()
        assert beyond <= 1.1 * one.buffer_tuples + MACHINES * 30
        assert (one.waiting >= 0).all()


def test_one_slow_machine_holds_all_up_and_a_buffer_only_for_a_while():
    static = simulate(cluster(256.0), 4, loaded(0))
    assert static.tuples[-1] == pytest.approx(LOADED * MACHINES * 1000 / 0.045, rel=0.1)
    assert static.tuples[0] > 1.1 * static.tuples[-1]


def test_a_shared_buffer_beats_parts_of_it_under_a_load_that_goes_round():
    turns = Disturbance(MACHINES, in_turn(100.0, MACHINES, LOADED))
    shared, parts = (simulate(cluster(128.0, is_exchange=each), 2, turns).mean_per_second for each in (False, True))
    none = simulate(cluster(0.0), 2, turns).mean_per_second
    assert shared > 1.05 * parts
    assert parts >= none


def test_flux_takes_the_work_off_a_slow_machine():
    static, moved = simulate(cluster(), 8, loaded(0)), simulate(cluster(), 8, loaded(0), [flux()])
    assert moved.tuples[-1] > 1.4 * static.tuples[-1]
    assert Counter(before for _, _, before, _ in moved.moves).most_common(1)[0][0] == 0
    assert all("busy" in reason for reason in moved.reasons)


@pytest.mark.long
def test_the_default_policy_does_so_too_and_leaves_even_machines_alone():
    auto = ADAPTATIONS["auto"]
    moved = simulate(cluster(), 8, loaded(0), [auto(MemoryOptions())], epoch_ms=100.0)
    assert moved.tuples[-1] > 1.4 * simulate(cluster(), 8, loaded(0)).tuples[-1]
    assert simulate(cluster(2048.0), 8, Disturbance(MACHINES), [auto(MemoryOptions())], epoch_ms=100.0).moves == []


@pytest.mark.long
def test_a_machine_short_of_memory_stands_still_then_takes_turns_and_recovers_by_moves():
    hardware = Hardware(machines=MACHINES, memory_bytes=16e6)
    traffic = Traffic.even(MACHINES * A_MACHINE, 1e6)
    half = Disturbance(MACHINES, None, from_then_on(1000.0, MACHINES, [0], 0.25))
    static = simulate(cluster(traffic=traffic, hardware=hardware), 8, half, epoch_ms=50.0)
    assert static.tuples[-1] < 0.6 * static.tuples[0]
    assert static.latency_ms[-1] > 100 * static.latency_ms[0]
    policy = FluxMemoryPolicy(rounds=Rounds(delta_min_ms=10.0))
    moved = simulate(cluster(traffic=traffic, hardware=hardware), 8, half, [policy], epoch_ms=50.0)
    assert moved.tuples[-1] > 0.75 * moved.tuples[0], "ten partitions on a machine instead of eight"
    assert moved.latency_ms[-1] == pytest.approx(0.045)


@pytest.mark.parametrize("policy", sorted(ADAPTATIONS))
def test_the_same_seed_gives_the_same_course_under_every_policy(policy):
    once, again = (
        simulate(cluster(seed=3), 2, loaded(1), [ADAPTATIONS[policy](MemoryOptions())], epoch_ms=50.0) for _ in range(2)
    )
    assert once == again


@pytest.mark.long
def test_experiments_in_the_simulator_need_no_spark(tmp_path):
    names = [name for name, each in EXPERIMENTS.items() if not each.needs_spark]
    flux = ["flux-03", "flux-06", "flux-07", "flux-08", "flux-09", "flux-10", "flux-1000"]
    assert names == [*flux, "policies", *(f"psp-8{letter}" for letter in "abcdefgh"), "chaos"]
    said = []
    told = reproduce(None, {name: tmp_path / name for name in names[:2]}, said.append, quick=True)
    assert said
    assert told.ok
    for name in names[:2]:
        assert {path.suffix for path in (tmp_path / name).iterdir()} == {".png", ".svg", ".csv", ".json"}


def test_a_thousand_machines_take_seconds(tmp_path):
    some = cluster(traffic=Traffic.even(4000), hardware=Hardware(machines=1000))
    course = simulate(some, 1, Disturbance(1000), [flux()], epoch_ms=200.0, slice_ms=5.0)
    assert course.mean_per_second == pytest.approx(1000 * 1000 / 0.045, rel=0.05)
    told = reproduce(None, {"flux-1000": tmp_path}, lambda _: None, quick=True)
    assert told.ok
    assert (tmp_path / "flux-1000.png").exists()
