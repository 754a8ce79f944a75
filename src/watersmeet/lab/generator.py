"""The papers' data generator: a value appears R times in every K tuples (Spill 6.1, Lazy/Active 3.4).

R is the *range join ratio*, K the *tuple range*. Ratios may differ by partition; the mean over the partitions is the
*average join ratio* of an operator. A join column is made so:

1. Every partition gets the same share of a range, K / partitions tuples, so partitions of different ratios differ in
   what they yield and not in size. A share of ratio R is filled by share / R values, rounded so that errors cancel out.
2. The values of partition p are the smallest integers that ``partition_of`` puts there. By default that is the
   remainder; an engine that hashes its keys passes its own function, or its groups would each mix all ratios.
3. A range repeats each value R times and shuffles. A broken R is rounded up or down at random, each time anew, with R
   as its mean; the choice is systematic sampling, so a range's length is off by less than one.
4. Ranges follow one another for ever, over the same values. Hence a tuple of a 3-way join finds R * R results in the
   first range and 2R * 2R in the second, as in the papers.

Streams that are joined share a ``JoinColumn`` and draw from it independently. Memory is one range per column and one
epoch. The same seed gives the same tables.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Int64s: TypeAlias = NDArray[np.int64]
PartitionOf: TypeAlias = Callable[[Int64s, int], Int64s]
Ratio: TypeAlias = float | Sequence[float]
Shapes: TypeAlias = Mapping[str, Mapping[str, "JoinColumn | None"]]

PARTITIONS = 300
"""The papers' number of partitions per input."""

CANDIDATES_MAX = 2**26
"""How far to look for the values of a partition: 64 Mi integers of 8 bytes are 512 MiB."""


def modulo(values: Int64s, partitions: int) -> Int64s:
    """Put a value into the partition of its remainder.

    >>> modulo(np.arange(5), 3).tolist()
    [0, 1, 2, 0, 1]
    """
    return values % partitions


@dataclass(frozen=True)
class JoinColumn:
    """The values of one join; ``ratios`` go round over the partitions, so (4, 2, 1) makes thirds.

    >>> column = JoinColumn(tuple_range=12, ratios=(3, 1), partitions=2)
    >>> column.values.tolist(), column.value_ratios.tolist()
    ([0, 2, 1, 3, 5, 7, 9, 11], [3.0, 3.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    >>> sorted(next(column.ranges(np.random.default_rng(0))).tolist())
    [0, 0, 0, 1, 2, 2, 2, 3, 5, 7, 9, 11]
    """

    tuple_range: int
    ratios: Sequence[float]
    partitions: int = PARTITIONS
    partition_of: PartitionOf = modulo

    def __post_init__(self) -> None:
        if not self.ratios or min(self.ratios) <= 0:
            raise ValueError(f"ratios are {list(self.ratios)}: give one or more, all above 0")
        if self.tuple_range < max(self.ratios):
            raise ValueError(f"a range of {self.tuple_range} tuples cannot hold a value {max(self.ratios)} times")

    @cached_property
    def values(self) -> Int64s:
        """All values, partition by partition."""
        return _smallest_values(self._values_per_partition, self.partition_of)

    @cached_property
    def value_ratios(self) -> NDArray[np.float64]:
        """How often each of the values appears in a range."""
        return np.repeat(self.partition_ratios, self._values_per_partition)

    @property
    def partition_ratios(self) -> NDArray[np.float64]:
        """The ratio of each partition."""
        return np.resize(np.asarray(self.ratios, dtype=np.float64), self.partitions)

    @property
    def range_rows(self) -> float:
        """The mean length of a range: K, or as near to it as whole values come."""
        return float(self.value_ratios.sum())

    def ranges(self, rng: np.random.Generator) -> Iterator[Int64s]:
        """Draw one range after another, for ever."""
        while True:
            times = _round_at_random(self.value_ratios, rng)
            yield rng.permutation(np.repeat(self.values, times))

    def chunks(self, rng: np.random.Generator, rows: int) -> Iterator[Int64s]:
        """Draw the same sequence in pieces of a given length."""
        ranges, rest = self.ranges(rng), np.empty(0, dtype=np.int64)
        while True:
            pieces, have = [rest], len(rest)
            while have < rows:
                pieces.append(next(ranges))
                have += len(pieces[-1])
            joined = np.concatenate(pieces) if len(pieces) > 1 else rest
            yield joined[:rows]
            rest = joined[rows:]

    @cached_property
    def _values_per_partition(self) -> Int64s:
        """Fill the shares one by one; what a share lacks or has too much, the next one makes good."""
        counts, used = [], 0.0
        for partition, ratio in enumerate(self.partition_ratios.tolist(), start=1):
            due = self.tuple_range * partition / self.partitions
            counts.append(max(0, round((due - used) / ratio)))
            used += counts[-1] * ratio
        return np.asarray(counts, dtype=np.int64)


