"""Files below a folder of this machine, or of a mount that every worker has.

A writer never shows an unfinished file:

1. write all bytes to a temporary file in the target's folder; its name starts with a dot, so ``list`` passes it over;
2. flush it to the device, so that a name that survives a loss of power has its bytes;
3. give it its name: ``create`` renames over whatever is there, ``create_new`` makes a hard link, which the system
   refuses if the name is taken: that refusal is what makes one winner;
4. flush the folder.

A writer that dies in between leaves only a temporary file; ``sweep`` removes it.
"""

import os
import stat
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from watersmeet.storage.base import ChoosePart, Data, Paths, Sizes, check_folder, check_path, is_hidden, is_temporary
from watersmeet.storage.failures import reported


@dataclass(frozen=True)
class LocalStorage:
    """Objects are the files below ``root``.

    ``durable`` off spares the flushes (about a millisecond a file): a killed process still loses nothing, a loss of
    power may.

    >>> storage = LocalStorage("/srv/checkpoint")
    >>> storage.url
    'file:///srv/checkpoint'
    >>> storage.list("runs")
    []
    """

    root: str
    durable: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "root", os.path.abspath(self.root))  # noqa: PTH100 - a worker has another folder

    @property
    def url(self) -> str:
        """The root as a URL."""
        return f"file://{self.root}"

    @property
    def is_remote(self) -> bool:
        """Files are mapped where they are."""
        return False

    def create(self, path: str, data: Data) -> None:
        """Write a temporary file, then rename it."""
        target = self._file(path)
        with reported("write", str(target)), self._written(target, data) as temporary:
            temporary.replace(target)

    def create_new(self, path: str, data: Data) -> bool:
        """Write a temporary file, then link it under its name, which fails if there is one."""
        target = self._file(path)
        with reported("write", str(target)), self._written(target, data) as temporary:
            try:
                target.hardlink_to(temporary)
            except FileExistsError:
                return False
        return True

    def read(self, path: str) -> bytes:
        """Read a whole file."""
        source = self._file(path)
        with reported("read", str(source), passing=(FileNotFoundError,)):
            return source.read_bytes()

    def size(self, path: str) -> int | None:
        """Ask the file system for the size."""
        source = self._file(path)
        with reported("look at", str(source)), suppress(FileNotFoundError, NotADirectoryError):
            status = source.stat()
            return status.st_size if stat.S_ISREG(status.st_mode) else None
        return None

    def list(self, folder: str) -> Paths:
        """Walk the folder."""
        top = Path(self.root, check_folder(folder))
        with reported("list", str(top)):
            files = (file.removeprefix(self.root).lstrip("/") for file in _walk(top))
            return sorted(file for file in files if not is_hidden(file))

    def sizes(self, folder: str) -> Sizes:
        """Walk the folder, and ask for every file's size."""
        found = ((path, self.size(path)) for path in self.list(folder))
        return {path: size for path, size in found if size is not None}

    def delete(self, paths: Iterable[str]) -> None:
        """Remove the files; folders stay."""
        for path in paths:
            target = self._file(path)
            with reported("delete", str(target)), suppress(FileNotFoundError, NotADirectoryError):
                target.unlink()

    def local(self, path: str) -> Path:
        """Give the very file."""
        if self.size(path) is None:
            raise FileNotFoundError(self._file(path))
        return self._file(path)

    def part(self, path: str, choose: ChoosePart) -> Path | None:  # noqa: ARG002
        """All is at hand."""
        check_path(path)
        return None

    def copied(self, folder: str) -> Paths:
        """There are no copies."""
        check_folder(folder)
        return []

    def forget(self, paths: Iterable[str]) -> None:
        """There are no copies to drop."""

    def sweep(self, older_than_s: float) -> None:
        """Remove temporary files that nobody has written to for that long."""
        limit = time.time() - older_than_s
        with reported("sweep", self.root):
            for file in [Path(each) for each in _walk(Path(self.root)) if is_temporary(each)]:
                with suppress(FileNotFoundError):
                    if file.stat().st_mtime <= limit:
                        file.unlink()

    @contextmanager
    def fresh(self, path: str) -> Iterator[Path]:
        """Offer a temporary name beside an object's for the body to fill and rename; it is gone afterwards.

        The body gives the file its name; only then is the folder flushed.
        """
        target = self._file(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f".{target.name}-{uuid.uuid4().hex}{_SUFFIX}")
        try:
            yield temporary
        finally:
            temporary.unlink(missing_ok=True)
        self.flush(target.parent)

    def flush(self, file: Path) -> None:
        """Have the device hold a file or folder, if this storage is durable."""
        if self.durable:
            descriptor = os.open(file, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    @contextmanager
    def _written(self, target: Path, data: Data) -> Iterator[Path]:
        with self.fresh(target.relative_to(self.root).as_posix()) as temporary:
            temporary.write_bytes(data)
            self.flush(temporary)
            yield temporary

    def _file(self, path: str) -> Path:
        return Path(self.root, check_path(path))


_SUFFIX = ".tmp"


def _walk(top: Path) -> Iterator[str]:
    """All files below a folder; what vanishes meanwhile is passed over, what may not be read is an error."""
    for folder, _, files in os.walk(top, onerror=_raise_unless_gone):
        yield from (f"{folder}/{file}" for file in files)  # no Path: it takes longer to make than to find


def _raise_unless_gone(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        raise error
