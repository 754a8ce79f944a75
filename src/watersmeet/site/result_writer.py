"""Writes what one attempt of a task gives to a parquet file. Few queries need what it loads."""

import pyarrow as pa
import pyarrow.parquet as pq

from watersmeet.model.ids import EpochId, SiteId
from watersmeet.operators.results import Results
from watersmeet.site.result_files import ResultFormat
from watersmeet.site.travel import joined_rows
from watersmeet.storage.failures import reported
from watersmeet.storage.open import open_files

ROW_GROUP_BYTES = 64 << 20


class FileWriter:
    """Takes batches of rows; a file comes into being with the first."""

    def __init__(self, form: ResultFormat, name: str) -> None:
        self._form, self._name = form, name
        self._writer: pq.ParquetWriter | None = None
        self._waiting: list[pa.RecordBatch] = []
        self._bytes = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Take a batch of rows."""
        self._waiting.append(batch)
        self._bytes += batch.nbytes
        if self._bytes >= ROW_GROUP_BYTES:
            self._flush()

    def close(self) -> tuple[str, ...]:
        """Finish; the names of the files written."""
        self._flush()
        if self._writer is None:
            return ()
        with reported("finish", f"{self._form.path}/{self._name}"):
            self._writer.close()
            self._file.close()
        return (self._name,)

    def _flush(self) -> None:
        if not self._waiting:
            return
        with reported("write", f"{self._form.path}/{self._name}"):
            if self._writer is None:
                files, root = open_files(str(self._form.path))
                files.makedirs(root, exist_ok=True)
                self._file = files.open(f"{root}/{self._name}", "wb")
                self._writer = pq.ParquetWriter(self._file, self._form.schema, compression=self._form.codec)
            self._writer.write_table(pa.Table.from_batches(self._waiting))
        self._waiting, self._bytes = [], 0


class ResultWriter:
    """Takes the results of one attempt."""

    def __init__(self, form: ResultFormat, epoch: EpochId, site: SiteId) -> None:
        self._form = form
        self._writer = FileWriter(form, form.attempt_name(epoch, site))

    def write(self, results: Results) -> None:
        """Take a batch of results."""
        if self._form.path is not None and self._form.schema is not None:
            self._writer.write(self._batch(results))

    def close(self) -> tuple[str, ...]:
        """Finish; the names of the files written."""
        return self._writer.close()

    def _batch(self, results: Results) -> pa.RecordBatch:
        if self._form.columns is None:
            return joined_rows(results.columns(), results.count, self._form.schema)
        columns = results.columns()
        return pa.RecordBatch.from_arrays([columns[name] for name in self._form.columns], schema=self._form.schema)