def spread_ratios(average: float, spread: float, partitions: int = PARTITIONS, seed: int = 0) -> tuple[float, ...]:
    """Give ratios of a mean that run evenly from ``average * (1 - spread)`` to ``average * (1 + spread)``, shuffled.

    >>> sorted(spread_ratios(3, 0.5, partitions=3))
    [1.5, 3.0, 4.5]
    """
    if not 0 <= spread < 1:
        raise ValueError(f"spread is {spread}: it must be at least 0 and below 1, or a ratio would be 0")
    steps = np.linspace(-spread, spread, partitions) if partitions > 1 else np.zeros(1)
    return tuple(np.random.default_rng(seed).permutation(average * (1 + steps)).tolist())


def generate(
    shapes: Shapes, *, seed: int, epochs: int, rows_per_epoch: int, payload_bytes: int = 16
) -> Iterator[dict[str, pa.Table]]:
    """Make the epochs of some streams, one at a time: each stream's join columns, row numbers (None) and a payload.

    >>> shapes = {"A": {"a1": JoinColumn(4, [2], partitions=1), "a2": None}}
    >>> [epoch] = generate(shapes, seed=1, epochs=1, rows_per_epoch=4, payload_bytes=3)
    >>> epoch["A"].sort_by("a1").select(["a1"]).to_pydict(), epoch["A"]["payload"].to_pylist()
    ({'a1': [0, 0, 1, 1]}, ['000', '001', '002', '003'])
    """
    streams = {
        name: _epochs_of(columns, [seed, number], rows_per_epoch, payload_bytes)
        for number, (name, columns) in enumerate(shapes.items())
    }
    for _ in range(epochs):
        yield {name: next(tables) for name, tables in streams.items()}


def five_way(  # noqa: PLR0913 - the papers' factors
    seed: int,
    epochs: int,
    rows_per_epoch: int,
    tuple_range: int,
    ratios: Sequence[Ratio] = (3, 1, 1),
    spread: float = 0.0,
    *,
    payload_bytes: int = 16,
    partitions: int = PARTITIONS,
    partition_of: PartitionOf = modulo,
) -> dict[str, list[pa.Table]]:
    """Make the five streams of Spill 6.1: A.a1 = B.b1 = C.c1, then C.c2 = D.d1, then D.d2 = E.e1.

    ``ratios`` are the joins' average join ratios, run apart by ``spread``, or a join's ratios by partition. The second
    columns that no join uses count the rows.

    >>> streams = five_way(seed=1, epochs=2, rows_per_epoch=3, tuple_range=30)
    >>> {name: len(tables) for name, tables in streams.items()}
    {'A': 2, 'B': 2, 'C': 2, 'D': 2, 'E': 2}
    >>> streams["C"][0].column_names
    ['c1', 'c2', 'payload']
    """
    join1, join2, join3 = (
        JoinColumn(tuple_range, _ratios(ratio, spread, partitions, seed + number), partitions, partition_of)
        for number, ratio in enumerate(ratios)
    )
    shapes: Shapes = {
        "A": {"a1": join1, "a2": None},
        "B": {"b1": join1, "b2": None},
        "C": {"c1": join1, "c2": join2},
        "D": {"d1": join2, "d2": join3},
        "E": {"e1": join3, "e2": None},
    }
    made = generate(shapes, seed=seed, epochs=epochs, rows_per_epoch=rows_per_epoch, payload_bytes=payload_bytes)
    return _by_stream(shapes, made)


def three_way(  # noqa: PLR0913 - the papers' factors
    seed: int,
    epochs: int,
    rows_per_epoch: int,
    tuple_range: int,
    ratio: Ratio = 1,
    *,
    payload_bytes: int = 16,
    partitions: int = PARTITIONS,
    partition_of: PartitionOf = modulo,
) -> dict[str, list[pa.Table]]:
    """Make the three streams of Lazy/Active 3.4: A.a1 = B.b1 = C.c1; a sequence of ratios goes round by partition.

    >>> three_way(seed=1, epochs=1, rows_per_epoch=3, tuple_range=30, ratio=(4, 2, 1))["A"][0].num_rows
    3
    """
    join = JoinColumn(tuple_range, _ratios(ratio, 0.0, partitions, seed), partitions, partition_of)
    return three_way_of(join, seed, epochs, rows_per_epoch, payload_bytes)


