"""The data of `bench spill`: the papers' five-way query (Spill 6.1) with groups that differ in various ways.

| kind | groups |
|---|---|
| equal | a control: all groups of an operator have its average ratio; there is nothing to choose by |
| independent | a group's ratio is the average times one of `FACTORS`, dealt out for each operator by itself |
| correlated | as independent; but half of Join1's groups fan out, and most of that matches nothing at Join2 |
| drifting | as independent; the factors are dealt out anew after each third of the run |
| skewed | as independent; and a fifth of each operator's groups gets four fifths of the rows |
| fan-out | half of Join1's groups fan out, all else is equal: for the papers' order only, see `order` |
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice

import numpy as np

from watersmeet.adapt.statistics import Floats
from watersmeet.lab.generator import Int64s, JoinColumn
from watersmeet.lab.spill.columns import Column, Drifting, UnequalShares
from watersmeet.lab.spill.futures import NONE, Futures
from watersmeet.runners.counts import Carrier, Level, Stream, Workload, key_group

Ratios = tuple[float, float, float]
RATIOS: tuple[Ratios, ...] = ((3, 1, 1), (1, 3, 3), (3, 2, 3))
"""The papers' average join ratios of the three operators (Spill, Figures 16, 19 and 20)."""

FACTORS = (0.25, 0.5, 1.0, 2.0, 3.0)
PHASES = 3
SKEW = (16.0, 1.0, 1.0, 1.0, 1.0)
"""One group in five gets 16 of 20 rows."""
NOWHERE = 1 << 40
"""Added to a value, it matches nothing."""


@dataclass(frozen=True)
class Size:
    """How much data: rows of each stream in an epoch; a value comes back after ``tuple_range`` rows."""

    epochs: int = 50
    rows: int = 1_200
    tuple_range: int = 30_000
    groups: int = 100


@dataclass(frozen=True)
class FanOut:
    """Every second of Join1's groups has ``times`` the ratio, and ``dropped`` of its rows match nothing at Join2."""

    times: float = 4.0
    dropped: float = 0.9

    def column(self, ratio: float, size: Size, rng: np.random.Generator) -> JoinColumn:
        """The column of Join1."""
        return _column(ratio, _dealt_out((1.0, self.times), size, rng), size)

    def filtered(self, c1: Int64s, c2: Int64s, join1: JoinColumn, rng: np.random.Generator) -> Int64s:
        """Send most rows of the groups that fan out to values that nothing else has."""
        ratios = join1.partition_ratios
        fans_out = (ratios > ratios.mean())[key_group(c1, join1.partitions)]
        return np.where(fans_out & (rng.random(len(c1)) < self.dropped), c2 + NOWHERE, c2)


@dataclass(frozen=True)
class Setting:
    """A kind of data and its ratios."""

    kind: str
    ratios: Ratios
    fan_out: FanOut | None = None

    @property
    def name(self) -> str:
        """For tables."""
        return f"{self.kind} {','.join(f'{ratio:g}' for ratio in self.ratios)}"

    @property
    def unequal(self) -> bool:
        """Whether there is anything to choose by."""
        return self.kind != "equal"

    @property
    def phases(self) -> int:
        """How many distributions the streams are drawn from, one after the other."""
        return PHASES if self.kind == "drifting" else 1

    def phase_at(self, epoch: int, size: Size) -> int:
        """Which of them an epoch is drawn from."""
        return min(epoch * size.rows // (size.epochs * size.rows // self.phases), self.phases - 1)

    def workload(self, size: Size, seed: int, futures: Futures = NONE) -> Workload:
        """Draw the streams; rows of ``futures`` are put behind the run's end."""
        rng = np.random.default_rng([seed, 1])
        join1, join2, join3 = (COLUMNS[self.kind](ratio, size, rng) for ratio in self.ratios)
        draw = _Draw(size, seed, futures)
        c2 = draw(join2)
        if self.fan_out is None:
            c1 = draw(join1)
        else:
            join1 = self.fan_out.column(self.ratios[0], size, rng)
            c1 = draw(join1)
            c2 = self.fan_out.filtered(c1, c2, join1, rng)
        epochs = size.epochs + futures.after_the_end(self.phases)
        epoch = np.repeat(np.arange(epochs), size.rows)
        levels = [
            Level((Stream(epoch, draw(join1)), Stream(epoch, draw(join1))), Carrier(epoch, c1, next_key=c2)),
            Level((), Carrier(epoch, draw(join2), next_key=draw(join3))),
            Level((Stream(epoch, draw(join3)),)),
        ]
        return Workload.prepare(levels, epochs, size.groups)


class _Draw:
    """Draws one column of one stream at a time, each from a generator of its own."""

    def __init__(self, size: Size, seed: int, futures: Futures) -> None:
        self.size, self.seed, self.futures, self.drawn = size, seed, futures, 0

    def __call__(self, column: Column) -> Int64s:
        self.drawn += 1
        chunks = column.chunks(np.random.default_rng([self.seed, 2, self.drawn]), self.size.rows)
        imagined = self.futures.rows(column, [self.seed, 3, self.drawn], self.size.rows)
        return np.concatenate([*islice(chunks, self.size.epochs), *imagined])


def _column(average: float, factors: Floats, size: Size) -> JoinColumn:
    return JoinColumn(size.tuple_range, (average * factors / factors.mean()).tolist(), size.groups, key_group)


def _dealt_out(factors: tuple[float, ...], size: Size, rng: np.random.Generator) -> Floats:
    return rng.permutation(np.resize(np.asarray(factors), size.groups))


def _equal(ratio: float, size: Size, rng: np.random.Generator) -> Column:
    return _column(ratio, _dealt_out((1.0,), size, rng), size)


def _independent(ratio: float, size: Size, rng: np.random.Generator) -> JoinColumn:
    return _column(ratio, _dealt_out(FACTORS, size, rng), size)


def _drifting(ratio: float, size: Size, rng: np.random.Generator) -> Column:
    columns = tuple(_independent(ratio, size, rng) for _ in range(PHASES))
    return Drifting(columns, size.epochs * size.rows // PHASES)


def _skewed(ratio: float, size: Size, rng: np.random.Generator) -> Column:
    plain = _independent(ratio, size, rng)
    shares = _dealt_out(SKEW, size, rng).tolist()
    return UnequalShares(plain.tuple_range, plain.ratios, plain.partitions, plain.partition_of, shares)


COLUMNS: dict[str, Callable[[float, Size, np.random.Generator], Column]] = {
    "equal": _equal,
    "independent": _independent,
    "correlated": _independent,
    "drifting": _drifting,
    "skewed": _skewed,
    "fan-out": _equal,
}


SETTINGS: tuple[Setting, ...] = tuple(
    Setting(kind, ratios, FanOut() if kind == "correlated" else None)
    for kind in ("equal", "independent", "correlated", "drifting", "skewed")
    for ratios in RATIOS
)
