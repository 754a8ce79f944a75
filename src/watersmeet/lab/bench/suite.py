"""What a suite of the benchmarks is."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from watersmeet.lab.bench.contenders import Contender
from watersmeet.lab.bench.data import Tables
from watersmeet.lab.bench.outcome import CORES, Outcome
from watersmeet.lab.bench.pipeline import Pipeline
from watersmeet.lab.bench.report import Comparison, Count, Target
from watersmeet.lab.bench.text import Unit

Outcomes = Mapping[Contender, Outcome]
Judgement = tuple[list[Comparison], list[Count]]


@dataclass(frozen=True)
class Size:
    """How much data: epochs, and rows of each stream in each of them; ``heap`` is that of every JVM."""

    epochs: int
    rows: int
    heap: str


@dataclass(frozen=True)
class Suite:
    """The same data and the same query for some contenders, and what is expected of the outcome.

    Suites of one ``family`` are also run by its name. ``prepared_by`` runs first and once, and leaves its folder to the
    others. Ours has so many ``sites``; those that are ``slow`` take so many times as long.
    """

    name: str
    title: Callable[[Size], str]
    pipeline: Pipeline
    contenders: tuple[Contender, ...]
    full: Size
    quick: Size
    tables: Callable[[Size], Tables]
    judge: Callable[[Size, Outcomes], Judgement]
    budget_bytes: Callable[[Size], int] | None = None
    family: str = ""
    on_cluster: bool = False
    prepared_by: Contender | None = None
    sites: int = CORES
    slow: Mapping[int, float] = field(default_factory=dict)


def gain(what: str, ours: float, theirs: float, unit: Unit, at_least: float | None = None) -> Comparison:
    """How many times less ours is than theirs."""
    target = Target(at_least, at_least=True) if at_least is not None else None
    return Comparison(what, ours, theirs, unit, is_gain=True, target=target)


def share(what: str, ours: float, theirs: float, unit: Unit, at_most: float | None = None) -> Comparison:
    """What part or multiple of theirs ours is."""
    target = Target(at_most, at_least=False) if at_most is not None else None
    return Comparison(what, ours, theirs, unit, is_gain=False, target=target)


def same_results(outcomes: Outcomes, expected: int | None = None, what: str = "results") -> Count:
    """All contenders gave as many results."""
    return Count(what, {name: outcome.results for name, outcome in outcomes.items()}, expected)
