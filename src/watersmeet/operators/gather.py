"""Bring together the rows of some keys, key by key: the old ones first, then the new ones.

After gathering, the old rows of a key, its new rows, and both together are each one contiguous range, so that every
term of a join is a product of ranges (`watersmeet.operators.product`).

Where hashes do not decide equality, rows of one hash are compared with each other. Two keys with one hash are so rare
that the whole part is then simply split up again by key.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from watersmeet.operators.keys import key_classes, same_keys
from watersmeet.operators.probe import Found, Located
from watersmeet.operators.ranges import Index, expand, offsets
from watersmeet.state.rows import one_batch, take_rows


@dataclass(frozen=True)
class Gathered:
    """The rows of one input, key by key, with the number of old and new rows of each key."""

    rows: pa.RecordBatch
    old: Index
    new: Index

    @property
    def owners(self) -> Index:
        """The number of the key each row belongs to."""
        counts = self.old + self.new
        return np.repeat(np.arange(len(counts)), counts)


def gather(found: Found, start: int, stop: int) -> Gathered:
    """The rows of keys ``start`` to ``stop`` in one input."""
    pieces = [*found.runs, found.delta]
    parts = [Located(p.rows, p.starts[start:stop], p.counts[start:stop]) for p in pieces]
    new = parts[-1].counts
    old = sum((part.counts for part in parts[:-1]), start=np.zeros_like(new))
    used = [part for part in parts if part.counts.any()]
    batches = [_rows(part) for part in used]
    if len(used) == 1:
        return Gathered(batches[0], old, new)
    together = one_batch(pa.Table.from_batches(batches))
    return Gathered(take_rows(together, _key_by_key(used)), old, new)


def separate(sides: list[Gathered], key_columns: Sequence[Sequence[str]]) -> tuple[list[Gathered], Index]:
    """Tell apart different keys that share a hash; also gives the number of the hash each key has."""
    keys = [side.rows.select(names) for side, names in zip(sides, key_columns, strict=True)]
    owners = [side.owners for side in sides]
    first = keys[0].take(pa.array(offsets(sides[0].old + sides[0].new)))
    if all(same_keys(first.take(pa.array(o)), k) for o, k in zip(owners, keys, strict=True)):
        return sides, np.arange(len(sides[0].old))
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
    counts, fresh = side.old + side.new, np.zeros(len(kind), dtype=np.bool_)
    fresh[expand(offsets(counts) + side.old, side.new)] = True
    order = np.lexsort((fresh, kind))
    old, new = (np.bincount(kind[fresh == flag], minlength=count) for flag in (False, True))
    return Gathered(take_rows(side.rows, order), old, new)
