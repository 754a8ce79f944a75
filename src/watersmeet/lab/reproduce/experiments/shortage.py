"""Flux 6.2: the memory of one machine is halved after a second; partitions of 6 MB, 128 on each machine."""

import numpy as np

from watersmeet.lab.reproduce.bench import Bench
from watersmeet.lab.reproduce.experiments.fluxes import AUTO, AUTO_EPOCH_MS, MEMORY, SEED, STATIC, Scale, policy, scale
from watersmeet.lab.simulator import Cluster, Course, Disturbance, Hardware, Traffic, simulate
from watersmeet.lab.simulator.traffic import from_then_on

PARTITIONS, PARTITION_BYTES = 128, 6 * float(1 << 20)
START_MS, HALF = 1000.0, 0.5
EPOCH_MS, SLICE_MS, BUFFER = 50.0, 5.0, 2048.0


def short_of_memory(bench: Bench, number: str) -> dict[str, Course]:
    """A run without moves, and one with the memory-constrained policy."""
    courses = {}
    for name in (STATIC, MEMORY):
        courses[name] = course(scale(bench, 60.0), name)
        bench.say(f"flux-{number}: {name}: {courses[name].tuples[-1]:,.0f} tuples in the last second")
    return courses


def course(size: Scale, name: str) -> Course:
    """A run under a policy."""
    hardware, rng = Hardware(machines=size.machines), np.random.default_rng(SEED)
    traffic = Traffic.even(size.machines * PARTITIONS, PARTITION_BYTES)
    cluster = Cluster(hardware, traffic, rng, BUFFER * size.machines)
    disturbance = Disturbance(size.machines, None, from_then_on(START_MS, size.machines, [0], HALF))
    epoch_ms = AUTO_EPOCH_MS if name == AUTO else EPOCH_MS
    return simulate(cluster, size.seconds, disturbance, policy(name), epoch_ms, SLICE_MS)
