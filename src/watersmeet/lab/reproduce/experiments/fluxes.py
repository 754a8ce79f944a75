"""What the experiments of Flux have in common: the cluster of section 3, simulated, with and without policies.

The paper's parameters are those of section 5.4: th_imb 1.2, th_util 0.9, and delta_min of 10 ms unless it is varied.
The default policy, `auto`, runs beside the paper's; it is shown the load ten times a second.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from watersmeet.adapt.moving.flux import FluxPolicy
from watersmeet.adapt.moving.policies import ADAPTATIONS, NONE
from watersmeet.adapt.moving.rounds import Rounds
from watersmeet.adapt.policy import MemoryOptions, Policy
from watersmeet.lab.reproduce.bench import Bench
from watersmeet.lab.reproduce.experiment import Experiment, Outcome
from watersmeet.lab.reproduce.findings import Finding
from watersmeet.lab.reproduce.tables import Table
from watersmeet.lab.simulator import Cluster, Course, Disturbance, Hardware, Traffic, simulate

STATIC, FLUX, AUTO, MEMORY = "static", "flux", "auto", "flux-memory"
DELTA_MIN_MS, AUTO_EPOCH_MS = 10.0, 100.0
BUFFER_TUPLES = 2048
"""Of every producer."""

ABOUT_HALF, NEARLY_ALL, BACK = (0.35, 0.65), 0.85, 0.9
"""Our reading of what the paper says without numbers, as parts of the undisturbed throughput."""

PARTITIONS_A_MACHINE = 64
SEED = 1


@dataclass(frozen=True)
class Scale:
    """How large and how long."""

    machines: int
    seconds: float


def scale(bench: Bench, seconds: float) -> Scale:
    """The paper's 32 machines; a quick run has four, for three seconds."""
    return Scale(4, 3.0) if bench.quick else Scale(32, seconds)


def policy(name: str, delta_min_ms: float = DELTA_MIN_MS) -> list[Policy]:
    """A policy with the paper's parameters, by its name; none that leaves all where it is.

    Those of `auto` that split groups or park them have nothing to do here: partitions have no rows.
    """
    if name in (STATIC, NONE):
        return []
    found = ADAPTATIONS[name](MemoryOptions())
    if isinstance(found, FluxPolicy):
        found.rounds = Rounds(delta_min_ms=delta_min_ms)
    return [found]


def run(
    size: Scale, name: str, disturbance: Disturbance, traffic: Traffic | None = None, delta_min_ms: float = DELTA_MIN_MS
) -> Course:
    """One run under one policy; lots are the same for all."""
    rng = np.random.default_rng(SEED)
    hardware = Hardware(machines=size.machines)
    sent = traffic or Traffic.even(size.machines * PARTITIONS_A_MACHINE)
    cluster = Cluster(hardware, sent, rng, float(BUFFER_TUPLES * size.machines))
    epoch_ms = AUTO_EPOCH_MS if name == AUTO else delta_min_ms
    return simulate(cluster, size.seconds, disturbance, policy(name, delta_min_ms), epoch_ms)


def per_second(courses: Mapping[str, Course]) -> Table:
    """Tuples and latency of every second, and the moves."""
    rows = [
        (name, second, round(count), course.latency_ms[second] * 1000.0, _moves(course, second))
        for name, course in courses.items()
        for second, count in enumerate(course.tuples)
    ]
    return Table(("run", "second", "tuples", "latency_us", "moves"), rows)


def _moves(course: Course, second: int) -> int:
    return sum(count for at_ms, count, _, _ in course.moves if int(at_ms / 1000) == second)


def at_end(course: Course, seconds: int = 3) -> float:
    """Tuples a second at the end of a run."""
    return float(np.mean(course.tuples[-seconds:]))


def outcome(bench: Bench, findings: list[Finding], tables: Mapping[str, Table], figure) -> Outcome:  # type: ignore[no-untyped-def]  # noqa: ANN001
    """No claim is judged by a quick run; counts have no results that could be wrong."""
    claims = [each.unjudged() if bench.quick else each for each in findings]
    return Outcome(claims, tables, figure, exact=True)


def experiment(number: str, title: str, measure: Callable[[Bench], Outcome]) -> Experiment:
    """An experiment in the simulator."""
    return Experiment(f"flux-{number}", f"Flux, Figure {int(number)}", title, measure, needs_spark=False)