def three_way_of(
    join: JoinColumn, seed: int, epochs: int, rows_per_epoch: int, payload_bytes: int = 16
) -> dict[str, list[pa.Table]]:
    """Make three streams that share a column."""
    shapes: Shapes = {name: {f"{name.lower()}1": join, f"{name.lower()}2": None} for name in "ABC"}
    made = generate(shapes, seed=seed, epochs=epochs, rows_per_epoch=rows_per_epoch, payload_bytes=payload_bytes)
    return _by_stream(shapes, made)


def _ratios(ratio: Ratio, spread: float, partitions: int, seed: int) -> Sequence[float]:
    return spread_ratios(ratio, spread, partitions, seed) if isinstance(ratio, int | float) else ratio


def _by_stream(shapes: Shapes, epochs: Iterator[dict[str, pa.Table]]) -> dict[str, list[pa.Table]]:
    made = list(epochs)
    return {name: [tables[name] for tables in made] for name in shapes}


def _epochs_of(
    columns: Mapping[str, JoinColumn | None], seed: list[int], rows: int, payload_bytes: int
) -> Iterator[pa.Table]:
    """Make a stream's epochs; every column draws from a generator of its own."""
    drawn = [
        column.chunks(np.random.default_rng([*seed, number]), rows) if column else _row_numbers(rows)
        for number, column in enumerate(columns.values())
    ]
    for numbers in _row_numbers(rows):
        arrays = [pa.array(next(chunks)) for chunks in drawn]
        yield pa.table([*arrays, _payload(numbers, payload_bytes)], names=[*columns, "payload"])


def _row_numbers(rows: int) -> Iterator[Int64s]:
    return (np.arange(first, first + rows, dtype=np.int64) for first in itertools.count(0, rows or 1))


def _payload(numbers: Int64s, width: int) -> pa.Array:
    """Write row numbers in decimal, led by zeros, all of one width.

    >>> _payload(np.array([7, 42]), 4).to_pylist()
    ['0007', '0042']
    """
    digits = np.full((len(numbers), width), ord("0"), dtype=np.uint8)
    for place in range(min(width, 18)):
        digits[:, width - 1 - place] += (numbers // 10**place % 10).astype(np.uint8)
    ends = np.arange(len(numbers) + 1, dtype=np.int32) * np.int32(width)
    return pa.StringArray.from_buffers(len(numbers), pa.py_buffer(ends), pa.py_buffer(digits))


def _smallest_values(wanted: Int64s, partition_of: PartitionOf) -> Int64s:
    """Give the first so many integers of every partition, looking further until there are enough."""
    looked_at = 2 * int(wanted.sum()) + len(wanted)
    while looked_at <= CANDIDATES_MAX:
        candidates = np.arange(looked_at, dtype=np.int64)
        order, partitions = _grouped(partition_of(candidates, len(wanted)))
        starts = np.searchsorted(partitions, np.arange(len(wanted)))
        rank = np.arange(looked_at) - starts[partitions]
        kept = rank < wanted[partitions]
        if int(kept.sum()) == int(wanted.sum()):
            return candidates[order][kept]
        looked_at *= 2
    raise ValueError(f"partition_of leaves partitions short of values among the first {CANDIDATES_MAX} integers")


def _grouped(partitions: Int64s) -> tuple[Int64s, Int64s]:
    order = np.argsort(partitions, kind="stable")
    return order, partitions[order]


def _round_at_random(ratios: NDArray[np.float64], rng: np.random.Generator) -> Int64s:
    """Round each ratio up or down with itself as the mean, and their sum to a neighbour of the sum.

    Lay the ratios end to end, in random order, on a line and count the whole numbers in each, from a random start.

    >>> _round_at_random(np.array([2.0, 1.0]), np.random.default_rng(0)).tolist()
    [2, 1]
    >>> int(_round_at_random(np.full(10, 0.5), np.random.default_rng(0)).sum())
    5
    """
    order = rng.permutation(len(ratios))
    ends = np.cumsum(ratios[order]) + rng.random()
    times = np.empty(len(ratios), dtype=np.int64)
    times[order] = np.diff(np.floor(ends), prepend=0.0).astype(np.int64)
    return times
