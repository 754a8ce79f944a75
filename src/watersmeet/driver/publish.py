"""Publishes files of results: after their version is committed, and never before.

Until then they have hidden names, which readers pass over. Their names are part of the version (`ResultFiles`), so a
driver that was killed between the commit and this leaves nothing undone: the next one publishes what the last version
names. A driver that lost the checkpoint to another publishes nothing at all.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from watersmeet.model.ids import EpochId
from watersmeet.site.result_files import ResultFormat, epoch_prefix
from watersmeet.state.manifest import Manifest, ResultFiles
from watersmeet.storage.failures import reported
from watersmeet.storage.open import open_files

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem


def publish(manifest: Manifest) -> None:
    """Give the files of a version their final names; those that have them already are skipped."""
    for results in (manifest.results, manifest.rejected):
        if results is not None and results.version == manifest.version and results.names:
            _publish(results)


def _publish(results: ResultFiles) -> None:
    files, root = open_files(results.path)
    with reported("publish results in", results.path):
        for hidden, name in results.names:
            source, target = f"{root}/{hidden}", f"{root}/{name}"
            if files.exists(source):
                files.makedirs(target.rpartition("/")[0], exist_ok=True)
                _move(files, source, target)
        for folder in _staging_folders(results):
            if files.exists(f"{root}/{folder}"):
                files.rm(f"{root}/{folder}", recursive=True)


def _move(files: "AbstractFileSystem", source: str, target: str) -> None:
    """Give a file its final name, unless another driver does so at the same time."""
    try:
        files.mv(source, target)
    except FileNotFoundError:
        if not files.exists(target):
            raise


def tidy(path: str, manifest: Manifest, form: ResultFormat | None = None) -> None:
    """Delete hidden files of attempts that were never committed, and make the folder readable if it is empty.

    What belongs to an epoch that is not committed yet may be another driver's work in progress: it stays.
    """
    files, root = open_files(path)
    with reported("tidy up", path):
        for lost in files.glob(f"{root}/.epoch-*-{manifest.query_id[:8]}-*"):
            if _epoch_of(str(lost)) < manifest.version:
                files.rm(lost, recursive=True)
        if form is not None:
            _leave_readable(files, root, form, EpochId(manifest.version - 1))


def _leave_readable(files: "AbstractFileSystem", root: str, form: ResultFormat, epoch: EpochId) -> None:
    files.makedirs(root, exist_ok=True)
    if not files.glob(f"{root}/epoch-*.parquet") and form.schema is not None:
        import pyarrow.parquet as pq  # noqa: PLC0415 -- only where there are no results yet

        with files.open(f"{root}/{epoch_prefix(epoch, form.query)}-none.parquet", "wb") as file:
            pq.write_table(form.schema.empty_table(), file, compression=form.codec)


def _staging_folders(results: ResultFiles) -> Iterator[str]:
    """The folders that hidden files were in."""
    yield from {hidden.partition("/")[0] for hidden, _ in results.names if "/" in hidden}


def _epoch_of(path: str) -> int:
    """The epoch of a hidden file or folder.

    >>> _epoch_of("out/.epoch-000000000007-3f9c21aa-1-6b2f.parquet")
    7
    """
    return int(path.rsplit("/", 1)[-1].split("-")[1])
