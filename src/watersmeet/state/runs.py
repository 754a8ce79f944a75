"""Runs as files: written once, checked, memory-mapped, never changed.

A run is one Arrow IPC file with one uncompressed record batch: the hashes and the state columns of its input, sorted
by hash. Order and row count are checked before it is written, length and checksum when a process opens it for
the first time, by reading it: mapped pages would count as the process's memory. Nobody else reads it: what a run holds
is told in the manifest. Mapped runs are kept by the process, at most `MAPPED_LIMIT`. A run of which other groups count
than before, because some were spilled, is mapped anew, which gives back the memory of all its pages; those that still
count come back as they are used. Of a remote run, who asks for some groups may be given a part that has them (`held`).
"""

import zlib
from collections import OrderedDict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.model.errors import CheckpointCorruptError
from watersmeet.model.ids import InputName, OperatorId, RunId
from watersmeet.state.ends import Numbers, group_ends
from watersmeet.state.files import COPY_TRIES, map_rows, serialise
from watersmeet.state.groups import GroupSet, Hashes
from watersmeet.state.held import has_part_mapped, open_part, release_parts, superseded, unmap_parts
from watersmeet.state.manifest import Bounds, RunFile
from watersmeet.state.parts import Wanted, whole_path
from watersmeet.state.rows import SortedRows, bytes_by_group, is_sorted
from watersmeet.state.vectors import Vector
from watersmeet.storage.base import Storage

FOLDER = "runs"
MAPPED_LIMIT = 4096
CHECK_BYTES = 1 << 20


@dataclass
class _Mapping:
    rows: SortedRows
    groups: GroupSet | None = None


_mapped: OrderedDict[tuple[str, str], _Mapping] = OrderedDict()
_checked: OrderedDict[tuple[str, str], None] = OrderedDict()
_changing = Lock()
"""Several site tasks may be threads of one process."""


@dataclass(frozen=True)
class RunName:
    """Whose rows a new run holds; ``bounded`` are the columns whose least and greatest values are told.

    Of the one by whose values groups are ``ending``, the greatest of each group is told, too.
    """

    id: RunId
    operator: OperatorId
    input: InputName
    bounded: tuple[str, ...] = ()
    ending: str | None = None

    @property
    def path(self) -> str:
        """Where it is stored."""
        return f"{FOLDER}/{self.operator}/{self.input}/{self.id}.arrow"


def write_run(storage: Storage, name: RunName, rows: SortedRows, groups: int) -> RunFile:
    """Store sorted rows as a new run."""
    _check_order(rows.hashes, name.id)
    data = serialise(rows)
    storage.create(name.path, data)
    counts, sizes = bytes_by_group(rows, groups)
    covered = GroupSet.within(counts > 0)
    return RunFile(
        name.id,
        name.path,
        name.operator,
        name.input,
        covered,
        len(rows),
        len(data),
        zlib.crc32(data),
        Vector.of(counts[counts > 0], "<u4"),
        Vector.of(sizes[counts > 0], "<u4"),
        bounds_of(rows.rows, name.bounded),
        Vector() if name.ending is None else _group_ends(rows.rows, name.ending, counts[counts > 0]),
    )


def _group_ends(rows: pa.RecordBatch, column: str, counts: Numbers) -> Vector:
    return group_ends(_countable(rows.column(column)).to_numpy(), counts)


def bounds_of(rows: pa.RecordBatch, columns: Iterable[str]) -> dict[str, Bounds]:
    """The least and the greatest value of some columns; times are counted in their unit, so that they can be stored.

    >>> bounds_of(pa.record_batch({"x": [3, None, 1]}), ["x"])
    {'x': Bounds(least=1, most=3)}
    """
    found = {name: pc.min_max(_countable(rows.column(name))).as_py() for name in columns}
    return {name: Bounds(each["min"], each["max"]) for name, each in found.items()}


