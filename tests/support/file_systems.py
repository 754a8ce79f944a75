"""Stand-ins for file systems without exclusive creation, over local files, on which a writer can be killed or fail."""

import os
import signal
from pathlib import Path
from typing import ClassVar, Literal

import fsspec
from fsspec import AbstractFileSystem
from fsspec.implementations.local import LocalFileSystem

Moment = Literal["never", "amid the hidden file", "after the hidden file", "amid the object", "after the object"]


class Files(LocalFileSystem):
    """Local files under a scheme of their own; at the ``deadly`` moment the process is killed, or fails."""

    deadly: ClassVar[Moment] = "never"
    only_fails: ClassVar[bool] = False

    def __init__(self, **options):
        super().__init__(auto_mkdir=True, **options)

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(path.partition("://")[2] or path)

    def pipe_file(self, path, value, mode="overwrite", **_):  # noqa: ARG002 - as fsspec has it
        with self.open(path, "wb") as file:
            file.write(value)

    def cp_file(self, path1, path2, **_):
        self.pipe_file(path2, self.cat_file(path1))

    def _open(self, path, mode="rb", **kwargs):
        file = super()._open(path, mode, **kwargs)
        return file if mode == "rb" else Written(file, "the hidden file" if "/." in path else "the object")


class Written:
    """A file that is being written."""

    def __init__(self, file, what):
        self.file, self.what = file, what

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()
        if Files.deadly == f"after {self.what}":
            die()

    def write(self, data):
        if Files.deadly == f"amid {self.what}":
            self.file.write(data[: len(data) // 2])
            self.file.close()
            die()
        self.file.write(data)


def die():
    if Files.only_fails:
        raise OSError("connection lost")
    os.kill(os.getpid(), signal.SIGKILL)


class Renaming(Files):
    """Its ``mv`` renames, as that of HDFS, SFTP or SMB."""

    protocol = ("renaming", "hdfs")


class Moving(Files):
    """Its ``mv`` copies and removes."""

    protocol = "moving"

    def mv(self, path1, path2, **_):
        self.cp_file(path1, path2)
        self.rm_file(path1)


class Plain(Files):
    """It has no ``mv`` of its own, and nothing tells the age of a file."""

    protocol = "plain"
    mv = AbstractFileSystem.mv
    modified = AbstractFileSystem.modified


SCHEMES = {kind.__name__.lower(): kind for kind in (Renaming, Moving, Plain)}
for scheme, kind in SCHEMES.items():
    fsspec.register_implementation(scheme, kind, clobber=True)


def hidden(folder: Path) -> list[Path]:
    """The temporary files below a folder."""
    return sorted(folder.rglob(".*.tmp"))
