"""Files of results that site tasks write themselves: how they come into being, and how the driver publishes them.

A task writes to a hidden file of its own attempt, and tells its name with its effects. Before the commit the driver
publishes one attempt's files under the epoch's name; a replay publishes over them.

    .epoch-000000000007-<query>-1-<attempt>.parquet   ->   epoch-000000000007-<query>-1.parquet
"""

from collections.abc import Sequence

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq

from watersmeet.engine.direct import Direct, epoch_prefix
from watersmeet.model.ids import EpochId, SiteId
from watersmeet.storage.failures import reported
from watersmeet.storage.open import delete_by_prefix, open_files

ROW_GROUP_BYTES = 64 << 20


class DirectWriter:
    """Takes the results of one attempt; a file comes into being with the first."""

    def __init__(self, direct: Direct, epoch: EpochId, site: SiteId) -> None:
        self._direct, self._name = direct, direct.attempt_name(epoch, site)
        self._writer: pq.ParquetWriter | None = None
        self._waiting: list[pa.RecordBatch] = []
        self._bytes = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Take a batch of the schema's columns."""
        self._waiting.append(batch)
        self._bytes += batch.nbytes
        if self._bytes >= ROW_GROUP_BYTES:
            self._flush()

    def close(self) -> tuple[str, ...]:
        """Finish; the names of the files written."""
        self._flush()
        if self._writer is None:
            return ()
        with reported("finish", f"{self._direct.path}/{self._name}"):
            self._writer.close()
            self._file.close()
        return (self._name,)

    def _flush(self) -> None:
        if not self._waiting:
            return
        with reported("write", f"{self._direct.path}/{self._name}"):
            if self._writer is None:
                files, root = open_files(str(self._direct.path))
                files.makedirs(root, exist_ok=True)
                self._file = files.open(f"{root}/{self._name}", "wb")
                self._writer = pq.ParquetWriter(self._file, self._direct.schema, compression=_codec(self._direct))
            self._writer.write_table(pa.Table.from_batches(self._waiting))
        self._waiting, self._bytes = [], 0


def publish(direct: Direct, epoch: EpochId, written: Sequence[tuple[SiteId, str]], *, first: bool) -> None:
    """Give one attempt's files the epoch's names; a first epoch replaces all that a killed driver left of it."""
    if direct.path is None:
        return
    files, root = open_files(direct.path)
    with reported("publish results in", direct.path):
        for site, name in written:
            files.mv(f"{root}/{name}", f"{root}/{direct.file_name(epoch, site)}")
    if first:
        ours = {direct.file_name(epoch, site) for site, _ in written}
        delete_by_prefix(direct.path, epoch_prefix(epoch, direct.query), but=ours)
        _leave_no_traces(direct, files, root, epoch)


def _leave_no_traces(direct: Direct, files: fsspec.AbstractFileSystem, root: str, epoch: EpochId) -> None:
    """Delete hidden files of lost attempts, and make the folder readable even if no result has come yet."""
    for lost in files.glob(f"{root}/.epoch-*-{direct.query[:8]}-*"):
        files.rm_file(lost)
    files.makedirs(root, exist_ok=True)
    if not files.glob(f"{root}/epoch-*.parquet") and direct.schema is not None:
        with files.open(f"{root}/{epoch_prefix(epoch, direct.query)}-none.parquet", "wb") as file:
            pq.write_table(direct.schema.empty_table(), file, compression=_codec(direct))


def _codec(direct: Direct) -> str:
    return "none" if direct.compression == "uncompressed" else direct.compression
