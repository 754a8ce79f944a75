"""Runs as files: written once, checked, memory-mapped, never changed.

A run is one Arrow IPC file with one uncompressed record batch: the hashes (`HASH`) and the state columns of its input,
sorted by hash. Order and row count are checked before it is written; length, checksum, order and row count when a
process opens it for the first time, by reading it: mapped pages would count as the process's memory. Mapped runs are
kept by the process, at most `MAPPED_LIMIT`. A run of which other groups count than before, because some were spilled,
is mapped anew, which gives back the memory of all its pages; those that still count come back as they are used.
"""

import zlib
from collections import OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

import numpy as np
import pyarrow as pa

from watersmeet.model.errors import CheckpointCorruptError
from watersmeet.model.ids import InputName, OperatorId, RunId
from watersmeet.state.groups import Hashes, Ranges, group_of, to_ranges
from watersmeet.state.manifest import RunFile
from watersmeet.state.rows import SortedRows
from watersmeet.storage.base import Storage

HASH = "#hash"
FOLDER = "runs"
MAPPED_LIMIT = 4096
CHECK_BYTES = 1 << 20
COPY_TRIES = 5
"""Another task on this host may drop a copy just before it is mapped: every task does so once, as it begins."""


@dataclass
class _Mapping:
    rows: SortedRows
    groups: Ranges | None = None


_mapped: OrderedDict[tuple[str, str], _Mapping] = OrderedDict()
_checked: OrderedDict[tuple[str, str], None] = OrderedDict()
_changing = Lock()
"""Several site tasks may be threads of one process."""


def write_run(
    storage: Storage, run_id: RunId, operator: OperatorId, source: InputName, rows: SortedRows, groups: int
) -> RunFile:
    """Store sorted rows as a new run."""
    _check_order(rows.hashes, run_id)
    data = _serialise(rows)
    path = f"{FOLDER}/{operator}/{source}/{run_id}.arrow"
    storage.create(path, data)
    covered = to_ranges(np.unique(group_of(rows.hashes, groups)).tolist())
    return RunFile(run_id, path, operator, source, covered, len(rows), len(data), zlib.crc32(data))


def open_run(storage: Storage, run: RunFile, groups: Ranges | None = None) -> SortedRows:
    """Map a run into memory; ``groups`` are those that are going to be used, where that is known."""
    name = (storage.url, run.path)
    mapping = _mapped.get(name)
    if mapping is None or (groups is not None and mapping.groups not in (None, groups)):
        mapping = _Mapping(_map(storage, run))
    mapping.groups = groups or mapping.groups
    with _changing:
        _mapped[name] = mapping
        _mapped.move_to_end(name)
        while len(_mapped) > MAPPED_LIMIT:
            _mapped.popitem(last=False)
    return mapping.rows


def forget_runs(storage: Storage, operators: Collection[str], live: Collection[str], epoch: int) -> None:
    """Let go of the runs of some operators that are not live and were written before an epoch.

    This process unmaps them, and this host has no copies of them any more, whichever process left them.
    """
    copied = [path for operator in operators for path in storage.copied(f"{FOLDER}/{operator}")]
    with _changing:
        mapped = [path for url, path in _mapped if url == storage.url and path.split("/")[1] in operators]
        dead = [path for path in {*mapped, *copied} if path not in live and epoch_of(path) < epoch]
        for path in dead:
            _mapped.pop((storage.url, path), None)
            _checked.pop((storage.url, path), None)
    storage.forget(dead)


def release_run(storage: Storage, run: RunFile) -> None:
    """Give back the memory of a run's pages; it is mapped anew when it is used again."""
    with _changing:
        _mapped.pop((storage.url, run.path), None)


def verify_run(storage: Storage, run: RunFile) -> None:
    """Refuse a run whose file is missing, cut short or damaged."""
    size = storage.size(run.path)
    if size is None:
        raise _corrupt(storage, run, "it is missing")
    if size != run.bytes:
        raise _corrupt(storage, run, f"it has {size} bytes instead of {run.bytes}")
    _check_content(storage, run)


def _map(storage: Storage, run: RunFile, tries: int = COPY_TRIES) -> SortedRows:
    name = (storage.url, run.path)
    try:
        if name not in _checked:
            _check_content(storage, run)
        buffer = pa.memory_map(str(storage.local(run.path))).read_buffer()
    except FileNotFoundError as error:
        if tries > 1:
            return _map(storage, run, tries - 1)
        raise _corrupt(storage, run, "it is missing") from error
    batch = pa.ipc.open_file(buffer).get_batch(0)
    hashes = batch.column(0).to_numpy()
    if name not in _checked:
        _check_order(hashes, run.id)
        with _changing:
            _checked[name] = None
            while len(_checked) > MAPPED_LIMIT:
                _checked.popitem(last=False)
    return SortedRows(hashes, batch.select(batch.schema.names[1:]))


def _serialise(rows: SortedRows) -> memoryview:
    """The bytes of a run, copied once: written for their size first, which costs nothing, then for real."""
    arrays = [pa.array(rows.hashes), *rows.rows.columns]
    batch = pa.RecordBatch.from_arrays(arrays, names=[HASH, *rows.rows.schema.names])
    counted = pa.MockOutputStream()
    _write(batch, counted)
    data = pa.allocate_buffer(counted.size())
    _write(batch, pa.FixedSizeBufferWriter(data))
    return memoryview(data)


def _write(batch: pa.RecordBatch, sink: pa.NativeFile) -> None:
    with pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)


def _check_content(storage: Storage, run: RunFile) -> None:
    checksum, size = 0, 0
    with Path(storage.local(run.path)).open("rb") as file:
        while chunk := file.read(CHECK_BYTES):
            checksum, size = zlib.crc32(chunk, checksum), size + len(chunk)
    if (size, checksum) != (run.bytes, run.checksum):
        raise _corrupt(storage, run, "its checksum does not match its content")


def _check_order(hashes: Hashes, run_id: str) -> None:
    if len(hashes) and not bool(np.all(hashes[:-1] <= hashes[1:])):
        raise CheckpointCorruptError(
            f"run {run_id} is not sorted", why="probes would miss rows", how="report this; it is a defect"
        )


def _corrupt(storage: Storage, run: RunFile, why: str) -> CheckpointCorruptError:
    return CheckpointCorruptError(
        f"{storage.url}/{run.path} is damaged",
        why=why,
        how="restore the file from a copy, or start with a new checkpointLocation",
    )


def run_name(epoch: int, site: int, attempt: str) -> str:
    """A run's id tells the epoch that wrote it.

    >>> run_name(7, 1, "a1b2")
    '000000000007-1-a1b2'
    """
    return f"{epoch:012d}-{site}-{attempt}"


def epoch_of(path: str) -> int:
    """The epoch that wrote a run.

    >>> epoch_of("runs/join1/A/000000000007-1-a1b2.arrow")
    7
    """
    return int(path.rsplit("/", 1)[-1].split("-", 1)[0])


def paths(runs: Sequence[RunFile]) -> frozenset[str]:
    """The files of some runs."""
    return frozenset(run.path for run in runs)