def _countable(column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        return column.view(pa.int64())
    return column.view(pa.int32()) if kind == pa.date32() else column


def open_run(
    storage: Storage, run: RunFile, groups: GroupSet | None = None, wanted: Wanted | None = None
) -> SortedRows:
    """Map a run into memory; ``groups`` are those of its rows that count, where that is known.

    If rows of ``wanted`` groups alone are going to be used, and this host would have to fetch the run, any others may
    be missing.
    """
    name = (storage.url, run.path)
    mapping = _mapped.get(name)
    part = None if mapping is not None or wanted is None else open_part(storage, run, wanted.of(run), groups)
    if part is not None:
        return part
    if mapping is None or (groups is not None and mapping.groups not in (None, groups)):
        mapping = _Mapping(_map(storage, run))
    mapping.groups = groups or mapping.groups
    _keep(name, mapping)
    return mapping.rows


def is_open(storage: Storage, run: RunFile, wanted: Wanted) -> bool:
    """Whether this process has mapped a run, or a part of it that has some groups."""
    return (storage.url, run.path) in _mapped or has_part_mapped(storage, run, wanted.of(run))


def open_groups(storage: Storage, run: RunFile, some: GroupSet, groups: int, *, once: bool = False) -> list[SortedRows]:
    """The rows of some groups of a run, a piece for each range of them, without copying.

    If they are asked for ``once``, and then others, what this host has of the run does not grow by them.
    """
    return open_run(storage, run, wanted=Wanted(some, groups, once)).of_groups(some, groups)


def _keep(name: tuple[str, str], mapping: _Mapping) -> None:
    with _changing:
        _mapped[name] = mapping
        _mapped.move_to_end(name)
        while len(_mapped) > MAPPED_LIMIT:
            _mapped.popitem(last=False)


def forget_runs(storage: Storage, operators: Collection[str], live: Collection[str], epoch: int) -> None:
    """Let go of the runs of some operators that are not live and were written before an epoch.

    This process unmaps them, and this host has no copies of them any more, whichever process left them. So it is with
    parts that larger ones have made useless.
    """
    copied = {path for operator in operators for path in storage.copied(f"{FOLDER}/{operator}")}
    with _changing:
        mapped = {path for url, path in _mapped if url == storage.url and path.split("/")[1] in operators}
        dead = {path for path in mapped | copied if whole_path(path) not in live and epoch_of(path) < epoch}
        for path in dead:
            _mapped.pop((storage.url, path), None)
            _checked.pop((storage.url, path), None)
    useless = dead | superseded(storage, copied - dead)
    unmap_parts(storage, operators, copied - useless)
    storage.forget(useless)


def release_run(storage: Storage, run: RunFile) -> None:
    """Give back the memory of a run's pages; it is mapped anew when it is used again."""
    with _changing:
        _mapped.pop((storage.url, run.path), None)
    release_parts(storage, run)


def missing_runs(storage: Storage, runs: Iterable[RunFile]) -> list[str]:
    """What is wrong with the files of some runs, as far as one can tell without reading them."""
    found = storage.sizes(FOLDER)
    return [why for run in runs if (why := _misfit(run, found.get(run.path)))]


def _misfit(run: RunFile, size: int | None) -> str | None:
    if size is None:
        return f"{run.path} is missing"
    return None if size == run.bytes else f"{run.path} has {size} bytes instead of {run.bytes}"


def _map(storage: Storage, run: RunFile, tries: int = COPY_TRIES) -> SortedRows:
    name = (storage.url, run.path)
    try:
        if name not in _checked:
            _check_content(storage, run)
        rows = map_rows(storage.local(run.path))
    except FileNotFoundError as error:
        if tries > 1:
            return _map(storage, run, tries - 1)
        raise _corrupt(storage, run, "it is missing") from error
    with _changing:
        _checked[name] = None
        while len(_checked) > MAPPED_LIMIT:
            _checked.popitem(last=False)
    return rows


def _check_content(storage: Storage, run: RunFile) -> None:
    checksum, size = 0, 0
    with Path(storage.local(run.path)).open("rb") as file:
        while chunk := file.read(CHECK_BYTES):
            checksum, size = zlib.crc32(chunk, checksum), size + len(chunk)
    if (size, checksum) != (run.bytes, run.checksum):
        raise _corrupt(storage, run, "its checksum does not match its content")


def _check_order(hashes: Hashes, run_id: str) -> None:
    if not is_sorted(hashes):
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
