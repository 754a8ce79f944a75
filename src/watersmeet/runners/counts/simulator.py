"""Run a workload epoch by epoch under a memory budget, as the engine would.

1. The epoch's rows arrive, level by level from the bottom; each level's results arrive at the next in the same epoch.
2. All results are traced back to the groups of every level they came through, and statistics are updated (Spill,
   Algorithms 1 and 2). Nothing is sampled.
3. At the end of the epoch every site adds up its live bytes. Where they exceed the budget, its groups to spill are
   chosen, at least ``spill_fraction`` of the bytes or what is above the budget, and their generations closed.

Nothing is cleaned up at run time. Budgets are per site, groups are spread evenly and stay where they are.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from watersmeet.adapt.change import learn
from watersmeet.adapt.moving.distribution import even
from watersmeet.adapt.spilling import Candidate, Pressure, choose
from watersmeet.adapt.statistics import Floats, Observation, Statistics
from watersmeet.model.ids import OperatorId, SiteId
from watersmeet.runners.counts.operator import Operator
from watersmeet.runners.counts.outcome import Generation, Outcome
from watersmeet.runners.counts.workload import Workload

Choice: TypeAlias = Mapping[OperatorId, Sequence[int]]
Decide: TypeAlias = Callable[["Simulation", Sequence[Candidate], Pressure], Choice]
"""What to spill. A strategy asks only the candidates; who knows the future looks at the run itself."""


def by(strategy: str) -> Decide:
    """Decide as the engine does, by the name of a strategy."""
    return lambda _, candidates, pressure: choose(strategy, candidates, pressure)


@dataclass(frozen=True)
class Limits:
    """How much each site may hold, and how it is freed."""

    budget_bytes: int
    sites: int = 2
    spill_fraction: float = 0.3
    seed: int = 0


class Simulation:
    """A run in progress."""

    def __init__(self, workload: Workload) -> None:
        self.workload = workload
        self.operators = [Operator(workload, level) for level in range(len(workload.levels))]
        self.statistics = [Statistics.cold(workload.groups, operator.inputs) for operator in self.operators]
        self.produced: list[list[int]] = [[] for _ in self.operators]
        self.live_bytes: list[int] = []
        self.generations: list[Generation] = []
        self.spills = 0

    def step(self, epoch: int) -> None:
        """Steps 1 and 2."""
        arrived: list[Floats] = []
        completed: list[Floats] = []
        for operator in self.operators:
            arrived.append(operator.arrive(epoch, completed[-1] if completed else None))
            completed.append(operator.join(epoch))
        for level, results in enumerate(completed):
            self.produced[level].append(int(results.sum()))
        seen = [self._observe(level, new, completed) for level, new in enumerate(arrived)]
        self.statistics = learn(self.statistics, seen, epoch)
        self.live_bytes.append(int(sum(operator.live_bytes.sum() for operator in self.operators)))

    def relieve(self, epoch: int, limits: Limits, decide: Decide) -> None:
        """Step 3."""
        routing = np.asarray(even(self.workload.groups, limits.sites))
        for site in range(limits.sites):
            candidates = self.candidates(routing == site)
            live = int(sum(candidate.live_bytes.sum() for candidate in candidates))
            if live > limits.budget_bytes:
                pressure = Pressure(limits.budget_bytes, live, limits.spill_fraction, epoch, limits.seed)
                self.spill(epoch, SiteId(site), decide(self, candidates, pressure))

    def candidates(self, here: Floats) -> list[Candidate]:
        """The operators as a site sees them."""
        names = [*(OperatorId(f"join{level + 1}") for level in range(len(self.operators))), None]
        return [
            Candidate(name, level, parent, operator.live_bytes * here, statistics)
            for level, (name, parent, operator, statistics) in enumerate(
                zip(names[:-1], names[1:], self.operators, self.statistics, strict=True)
            )
            if name is not None
        ]

    def outcome(self) -> Outcome:
        """What happened so far."""
        sizes = tuple(self.workload.result_bytes(level) for level in range(len(self.operators)))
        produced = tuple(tuple(results) for results in self.produced)
        return Outcome(produced, tuple(self.live_bytes), self.spills, tuple(self.generations), sizes)

    def _observe(self, level: int, arrived: Floats, completed: Sequence[Floats]) -> Observation:
        operators, root = self.operators, len(self.operators) - 1
        inter = np.zeros(self.workload.groups)
        for above in range(level, root):
            inter += self.workload.result_bytes(above) * operators[above].traced(level, completed[above])
        local = operators[level].traced(level, completed[level])
        final = operators[root].traced(level, completed[root])
        return Observation(arrived.sum(axis=0), local, final, inter, arrived)

    def spill(self, epoch: int, site: SiteId, chosen: Choice) -> None:
        """Close the generations of some groups."""
        self.spills += 1
        for level, operator in enumerate(self.operators):
            name = OperatorId(f"join{level + 1}")
            groups = np.asarray(chosen.get(name, ()), dtype=np.int64)
            self.generations += [
                Generation(name, group, site, epoch, int(operator.live_bytes[group])) for group in groups.tolist()
            ]
            mask = np.zeros(self.workload.groups, dtype=bool)
            mask[groups] = True
            operator.spill(mask)
            self.statistics[level] = self.statistics[level].without(mask)


def simulate(
    workload: Workload, limits: Limits | None = None, decide: Decide | None = None, epochs: int | None = None
) -> Outcome:
    """Run all epochs, or the first so many; without limits nothing is ever spilled."""
    run = Simulation(workload)
    for epoch in range(workload.epochs if epochs is None else epochs):
        run.step(epoch)
        if limits is not None and decide is not None:
            run.relieve(epoch, limits, decide)
    return run.outcome()
