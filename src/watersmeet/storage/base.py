"""The seam to file systems: all that the layers above may ask of one.

State is immutable runs named by a versioned manifest, so little is asked: put a whole object, put one unless it is
there (the commit), read, list, delete, and show an object as a local file that can be memory-mapped.

Invariants, the same for every back end (one behaviour suite holds them all to it):

1. A path is relative, POSIX, below the storage's root; no part of it starts with a dot (``check_path``).
2. What ``list`` shows is whole: an object appears with all its bytes or not at all. On every back end that holds for
   ``create_new``; for ``create`` where the back end puts or renames whole objects.
3. ``create_new`` has one winner: of any number of writers of one path exactly one gets True. False says that *an*
   object is there; after an answer that was lost on the way it may be one's own, so a writer that needs to know
   reads it back and compares.
4. Objects never change. Hence ``local`` may hand out a copy made long ago.
5. A storage is a small frozen value that can be pickled: it travels to Spark's workers inside their tasks.
6. Objects that are going to be mapped are named ``*.arrow``. A remote storage keeps a copy of those on the host that
   writes them, and of nothing else.

Errors: ``StorageFullError`` when there is no room, ``StorageError`` for every other failure, ``FileNotFoundError`` from
``read`` and ``local`` for what is not there.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias

Data: TypeAlias = bytes | memoryview
Paths: TypeAlias = list[str]
Sizes: TypeAlias = dict[str, int]
Ranges: TypeAlias = list[tuple[int, int]]
"""Of bytes, half-open."""

Pieces: TypeAlias = list[bytes]
ReadRanges: TypeAlias = Callable[[Ranges], Pieces]


@dataclass(frozen=True)
class Part:
    """A part of an object, by the name that its copy has; ``data`` is what to make it of, if it is not there."""

    name: str
    data: Data | None = None


ChoosePart: TypeAlias = Callable[[ReadRanges], Part | None]

_PART = r"[^./*?\[\]{}\\\s][^/*?\[\]{}\\\s]*"
_PATH = re.compile(f"{_PART}(?:/{_PART})*")


class Storage(Protocol):
    """A place for immutable objects, with the promises of this module's header."""

    @property
    def url(self) -> str:
        """Where it is; ``open_storage`` of it gives the same place."""

    @property
    def is_remote(self) -> bool:
        """Whether hosts have copies of what they map."""

    def create(self, path: str, data: Data) -> None:
        """Put a whole object. An object that is already there is replaced, all or nothing."""

    def create_new(self, path: str, data: Data) -> bool:
        """Put a whole object unless there is one; whether it was put."""

    def read(self, path: str) -> bytes:
        """Read a whole object; FileNotFoundError if it is not there."""

    def size(self, path: str) -> int | None:
        """Count an object's bytes; None if it is not there."""

    def list(self, folder: str) -> Paths:
        """Name all objects below a folder ('' is the root), sorted; none if there is no such folder."""

    def sizes(self, folder: str) -> Sizes:
        """Name all objects below a folder with their bytes, in as few requests as possible."""

    def delete(self, paths: Iterable[str]) -> None:
        """Remove objects, and local copies of them; those that are not there are passed over."""

    def local(self, path: str) -> Path:
        """Show an object as a local file to be mapped, never changed; FileNotFoundError if it is not there.

        A copy may be dropped before it is opened, by another process of this host: then ask again.
        """

    def part(self, path: str, choose: ChoosePart) -> Path | None:
        """Show a part of a remote object as a local file; None if there is no need, as the object is at hand here.

        Parts are copies: each has a name of its own. ``choose`` names one that this host has, or makes one of ranges of
        the object's bytes; if it gives None, the whole object is to be asked for. FileNotFoundError if what it names
        was dropped meanwhile.
        """

    def copied(self, folder: str) -> Paths:
        """Name the remote objects and parts below a folder that this host has a copy of, whoever made it, sorted."""

    def forget(self, paths: Iterable[str]) -> None:
        """Drop this host's copies of remote objects; a mapped copy stays readable. Local objects stay."""

    def sweep(self, older_than_s: float) -> None:
        """Remove what writers that died left behind, if it has been untouched for that long, and copies of no use."""


def check_path(path: str) -> str:
    """Refuse a path that not every back end treats alike: that is a mistake of ours, not of the user.

    >>> check_path("runs/join1/x.arrow")
    'runs/join1/x.arrow'
    >>> check_path("../x")
    Traceback (most recent call last):
    ValueError: '../x' is no path of an object: use plain names joined by '/', none starting with a dot
    """
    if _PATH.fullmatch(path) is None:
        raise ValueError(f"{path!r} is no path of an object: use plain names joined by '/', none starting with a dot")
    return path


def check_folder(folder: str) -> str:
    """Accept what ``check_path`` does, and '' for the root.

    >>> check_folder("runs/"), check_folder("")
    ('runs', '')
    """
    bare = folder.rstrip("/")
    return check_path(bare) if bare else ""


def is_mapped(path: str) -> bool:
    """Whether an object is going to be mapped.

    >>> is_mapped("runs/join1/A/7.arrow"), is_mapped("effects/7.json")
    (True, False)
    """
    return path.endswith(".arrow")


def is_hidden(path: str) -> bool:
    """Whether a file is a writer's temporary one: its name starts with a dot.

    >>> is_hidden("runs/.x.arrow-1.tmp"), is_hidden("runs/x.arrow")
    (True, False)
    """
    return path.rpartition("/")[2].startswith(".")


def is_temporary(path: str) -> bool:
    """Whether a file is a writer's unfinished one, ours or Hadoop's, which may have one with checksums beside it.

    >>> [is_temporary(path) for path in ("runs/.x.arrow-1.tmp", "offsets/..0.8a.tmp.crc", "offsets/.0.crc")]
    [True, True, False]
    """
    return is_hidden(path) and path.endswith((".tmp", ".tmp.crc"))
