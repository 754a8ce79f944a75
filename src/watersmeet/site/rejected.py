"""Writes rejected rows to a parquet file: stream, epoch, reason, and the row as JSON, as all streams share the file.

The epoch is the number of the batch: steps of cleanup between batches, which have ids as well, do not count.

Like results, they are hidden until the version that counts them is committed (`watersmeet.driver.publish`).
"""

from dataclasses import dataclass, field

import pyarrow as pa

from watersmeet.model.ids import BatchId, EpochId, SiteId
from watersmeet.site.result_files import ResultFormat
from watersmeet.site.result_writer import FileWriter

SCHEMA = pa.schema({"stream": pa.string(), "epoch": pa.int64(), "reason": pa.string(), "row": pa.string()})


@dataclass
class RejectedRows:
    """The rejected rows of one attempt of a task; a file comes into being with the first.

    ``epoch`` is the step's id, by which the file is named.
    """

    path: str
    query: str
    epoch: EpochId
    batch: BatchId
    site: SiteId
    _writer: FileWriter = field(init=False)

    def __post_init__(self) -> None:
        form = ResultFormat(self.path, SCHEMA, query=self.query)
        self._writer = FileWriter(form, form.attempt_name(self.epoch, self.site))

    def add(self, stream: str, reason: str, rows: pa.Array) -> None:
        """Take some rows, as JSON, that were rejected for one reason."""
        count = len(rows)
        columns = [pa.repeat(stream, count), pa.repeat(self.batch, count), pa.repeat(reason, count), rows]
        arrays = [column.cast(field.type) for column, field in zip(columns, SCHEMA, strict=True)]
        self._writer.write(pa.RecordBatch.from_arrays(arrays, schema=SCHEMA))

    def close(self) -> tuple[str, ...]:
        """Finish; the names of the files written."""
        return self._writer.close()
