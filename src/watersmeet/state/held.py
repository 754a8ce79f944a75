"""The parts of remote runs that this host has: which there are, which of them will do, and how one becomes another.

Which groups are asked for changes with every spill and move, the rows of a run never. So whoever asks gets a part that
has more, if this host has one, whichever process made it. If no part has all, only the rest is fetched: it makes a new
part, together with all parts that have any of what is asked for. What is asked for `once` makes a part of its own: a
cleanup takes one block of groups after the other, and would copy all that came before each.

The limit, for each run: what this host has ever asked for of it. A part that lies within another one is dropped by the
next task (`superseded`), whichever process uses it: a mapped file stays readable, and is let go of when that process
has its next task (`unmap_parts`). Parts that merely overlap become one as soon as either grows.
"""

from collections import OrderedDict, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock

from watersmeet.state.files import COPY_TRIES, groups_told, map_rows, serialise
from watersmeet.state.groups import GroupSet
from watersmeet.state.manifest import RunFile
from watersmeet.state.parts import Wanted, fetch_part, is_worth_it, may_have_parts, part_path, whole_path
from watersmeet.state.rows import SortedRows, merge_rows
from watersmeet.storage.base import Part, ReadRanges, Storage

LIMIT = 4096
"""Of so many runs, a process has parts mapped; of as many parts, it knows the groups."""


@dataclass(frozen=True)
class _Mapped:
    """A part that this process has mapped; ``counted`` are the groups of its run that counted when it was used."""

    path: str
    groups: GroupSet
    rows: SortedRows
    counted: GroupSet | None = None

    def may_have_pages_of_others(self, counted: GroupSet | None) -> bool:
        """Whether other groups count by now, so that pages of those that did may still be in memory."""
        return None not in (counted, self.counted) and counted != self.counted


_mapped: OrderedDict[tuple[str, str], tuple[_Mapped, ...]] = OrderedDict()
"""By their runs."""

_told: dict[str, GroupSet] = {}
"""The groups of parts. A part's path follows from its groups, so what was once told of it stays true."""

_changing = Lock()


def open_part(storage: Storage, run: RunFile, wanted: Wanted, counted: GroupSet | None = None) -> SortedRows | None:
    """Map a part of a remote run that has the rows of some groups, and maybe of others.

    None if the run is at hand, or is to be fetched as a whole. If other groups of the run are ``counted`` than before,
    the part is mapped anew.
    """
    part = _mapped_part(storage, run, wanted)
    if part is None or part.may_have_pages_of_others(counted):
        part = _map_part(storage, run, wanted) if storage.is_remote and may_have_parts(run) else None
    if part is None:
        return None
    _keep((storage.url, run.path), replace(part, counted=counted or part.counted))
    return part.rows


def has_part_mapped(storage: Storage, run: RunFile, wanted: Wanted) -> bool:
    """Whether this process has mapped a part of a run that has some groups."""
    return _mapped_part(storage, run, wanted) is not None


def left_to_fetch(storage: Storage, coming: Iterable[tuple[RunFile, Wanted]]) -> Iterator[GroupSet]:
    """Of groups of some runs, those whose rows this host has nowhere."""
    coming = list(coming)
    folders = {run.path.rpartition("/")[0] for run, _ in coming}
    here = _by_run(path for folder in folders for path in storage.copied(folder))
    for run, wanted in coming:
        files = here.get(run.path, ())
        has_all = run.path in files
        yield GroupSet() if has_all else wanted.groups - GroupSet.union(_groups_of(storage, path) for path in files)


def superseded(storage: Storage, copied: Iterable[str]) -> set[str]:
    """Of this host's copies, the parts of no use any more: the whole run is here, or a part that has all they have."""
    found = [(path, files) for run, files in _by_run(copied).items() for path in files if path != run]
    return {path for path, files in found if len(files) > 1 and _lies_within(storage, path, files)}


def unmap_parts(storage: Storage, operators: Collection[str], kept: Collection[str]) -> None:
    """Let go of mapped parts of some operators, but for those that are ``kept`` on this host."""
    with _changing:
        for url, run in [each for each in _mapped if each[0] == storage.url and each[1].split("/")[1] in operators]:
            parts = tuple(part for part in _mapped[url, run] if part.path in kept)
            if parts:
                _mapped[url, run] = parts
            else:
                del _mapped[url, run]


