"""A part of a remote run: the rows of some groups, fetched without the rest.

A run is one uncompressed record batch that is sorted by hash, so the rows of a group are a range of it, and the
manifest tells how many rows each group has. What is fetched, in few requests of ranges of bytes:

1. The beginning and the end of the file, where Arrow's metadata are: they tell where the buffers of the columns are.
2. Of every buffer, the bytes of the rows; of texts, where they begin and end.
3. The texts themselves.

All is put at its place in memory as large as the file, of which only these pages exist, and Arrow reads the rows from
there. They become a file of their own, which is mapped as a run is (`held`). What lies between the rows is never
looked at.

A part cannot be checked by the checksum of its run. That its rows are sorted, are as many as the manifest says, and
belong to the groups, is checked in its stead. Columns of lists, structs and maps are not taken apart: then the whole
run is fetched.
"""

import hashlib
import mmap
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from watersmeet.model.errors import CheckpointCorruptError
from watersmeet.state.groups import GroupSet, group_of
from watersmeet.state.manifest import RunFile
from watersmeet.state.rows import SortedRows, is_sorted, one_batch
from watersmeet.storage.base import Ranges, ReadRanges

HEAD_BYTES = 1 << 14
"""Fetched of each end of the file at first: metadata are seldom more."""

WORTH, SAVED_LEAST = 0.5, 2 << 20
"""A part with more than this share of a run's bytes is not worth it, nor one that leaves out less than these: it takes
some requests more than the whole run, each as long as a megabyte or so."""

_PREFIX, _TRAILER, _MAGIC = 8, 10, 8


@dataclass(frozen=True)
class Wanted:
    """The groups of a run that are going to be used, of so many that there are; some of them ``once`` and not again."""

    groups: GroupSet
    count: int
    once: bool = False

    def of(self, run: RunFile) -> "Wanted":
        """Those that a run has."""
        return replace(self, groups=self.groups & run.groups)

    def only(self, groups: GroupSet) -> "Wanted":
        """The same of other groups."""
        return replace(self, groups=groups)


def part_path(run: RunFile, wanted: Wanted) -> str:
    """Where a host keeps a part."""
    digest = hashlib.sha256(wanted.groups.text.encode()).hexdigest()[:12]
    return f"{run.path.removesuffix('.arrow')}~{digest}.arrow"


def whole_path(path: str) -> str:
    """The run that a file is, or is a part of.

    >>> whole_path("runs/join1/A/7-0-a~12.arrow"), whole_path("runs/join1/A/7-0-a.arrow")
    ('runs/join1/A/7-0-a.arrow', 'runs/join1/A/7-0-a.arrow')
    """
    whole, tilde, _ = path.partition("~")
    return f"{whole}.arrow" if tilde else path


def part_bytes(run: RunFile, wanted: Wanted) -> int:
    """How many bytes of a run the groups have."""
    chosen = np.isin(run.groups.numbers, wanted.groups.numbers)
    return int(run.group_bytes.array[chosen].sum())


def may_have_parts(run: RunFile) -> bool:
    """Whether a part of a run may be worth it, if its groups are few enough."""
    return run.bytes >= SAVED_LEAST


def is_worth_it(run: RunFile, wanted: Wanted) -> bool:
    """Whether the groups are few enough to be fetched alone."""
    size = part_bytes(run, wanted)
    return bool(wanted.groups) and size <= WORTH * run.bytes and run.bytes - size >= SAVED_LEAST


def fetch_part(run: RunFile, wanted: Wanted, read: ReadRanges) -> SortedRows | None:
    """The rows of some groups of a run; None if a column cannot be taken apart."""
    spans = [span for span in _row_spans(run, wanted.groups) if span[1] > span[0]]
    file = _SparseFile.of(run.bytes, read)
    batch = file.batch()
    if not all(_is_flat(field.type) for field in batch.schema):
        return None
    file.fetch(_spans(file.place(at), kind, low, high) for at, kind in _fixed(batch) for low, high in spans)
    file.fetch(
        _spans(file.place(data), pa.uint8(), *_ends(offsets, *span))
        for offsets, data in _texts(batch)
        for span in spans
    )
    pieces = [batch.slice(low, high - low) for low, high in spans]
    rows = one_batch(pa.Table.from_batches(pieces, batch.schema))
    found = SortedRows(rows.column(0).to_numpy(), rows.select(rows.schema.names[1:]))
    _check(run, found, wanted)
    return found


