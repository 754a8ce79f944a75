"""One cell of the table: a setting under a budget, with every strategy, over some seeds."""

from collections.abc import Sequence
from functools import lru_cache
from statistics import fmean

import msgspec

from watersmeet.adapt.spilling import STRATEGIES
from watersmeet.lab.spill.clairvoyant import clairvoyant
from watersmeet.lab.spill.informed import informed
from watersmeet.lab.spill.settings import Setting, Size
from watersmeet.runners.counts import Limits, Outcome, Workload, simulate

CLAIRVOYANT, INFORMED = "clairvoyant", "informed"
NAMES = (*STRATEGIES, CLAIRVOYANT)
SITES = 2


class Score(msgspec.Struct, frozen=True):
    """What a strategy achieved: means over the seeds. ``results`` is the share of the unlimited run's results."""

    results: float
    spills: float
    spilled_bytes: float
    cleanup_results: float
    cleanup_bytes: float


class Cell(msgspec.Struct, frozen=True):
    """A setting under a budget, which is a share of the unlimited state; scores by strategy."""

    setting: str
    unequal: bool
    budget: float
    scores: dict[str, Score]


def try_out(setting: Setting, budget: float, size: Size, seeds: Sequence[int], names: Sequence[str] = NAMES) -> Cell:
    """Run all strategies on the same data."""
    scores = {name: _mean([_score(name, setting, budget, size, seed) for seed in seeds]) for name in names}
    return Cell(setting.name, setting.unequal, budget, scores)


def _score(name: str, setting: Setting, budget: float, size: Size, seed: int) -> Score:
    workload, unlimited = _data(setting, size, seed)
    limits = Limits(round(unlimited.peak_bytes * budget / SITES), SITES, seed=seed)
    if name == CLAIRVOYANT:
        outcome = clairvoyant(workload, limits)
    elif name == INFORMED:
        outcome = informed(setting, size, seed, limits)
    else:
        outcome = simulate(workload, limits, name)
    return Score(
        outcome.results / unlimited.results,
        len(outcome.spills),
        outcome.spilled_bytes,
        outcome.missing(unlimited)[-1],
        outcome.cleanup_bytes(unlimited),
    )


@lru_cache(maxsize=4)
def _data(setting: Setting, size: Size, seed: int) -> tuple[Workload, Outcome]:
    workload = setting.workload(size, seed)
    return workload, simulate(workload)


def _mean(scores: Sequence[Score]) -> Score:
    rows = [msgspec.structs.astuple(score) for score in scores]
    return Score(*(fmean(column) for column in zip(*rows, strict=True)))
