"""Objects that were never finished: how they are told from whole ones where a name cannot be given all at once.

Where a file system neither puts an object whole nor renames (``exclusive.leaves_twins``), a writer that dies leaves a
part of an object under its name. So an object that is created new is written twice:

1. all its bytes under a hidden name in its folder, ``.name-uuid.tmp``: its *twin*;
2. the object itself;
3. the twin is removed.

An object is *unfinished* if it is the beginning, and not all, of a twin that is there: its writer died in step 2, or is
still at it. All readers pass over it. Who creates it anew, or sweeps, clears both away, the object before the twin:
without the twin it would count.

Any other twin says nothing: its writer died in step 1, or before step 3, or lost a race and died. An object that was
finished and is damaged later has no twin, so it counts, and whoever reads it finds the damage.

Cost: a listing of the object's folder for every ``size`` and ``read``; where a twin is met, reading it and the object.
"""

import re
import uuid
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress

from fsspec import AbstractFileSystem

_TWIN = re.compile(r"(?P<folder>.*/|)\.(?P<name>[^/]+)-[0-9a-f]{32}\.tmp")


def twin_name(path: str) -> str:
    """Make a hidden name beside an object's.

    >>> object_of(twin_name("/ck/manifest/1.json"))
    '/ck/manifest/1.json'
    """
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}.{name}-{uuid.uuid4().hex}.tmp"


def object_of(file: str) -> str | None:
    """Name the object a file is a twin of; None if it is none of ours.

    >>> object_of("offsets/.0.8a.tmp") is object_of("offsets/0") is None
    True
    """
    found = _TWIN.fullmatch(file)
    return found and found["folder"] + found["name"]


def unfinished(fs: AbstractFileSystem, files: Collection[str]) -> dict[str, list[str]]:
    """Of a listing, the objects that are unfinished, each with the twins it is the beginning of."""
    listed, found = frozenset(files), dict[str, list[str]]()
    for twin in files:
        path = object_of(twin)
        if path in listed and _is_beginning(fs, path, twin):
            found.setdefault(path, []).append(twin)
    return found


def finished_size(fs: AbstractFileSystem, path: str) -> int | None:
    """Count an object's bytes; None if it is not there or unfinished.

    Size and twins are of one listing: were the size asked for first, its writer could finish in between.
    """
    fs.invalidate_cache()
    infos = {str(info["name"]): info for info in fs.ls(path.rpartition("/")[0], detail=True)}
    if path not in infos or infos[path]["type"] != "file" or unfinished(fs, [path, *_twins(path, infos)]):
        return None
    return int(infos[path]["size"])


def read_finished(fs: AbstractFileSystem, path: str) -> bytes:
    """Read an object; one that was not finished while it was read is read again."""
    data = bytes(fs.cat_file(path))
    size = finished_size(fs, path)
    if size is None:
        raise FileNotFoundError(path)
    return data if len(data) == size else bytes(fs.cat_file(path))


def clear_unfinished(fs: AbstractFileSystem, path: str) -> None:
    """Make room for a new object; FileExistsError if there is a finished one."""
    fs.invalidate_cache()
    if not fs.exists(path):
        return
    names = [str(info["name"]) for info in fs.ls(path.rpartition("/")[0], detail=True)]
    twins = unfinished(fs, [path, *_twins(path, names)]).get(path)
    if not twins:
        raise FileExistsError(path)
    for file in (path, *twins):
        with suppress(FileNotFoundError):
            fs.rm_file(file)


def to_sweep(torn: Mapping[str, Collection[str]], left: Iterable[str]) -> list[str]:
    """Name what a sweep removes, in order: an object goes before its twins, or stays with them.

    ``torn`` are unfinished objects with their twins, ``left`` the temporary files that are old enough.

    >>> to_sweep({"a": [".a-1"], "b": [".b-1", ".b-2"]}, [".a-1", ".b-1", ".c-1"])
    ['a', '.a-1', '.c-1']
    """
    old = list(left)
    gone = [path for path, twins in torn.items() if set(twins) <= set(old)]
    kept = {twin for path, twins in torn.items() if path not in gone for twin in twins}
    return gone + [file for file in old if file not in kept]


def _twins(path: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if object_of(name) == path]


def _is_beginning(fs: AbstractFileSystem, path: str, twin: str) -> bool:
    """Whether an object is a part of its twin; one of which either has just vanished may be gone itself."""
    try:
        whole, part = fs.cat_file(twin), fs.cat_file(path)
    except FileNotFoundError:
        return not fs.exists(path)
    return len(part) < len(whole) and whole.startswith(part)