@dataclass
class _SparseFile:
    """A file's bytes at their places, as far as they were fetched."""

    memory: mmap.mmap
    read: ReadRanges

    @classmethod
    def of(cls, size: int, read: ReadRanges) -> "_SparseFile":
        """The beginning and the end of a file."""
        file = cls(mmap.mmap(-1, size), read)
        file.fetch([[(0, min(HEAD_BYTES, size)), (max(size - HEAD_BYTES, 0), size)]])
        (footer,) = struct.unpack("<i", file.memory[size - _TRAILER : size - _TRAILER + 4])
        body, fetched = file._body(), [(max(size - _TRAILER - footer, 0), size - HEAD_BYTES)]
        file.fetch([[*fetched, (HEAD_BYTES, body)]])
        return file

    def _body(self) -> int:
        """Where the batch's own bytes begin: after the messages of its schema and of itself."""
        at = _MAGIC
        for _ in range(2):
            if at + _PREFIX > HEAD_BYTES:
                self.fetch([[(HEAD_BYTES, at + _PREFIX)]])
            at += _PREFIX + struct.unpack("<i", self.memory[at + 4 : at + _PREFIX])[0]
        return at

    def batch(self) -> pa.RecordBatch:
        """The batch, whose values may be looked at where they were fetched."""
        return pa.ipc.open_file(pa.py_buffer(self.memory)).get_batch(0)

    def place(self, buffer: pa.Buffer) -> int:
        """Where a buffer of the batch is in the file."""
        return int(buffer.address - pa.py_buffer(self.memory).address)

    def fetch(self, spans: Iterable[Ranges]) -> None:
        """Put ranges of bytes at their places."""
        wanted = _joined(span for each in spans for span in each if span[1] > span[0])
        for (start, stop), data in zip(wanted, self.read(wanted) if wanted else [], strict=True):
            self.memory[start:stop] = data


def _joined(spans: Iterable[tuple[int, int]]) -> Ranges:
    """Ranges that touch or overlap are one."""
    found: Ranges = []
    for start, stop in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(stop, found[-1][1]))
        else:
            found.append((start, stop))
    return found


def _row_spans(run: RunFile, some: GroupSet) -> Iterator[tuple[int, int]]:
    """The rows of each range of groups, from what the manifest tells."""
    held, ends = run.groups.numbers, np.concatenate([[0], np.cumsum(run.group_rows.array, dtype=np.int64)])
    for start, stop in some.ranges:
        low, high = np.searchsorted(held, [start, stop])
        yield int(ends[low]), int(ends[high])


def _is_flat(kind: pa.DataType) -> bool:
    if pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_boolean(kind):
        return True
    return not pa.types.is_nested(kind) and not pa.types.is_dictionary(kind) and _width(kind) > 0


def _width(kind: pa.DataType) -> int:
    try:
        return int(kind.bit_width) // 8
    except ValueError:
        return 0


def _fixed(batch: pa.RecordBatch) -> Iterator[tuple[pa.Buffer, pa.DataType]]:
    """Buffers with as many bits for each row, and the type of an entry: bits are booleans."""
    for column in batch.columns:
        validity, values, *_ = column.buffers()
        if validity is not None:
            yield validity, pa.bool_()
        if values is not None:
            is_text = pa.types.is_string(column.type) or pa.types.is_binary(column.type)
            yield values, pa.string() if is_text else column.type


def _texts(batch: pa.RecordBatch) -> Iterator[tuple[pa.Buffer, pa.Buffer]]:
    """Where the texts of a column begin and end, and the texts."""
    for column in batch.columns:
        if (pa.types.is_string(column.type) or pa.types.is_binary(column.type)) and column.buffers()[2] is not None:
            yield column.buffers()[1], column.buffers()[2]


def _spans(at: int, kind: pa.DataType, low: int, high: int) -> Ranges:
    """The bytes of some rows in a buffer that begins at a place."""
    if pa.types.is_boolean(kind):
        return [(at + low // 8, at + (high + 7) // 8)]
    if pa.types.is_string(kind):  # its ends: one more than there are rows
        return [(at + low * 4, at + (high + 1) * 4)]
    width = _width(kind)
    return [(at + low * width, at + high * width)]


def _ends(offsets: pa.Buffer, low: int, high: int) -> tuple[int, int]:
    ends = np.frombuffer(offsets, np.int32)
    return int(ends[low]), int(ends[high])


def _check(run: RunFile, found: SortedRows, wanted: Wanted) -> None:
    """Refuse rows that are not sorted, or not those of the groups."""
    held, chosen = run.groups.numbers, wanted.groups.numbers
    expected = np.zeros(wanted.count, np.int64)
    expected[held] = run.group_rows.array
    told = np.bincount(group_of(found.hashes, wanted.count), minlength=wanted.count)
    others = np.delete(told, chosen)
    if not np.array_equal(told[chosen], expected[chosen]) or others.any() or not is_sorted(found.hashes):
        raise CheckpointCorruptError(
            f"the rows of groups {wanted.groups.text} that were read from {run.path} are damaged",
            why="they are not those in the manifest",
            how="restore the file from a copy, or start with a new checkpointLocation",
        )
