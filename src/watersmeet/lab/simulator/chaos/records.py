"""Rows as counts: how many there are of each key, and of each key that their results have at the operator above.

A *record* is such a pair with its count; a file has the records of one run, sorted. Bytes are those of records, so that
sizes in the manifest are those of files. A *table* has the same counts as a matrix, ``[key, next key]``; where nobody
asks for the next key, it has one column.
"""

import zlib
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from watersmeet.model.errors import CheckpointCorruptError
from watersmeet.runners.counts.hashing import key_group
from watersmeet.state.groups import GroupSet
from watersmeet.state.manifest import RunFile
from watersmeet.state.runs import RunName
from watersmeet.state.vectors import Vector
from watersmeet.storage.base import Storage

Ints = NDArray[np.int64]
RECORD_BYTES = 24
KEYS_MOST = 64


@dataclass(frozen=True)
class Records:
    """The keys, next keys and counts of some rows."""

    values: Ints

    @classmethod
    def none(cls) -> "Records":
        """No rows.

        >>> Records.none().rows
        0
        """
        return cls(np.zeros((3, 0), np.int64))

    @classmethod
    def of(cls, table: Ints) -> "Records":
        """The records of a table.

        >>> Records.of(np.array([[0, 2], [0, 1]])).values.tolist()
        [[0, 1], [1, 1], [2, 1]]
        """
        key, following = np.nonzero(table)
        return cls(np.stack([key, following, table[key, following]]))

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return int(self.values[2].sum())

    def groups(self, groups: int) -> Ints:
        """The partition group of each record."""
        found: Ints = _groups_of_keys(groups)[self.values[0]]
        return found

    def table(self, keys: int, columns: int) -> Ints:
        """The counts as a matrix; with one column, next keys are left out."""
        found = np.zeros((keys, columns), np.int64)
        key, following, count = self.values
        np.add.at(found, (key, following if columns > 1 else np.zeros_like(following)), count)
        return found

    def within(self, mask: NDArray[np.bool_]) -> "Records":
        """Some of the records."""
        return Records(self.values[:, mask])

    def share(self, number: int, count: int) -> "Records":
        """One of so many parts of the rows, by their position.

        >>> whole = Records(np.array([[1, 2], [0, 0], [3, 4]]))
        >>> [whole.share(number, 2).values[2].tolist() for number in range(2)]
        [[3], [4]]
        """
        ends = np.cumsum(self.values[2])
        total = int(ends[-1]) if len(ends) else 0
        low, high = (total * each // count for each in (number, number + 1))
        counts = np.clip(ends, low, high) - np.clip(ends - self.values[2], low, high)
        return Records(np.stack([*self.values[:2], counts])).within(counts > 0)

    def by_group(self, groups: int) -> Ints:
        """How many rows there are of each group."""
        return np.bincount(self.groups(groups), self.values[2], minlength=groups).astype(np.int64)


@lru_cache
def _groups_of_keys(groups: int) -> Ints:
    return key_group(np.arange(KEYS_MOST), groups)


def together(parts: list[Records], keys: int) -> Records:
    """All rows of several parts, each kind once."""
    values = np.concatenate([each.values for each in parts], axis=1) if parts else Records.none().values
    return Records.of(Records(values).table(keys, keys))


def serialised(records: Records) -> bytes:
    """The bytes of a file."""
    return np.ascontiguousarray(records.values.T).astype("<i8").tobytes()


def write(storage: Storage, name: RunName, records: Records, groups: int) -> RunFile:
    """Store rows as a run."""
    data = serialised(records)
    storage.create(name.path, data)
    held, rows = np.bincount(records.groups(groups), minlength=groups), records.by_group(groups)
    covered = GroupSet.within(held > 0)
    sizes, counts = Vector.of(held[held > 0] * RECORD_BYTES), Vector.of(rows[held > 0])
    checksum = zlib.crc32(data)
    return RunFile(
        name.id, name.path, name.operator, name.input, covered, records.rows, len(data), checksum, counts, sizes
    )


def read(storage: Storage, run: RunFile) -> Records:
    """Read a run, and refuse it if it is not what was written."""
    data = storage.read(run.path)
    if (len(data), zlib.crc32(data)) != (run.bytes, run.checksum):
        raise CheckpointCorruptError(f"{run.path} is damaged", why="its checksum is another", how="restore it")
    return Records(np.frombuffer(data, "<i8").reshape(-1, 3).T.astype(np.int64))
