"""Not of the papers: every policy in every experiment of the two papers in which groups move, beside the default.

Those of Flux are run in the simulator, by their own parameters. Those of Lazy/Active are run on counts, by the shipped
driver (`watersmeet.lab.reproduce.counted`): what counts there are results at run time, as in the paper. Of figures 14
to 16, these are the same whatever moves, as nothing has to be spilled: that moves are nearly free is seen on Spark.

A policy's *score* in an experiment is what it gives in proportion to the best one's; of latencies, the other way round.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from watersmeet.adapt.moving.policies import NAMES
from watersmeet.lab.reproduce.bench import Bench
from watersmeet.lab.reproduce.counted import Tuned, counted, workload_of
from watersmeet.lab.reproduce.experiment import Experiment, Outcome
from watersmeet.lab.reproduce.experiments.fluxes import (
    AUTO,
    DELTA_MIN_MS,
    PARTITIONS_A_MACHINE,
    SEED,
    Scale,
    at_end,
    outcome,
    run,
    scale,
)
from watersmeet.lab.reproduce.experiments.shortage import course
from watersmeet.lab.reproduce.experiments.sites import ALTERNATING, BY_SITE, SPILLING, UNEVEN
from watersmeet.lab.reproduce.figures import bars
from watersmeet.lab.reproduce.findings import Finding
from watersmeet.lab.reproduce.spread import NO_BUDGET, Spread
from watersmeet.lab.reproduce.tables import Table
from watersmeet.lab.simulator import Course, Disturbance, Traffic
from watersmeet.lab.simulator.traffic import LOADED, from_then_on

NEAR = 0.95
"""Within five hundredths of the best."""

PAYING_DELTA_MS = 250.0
"""The collection phase from which on, in figure 8, moves pay."""

LOADED_PARTS = (1 / 32, 1 / 4, 1 / 2)
LAST = 10
"""Seconds that are the end of a run with little memory."""

Values = Mapping[str, float]
"""What every policy gives."""


@dataclass(frozen=True)
class Compared:
    """An experiment: what is measured, what every policy gives, and whether less is better."""

    name: str
    measured: str
    values: Values
    is_less_better: bool = False

    @property
    def scores(self) -> dict[str, float]:
        """What each gives in proportion to the best one.

        >>> Compared("x", "results", {"none": 50.0, "auto": 100.0}).scores
        {'none': 0.5, 'auto': 1.0}
        >>> Compared("x", "latency", {"none": 50.0, "auto": 100.0}, is_less_better=True).scores
        {'none': 1.0, 'auto': 0.5}
        """
        values = self.values.values()
        if self.is_less_better:
            return {name: min(values) / max(value, 1e-9) for name, value in self.values.items()}
        return {name: value / max(*values, 1e-9) for name, value in self.values.items()}


@dataclass(frozen=True)
class Figure:
    """A figure of Lazy/Active: its setting, the memory of a site as a part of the state, and parameters."""

    name: str
    setting: Spread
    part: float | None
    tuned: Tuned


FIGURES = (
    Figure("lazy-14", ALTERNATING, None, Tuned(0.9, 3, SPILLING)),
    Figure("lazy-15", ALTERNATING, None, Tuned(0.9, 1, SPILLING)),
    Figure("lazy-16", ALTERNATING, None, Tuned(0.9, 1, SPILLING)),
    Figure("lazy-17", UNEVEN, 4 / 9, Tuned(0.8, 1, SPILLING)),
    Figure("lazy-20", UNEVEN, 0.2, Tuned(0.8, 1, SPILLING)),
    Figure("lazy-21", BY_SITE, 0.15, Tuned(0.8, 1, SPILLING)),
)


def _of_lazy(figure: Figure, *, quick: bool) -> Compared:
    size = figure.setting.size(quick=quick)
    workload = workload_of(figure.setting, size)
    free = counted(figure.setting, workload, "none", figure.tuned)
    budget = NO_BUDGET if figure.part is None else round(figure.part * free.live_bytes)
    found = {name: counted(figure.setting, workload, name, figure.tuned, budget) for name in NAMES}
    return Compared(figure.name, "results at run time", {name: float(each.results) for name, each in found.items()})


def _of_flux(size: Scale, memory: Scale) -> Iterator[Compared]:
    traffic = Traffic.skewed(size.machines * PARTITIONS_A_MACHINE, np.random.default_rng(SEED))
    a_second = "tuples a second"
    yield Compared("flux-06", a_second, _each(lambda name: _loaded(size, name, 1).mean_per_second))
    counts = [max(1, round(part * size.machines)) for part in LOADED_PARTS]
    degraded = _each(lambda name: float(np.mean([at_end(_loaded(size, name, count)) for count in counts])))
    yield Compared("flux-07", f"{a_second} at the end, a mean of {len(counts)} loads", degraded)
    still = Disturbance(size.machines)
    skewed = _each(lambda name: run(size, name, still, traffic, PAYING_DELTA_MS).mean_per_second)
    yield Compared("flux-08", a_second, skewed)
    courses = {name: course(memory, name) for name in NAMES}
    yield Compared("flux-09", a_second, {name: each.mean_per_second for name, each in courses.items()})
    latency = {name: 1000.0 * float(np.mean(each.latency_ms[-LAST:])) for name, each in courses.items()}
    yield Compared("flux-10", f"mean latency of the last {LAST} s, us", latency, is_less_better=True)


def _loaded(size: Scale, name: str, count: int) -> Course:
    order = np.random.default_rng(SEED).permutation(size.machines).tolist()
    disturbance = Disturbance(size.machines, from_then_on(1000.0, size.machines, order[:count], LOADED))
    return run(size, name, disturbance, delta_min_ms=DELTA_MIN_MS)


def _each(measured: Callable[[str], float]) -> dict[str, float]:
    return {name: measured(name) for name in NAMES}


def mean_scores(compared: list[Compared]) -> dict[str, float]:
    """The mean score of every policy."""
    return {name: float(np.mean([each.scores[name] for each in compared])) for name in NAMES}


def judge(compared: list[Compared]) -> list[Finding]:
    """Whether the default is near the best in each, and ahead of each in the mean."""
    behind = [f"{each.name} {each.scores[AUTO]:.2f}" for each in compared if each.scores[AUTO] < NEAR]
    least = min(compared, key=lambda each: each.scores[AUTO])
    means = mean_scores(compared)
    others = {name: score for name, score in means.items() if name != AUTO}
    best = max(others, key=others.__getitem__)
    return [
        Finding(
            "(ours) The default is within 5 % of the best single policy in every experiment.",
            f"behind in {', '.join(behind)}" if behind else f"at least {least.scores[AUTO]:.2f}, in {least.name}",
            not behind,
        ),
        Finding(
            "(ours) In the mean of all it is better than each of them.",
            f"auto {means[AUTO]:.2f}, {best} {others[best]:.2f}; "
            + ", ".join(f"{name} {score:.2f}" for name, score in others.items() if name != best),
            means[AUTO] > others[best],
        ),
    ]


def _measure(bench: Bench) -> Outcome:
    compared: list[Compared] = []
    for figure in FIGURES:
        compared.append(_of_lazy(figure, quick=bench.quick))
        bench.say(_told(compared[-1]))
    for each in _of_flux(scale(bench, 24.0), scale(bench, 60.0)):
        compared.append(each)
        bench.say(_told(each))
    rows = [
        (each.name, each.measured, name, each.values[name], each.scores[name]) for each in compared for name in NAMES
    ]
    table = Table(("experiment", "measured", "policy", "value", "score"), rows)
    means = Table(("policy", "mean_score"), list(mean_scores(compared).items()))
    worst = {name: min(each.scores[name] for each in compared) for name in NAMES}
    picture = bars({"mean score": mean_scores(compared), "least score": worst}, "Every policy in every experiment")
    return outcome(bench, judge(compared), {"scores": table, "means": means}, picture)


def _told(each: Compared) -> str:
    return f"{each.name}: " + ", ".join(f"{name} {score:.2f}" for name, score in each.scores.items())


EXPERIMENT = Experiment(
    "policies", "ours", "Every policy in every experiment of the two papers", _measure, needs_spark=False
)
