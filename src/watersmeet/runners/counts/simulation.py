"""Run a workload epoch by epoch under a memory budget: the shipped driver over the runner of counts.

What is spilled, when and where is the driver's decision, as on Spark. Budgets are per site; groups are spread evenly or
by weights, and stay where they are unless an *adaptation* moves them. Nothing is cleaned up at run time, and nothing is
stored.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from watersmeet.adapt.policy import MemoryOptions
from watersmeet.adapt.spilling import DEFAULT_STRATEGY
from watersmeet.adapt.spilling.policy import Choose
from watersmeet.driver.checkpoint import Expectation
from watersmeet.driver.progress import StepMetrics
from watersmeet.driver.start import DriverOptions, start_driver
from watersmeet.runners.counts.outcome import Outcome
from watersmeet.runners.counts.runner import CountsRunner, Pace
from watersmeet.runners.counts.versions import UnstoredVersions
from watersmeet.runners.counts.workload import Workload

Decide: TypeAlias = Callable[[CountsRunner], Choose]
"""Who takes the place of a strategy. It may look at the run itself, and go on with a copy of its counts."""


@dataclass(frozen=True)
class Limits:
    """How much each site may hold, and how it is freed."""

    budget_bytes: int
    sites: int = 2
    spill_fraction: float = 0.3
    seed: int = 0
    weights: tuple[float, ...] = ()


class Simulation:
    """A run in progress; without limits nothing is ever spilled."""

    def __init__(
        self,
        workload: Workload,
        limits: Limits | None = None,
        decide: str | Decide = DEFAULT_STRATEGY,
        adaptation: str = "none",
        pace: Pace = Pace(),  # noqa: B008 -- a value
    ) -> None:
        self.runner = CountsRunner(workload, pace)
        sites, weights = (limits.sites, limits.weights) if limits else (1, ())
        groups = workload.groups
        expected = Expectation("simulation", self.runner.plan, groups, groups, sites, weights)
        memory = _memory(workload, limits, decide)
        choose = None if isinstance(decide, str) else decide(self.runner)
        self.versions = UnstoredVersions(expected.first_manifest())
        options = DriverOptions("simulation", expected, memory, choose=choose, adaptation=adaptation)
        self.loop = start_driver(self.versions, self.runner, options)
        self.steps: list[StepMetrics] = []

    def step(self) -> StepMetrics:
        """Take the next epoch; what it did."""
        epoch = len(self.steps)
        self.loop.batch(epoch, epoch)
        metrics = self.loop.history.get(epoch)
        if metrics is None:
            raise ValueError(epoch)
        self.steps.append(metrics)
        return metrics

    def outcome(self) -> Outcome:
        """What happened so far."""
        workload = self.runner.workload
        sizes = tuple(workload.result_bytes(level) for level in range(len(workload.levels)))
        return Outcome.of(self.steps, self.versions.events(), sizes)


def simulate(
    workload: Workload,
    limits: Limits | None = None,
    decide: str | Decide = DEFAULT_STRATEGY,
    epochs: int | None = None,
) -> Outcome:
    """Run all epochs, or the first so many, with a strategy or whoever takes its place."""
    run = Simulation(workload, limits, decide)
    for _ in range(workload.epochs if epochs is None else epochs):
        run.step()
    return run.outcome()


def _memory(workload: Workload, limits: Limits | None, decide: str | Decide) -> MemoryOptions:
    """An epoch closes one generation of an operator at most: with so many allowed, there is never one too many."""
    if limits is None:
        return MemoryOptions()
    return MemoryOptions(
        limits.budget_bytes,
        decide if isinstance(decide, str) else "",
        limits.spill_fraction,
        limits.seed,
        generations_max=workload.epochs,
    )
