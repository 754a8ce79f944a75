"""Bring together the rows of some keys, key by key, and those of a key *part* by part.

At run time the parts are two: the old rows and the new ones. In cleanup every generation is a part. After gathering,
the rows of a key in one part, and those in all parts up to it, are each one contiguous range, so that every term of a
join is a product of ranges (`watersmeet.operators.join.product`).

Where hashes do not decide equality, rows of one hash are compared with each other. Two keys with one hash are so rare
that the whole part is then simply split up again by key.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.operators.join.equality import key_classes, same_keys
from watersmeet.operators.join.probe import Found, Located
from watersmeet.operators.ranges import Index, expand, offsets
from watersmeet.state.rows import one_batch, take_rows


@dataclass(frozen=True)
class Gathered:
    """The rows of one input, key by key; ``counts[part, key]`` is the number of a key's rows in a part."""

    rows: pa.RecordBatch
    counts: Index

    @property
    def totals(self) -> Index:
        """How many rows each key has."""
        totals: Index = self.counts.sum(axis=0)
        return totals

    @property
    def owners(self) -> Index:
        """The number of the key each row belongs to."""
        return np.repeat(np.arange(self.counts.shape[1]), self.totals)

    def between(self, start: int, stop: int) -> "Gathered":
        """The rows of keys ``start`` to ``stop``."""
        ends = np.concatenate([[0], np.cumsum(self.totals)])
        low, high = int(ends[start]), int(ends[stop])
        return Gathered(self.rows.slice(low, high - low), self.counts[:, start:stop])

    def where(self, kept: npt.NDArray[np.bool_]) -> "Gathered":
        """Some of the rows; keys without any stay."""
        parts, keys = self.counts.shape
        code = (self.part_of_rows * keys + self.owners)[kept]
        counts = np.bincount(code, minlength=parts * keys).reshape(parts, keys)
        return Gathered(take_rows(self.rows, np.flatnonzero(kept)), counts)

    @property
    def part_of_rows(self) -> Index:
        """The number of the part each row belongs to."""
        parts, keys = self.counts.shape
        return np.repeat(np.tile(np.arange(parts), keys), self.counts.T.ravel())


def gather(found: Found, start: int, stop: int) -> Gathered:
    """The rows of keys ``start`` to ``stop`` in one input: the old ones are part 0, the new ones part 1."""
    pieces = [*found.runs, found.delta]
    located = [Located(p.rows, p.starts[start:stop], p.counts[start:stop]) for p in pieces]
    new = located[-1].counts
    counts = np.stack([sum((piece.counts for piece in located[:-1]), start=np.zeros_like(new)), new])
    used = [piece for piece in located if piece.counts.any()]
    batches = [_rows(piece) for piece in used]
    if len(used) == 1:
        return Gathered(batches[0], counts)
    together = one_batch(pa.Table.from_batches(batches))
    return Gathered(take_rows(together, _key_by_key(used)), counts)


def separate(sides: list[Gathered], key_columns: Sequence[Sequence[str]]) -> tuple[list[Gathered], Index]:
    """Tell apart different keys that share a hash; also gives the number of the hash each key has."""
    keys = [side.rows.select(names) for side, names in zip(sides, key_columns, strict=True)]
    owners = [side.owners for side in sides]
    first = keys[0].take(pa.array(offsets(sides[0].totals)))
    if all(same_keys(first.take(pa.array(o)), k) for o, k in zip(owners, keys, strict=True)):
        return sides, np.arange(sides[0].counts.shape[1])
    kinds, hash_of = key_classes(keys, owners)
    return [_regroup(side, kind, len(hash_of)) for side, kind in zip(sides, kinds, strict=True)], hash_of


def _rows(part: Located) -> pa.RecordBatch:
    used = np.flatnonzero(part.counts)
    low, high = int(part.starts[used[0]]), int(part.starts[used[-1]] + part.counts[used[-1]])
    if high - low == int(part.counts.sum()):
        return part.rows.rows.slice(low, high - low)
    return take_rows(part.rows.rows, expand(part.starts, part.counts))


def _key_by_key(parts: Sequence[Located]) -> Index:
    """The order that turns pieces one after the other into keys one after the other."""
    targets = offsets(np.sum([part.counts for part in parts], axis=0, dtype=np.int64))
    places = []
    for part in parts:
        places.append(expand(targets, part.counts))
        targets = targets + part.counts
    place = np.concatenate(places)
    order = np.empty_like(place)
    order[place] = np.arange(len(place))
    return order


def _regroup(side: Gathered, kind: Index, count: int) -> Gathered:
    part = side.part_of_rows
    counts = [np.bincount(kind[part == number], minlength=count) for number in range(len(side.counts))]
    return Gathered(take_rows(side.rows, np.lexsort((part, kind))), np.stack(counts))