def release_parts(storage: Storage, run: RunFile) -> None:
    """Give back the memory of the pages of a run's parts."""
    with _changing:
        _mapped.pop((storage.url, run.path), None)


def _mapped_part(storage: Storage, run: RunFile, wanted: Wanted) -> _Mapped | None:
    fit = [part for part in _mapped.get((storage.url, run.path), ()) if not wanted.groups - part.groups]
    return max(fit, key=lambda part: len(part.groups), default=None)


def _keep(run: tuple[str, str], part: _Mapped) -> None:
    """Have a part mapped, and no others that it makes useless."""
    with _changing:
        others = tuple(each for each in _mapped.get(run, ()) if each.groups - part.groups)
        _mapped[run] = (*others, part)
        _mapped.move_to_end(run)
        while len(_mapped) > LIMIT:
            _mapped.popitem(last=False)


def _map_part(storage: Storage, run: RunFile, wanted: Wanted) -> _Mapped | None:
    for _ in range(COPY_TRIES):
        with suppress(FileNotFoundError):  # a part that another task has just dropped, or the run: the long way tells
            file = storage.part(run.path, lambda read: _choose(storage, run, wanted, read))
            if file is None:
                return None
            groups = groups_told(file)
            return _Mapped(part_path(run, wanted.only(groups)), groups, map_rows(file))
    return None


def _choose(storage: Storage, run: RunFile, wanted: Wanted, read: ReadRanges) -> Part | None:
    """The largest part that has all that is wanted; one is made if there is none and that is worth it."""
    files = _by_run(storage.copied(run.path.rpartition("/")[0])).get(run.path, ())
    here = sorted(((_groups_of(storage, path), path) for path in files), key=lambda each: -len(each[0]))
    for groups, path in here:
        if groups and not wanted.groups - groups:
            return Part(path)
    near = {path: groups for groups, path in here if groups.meets(wanted.groups)}
    return _made(storage, run, wanted, near, read)


def _made(
    storage: Storage, run: RunFile, wanted: Wanted, near: Mapping[str, GroupSet], read: ReadRanges
) -> Part | None:
    """A part of what parts of this host have, and of the rest, which is fetched."""
    held = GroupSet.union(near.values())
    groups = wanted.groups if wanted.once else wanted.groups | held
    pieces, rest = list(_pieces(storage, wanted.only(groups & held), near)), wanted.only(wanted.groups - held)
    if rest.groups or not pieces:
        fetched = fetch_part(run, rest, read) if is_worth_it(run, rest) else None
        if fetched is None:
            return None
        pieces.append(fetched)
    rows = pieces[0] if len(pieces) == 1 else merge_rows(pieces)
    return Part(part_path(run, wanted.only(groups)), serialise(rows, groups))


def _pieces(storage: Storage, wanted: Wanted, near: Mapping[str, GroupSet]) -> Iterator[SortedRows]:
    """The rows of some groups, each from one of the parts that have it."""
    left = wanted.groups
    for path, groups in near.items():
        yield from map_rows(_file(storage, path)).of_groups(groups & left, wanted.count)
        left -= groups


def _lies_within(storage: Storage, path: str, files: Sequence[str]) -> bool:
    """Whether a part is of no use, as another of the files of its run has all its groups."""
    if whole_path(path) in files:
        return True
    mine = _groups_of(storage, path)
    return any(not mine - _groups_of(storage, other) for other in files if other != path)


def _groups_of(storage: Storage, path: str) -> GroupSet:
    """The groups of a part of this host; none if it is gone, or does not tell, as it is of an earlier version."""
    if (known := _told.get(path)) is not None:
        return known
    with suppress(FileNotFoundError):
        if groups := groups_told(_file(storage, path)):
            _remember(path, groups)
            return groups
    return GroupSet()


def _remember(path: str, groups: GroupSet) -> None:
    with _changing:
        if len(_told) >= LIMIT:
            _told.clear()
        _told[path] = groups


def _file(storage: Storage, path: str) -> Path:
    """A part that this host has."""
    file = storage.part(whole_path(path), lambda _: Part(path))
    if file is None:
        raise FileNotFoundError(path)
    return file


def _by_run(copied: Iterable[str]) -> Mapping[str, list[str]]:
    """The copies of this host by the run that they are, or are parts of."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in copied:
        found[whole_path(path)].append(path)
    return found
