"""The bytes of a run, and of a part of one: an Arrow file of one uncompressed record batch, with the hashes first.

A part tells in its schema's metadata which groups it has: they may be more than those that are asked for.
"""

from pathlib import Path

import pyarrow as pa

from watersmeet.state.groups import GroupSet
from watersmeet.state.rows import SortedRows

HASH = "#hash"
COPY_TRIES = 5
"""Another task on this host may drop a copy just before it is mapped: every task does so once, as it begins."""

_GROUPS = b"groups"


def serialise(rows: SortedRows, groups: GroupSet | None = None) -> memoryview:
    """The bytes of a run, or of a part that has some ``groups``.

    They are copied once: written for their size first, which costs nothing, then for real.
    """
    names, metadata = [HASH, *rows.rows.schema.names], None if groups is None else {_GROUPS: groups.text}
    batch = pa.RecordBatch.from_arrays([pa.array(rows.hashes), *rows.rows.columns], names=names, metadata=metadata)
    counted = pa.MockOutputStream()
    _write(batch, counted)
    data = pa.allocate_buffer(counted.size())
    _write(batch, pa.FixedSizeBufferWriter(data))
    return memoryview(data)


def map_rows(file: Path) -> SortedRows:
    """The rows of a file, which are read as they are used."""
    batch = _opened(file).get_batch(0).replace_schema_metadata(None)
    return SortedRows(batch.column(0).to_numpy(), batch.select(batch.schema.names[1:]))


def groups_told(file: Path) -> GroupSet:
    """The groups of a part; none if it does not tell."""
    return GroupSet.parse((_opened(file).schema.metadata or {}).get(_GROUPS, b"0").decode())


def _opened(file: Path) -> pa.ipc.RecordBatchFileReader:
    return pa.ipc.open_file(pa.memory_map(str(file)).read_buffer())


def _write(batch: pa.RecordBatch, sink: pa.NativeFile) -> None:
    with pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
