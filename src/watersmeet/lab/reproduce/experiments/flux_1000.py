"""Flux beyond its paper: a thousand machines, a tenth of them loaded, under each policy.

Lots, hardware and policies are those of figure 6. Partitions are fewer: eight a machine, as there are that many more
machines, and one may have to give some of them away.
"""

import time

import numpy as np

from watersmeet.lab.reproduce.bench import Bench
from watersmeet.lab.reproduce.experiment import Experiment, Outcome
from watersmeet.lab.reproduce.experiments.fluxes import (
    AUTO,
    BUFFER_TUPLES,
    FLUX,
    SEED,
    STATIC,
    Scale,
    at_end,
    outcome,
    per_second,
    policy,
)
from watersmeet.lab.reproduce.figures import lines
from watersmeet.lab.reproduce.findings import Finding
from watersmeet.lab.simulator import Cluster, Course, Disturbance, Hardware, Traffic, simulate
from watersmeet.lab.simulator.traffic import LOADED, from_then_on

MACHINES, SECONDS, PART = 1000, 40.0, 0.1
QUICK = Scale(100, 3.0)
PARTITIONS_A_MACHINE, EPOCH_MS, SLICE_MS = 8, 100.0, 5.0
LAST, BETTER, MINUTES_S = 3, 1.25, 600.0
"""Seconds that count as the end; what is clearly better; and "in minutes"."""


def _measure(bench: Bench) -> Outcome:
    size, started = QUICK if bench.quick else Scale(MACHINES, SECONDS), time.monotonic()
    courses: dict[str, Course] = {}
    for name in (STATIC, FLUX, AUTO):
        courses[name] = _course(size, name)
        bench.say(f"flux-1000: {name}: {at_end(courses[name], LAST):,.0f} tuples a second at the end")
    took_s = time.monotonic() - started
    series = {name: (range(len(course.tuples)), course.tuples) for name, course in courses.items()}
    figure = lines(series, f"A tenth of {size.machines:,} machines is loaded", "seconds", "tuples a second")
    return outcome(bench, _findings(size, courses, took_s), {"seconds": per_second(courses)}, figure)


def _course(size: Scale, name: str) -> Course:
    """Every tenth machine has an external load after the first second."""
    machines = size.machines
    loaded = list(range(0, machines, round(1 / PART)))
    traffic = Traffic.even(machines * PARTITIONS_A_MACHINE)
    cluster = Cluster(
        Hardware(machines=machines), traffic, np.random.default_rng(SEED), float(BUFFER_TUPLES * machines)
    )
    disturbance = Disturbance(machines, from_then_on(1000.0, machines, loaded, LOADED))
    return simulate(cluster, size.seconds, disturbance, policy(name), EPOCH_MS, SLICE_MS)


def _findings(size: Scale, courses: dict[str, Course], took_s: float) -> list[Finding]:
    left = {name: at_end(course, LAST) / course.tuples[0] for name, course in courses.items()}
    return [
        *(
            Finding(
                f"(ours) {name} gives back what a tenth of the machines costs all others without moves.",
                f"{left[name]:.0%} of the undisturbed throughput with moves, {left[STATIC]:.0%} without",
                bool(left[name] > BETTER * left[STATIC]),
            )
            for name in (FLUX, AUTO)
        ),
        Finding(
            "(ours) A thousand machines are simulated in minutes.",
            f"{size.machines:,} machines, {len(courses)} times {size.seconds:.0f} s, in {took_s:.0f} s",
            took_s < MINUTES_S,
        ),
    ]


EXPERIMENT = Experiment("flux-1000", "Flux, beyond its figures", "A thousand machines", _measure, needs_spark=False)
