"""How large the Arrow batches are that Spark makes for site tasks.

Spark ends a batch after so many rows, or when it has so many bytes. To know the second it weighs the batch after every
single row, which took a third of the time of filling it. Rows that were small so far need no weighing: so many of them
as a batch may have are far below the limit.

Rows to come may be larger. So a run begins with the limit: an epoch that failed for want of memory is repeated with it.
Nor is it lifted for parcels, which are large however small their rows are.
"""

from dataclasses import dataclass

from pyspark.sql import SparkSession

from watersmeet.state.manifest import Manifest

LIMIT = "spark.sql.execution.arrow.maxBytesPerBatch"
ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
UNLIMITED = str(2**31 - 1)
SMALL_BATCH_BYTES = 16 << 20
"""A quarter of Spark's limit. Rows of one input differ in size; their mean is known, and not the largest."""


@dataclass
class BatchLimit:
    """Lifts the limit on bytes in the stream's own session, for as long as rows are small; a user's own stays."""

    session: SparkSession
    rows: int
    is_ours: bool
    lifted: bool = False

    @classmethod
    def of(cls, session: SparkSession) -> "BatchLimit":
        """The limits of the stream's session, as the user has left them."""
        return cls(session, int(session.conf.get(ROWS) or 0), is_ours=session.conf.get(LIMIT, None) is None)

    def adjust(self, manifest: Manifest, *, may_lift: bool) -> None:
        """Lift the limit, if it may be, or set it again, by what state tells of the rows so far."""
        small = 0 < _row_bytes(manifest) * self.rows <= SMALL_BATCH_BYTES
        wanted = may_lift and self.is_ours and self.rows > 0 and small
        if wanted != self.lifted:
            self.lifted = wanted
            if wanted:
                self.session.conf.set(LIMIT, UNLIMITED)
            else:
                self.session.conf.unset(LIMIT)

    def restore(self) -> None:
        """Leave the session as it was: another of these would take what this one has set for the user's."""
        if self.lifted:
            self.session.conf.unset(LIMIT)
            self.lifted = False


def _row_bytes(manifest: Manifest) -> float:
    """The mean row of the run with the largest; 0 where nothing is known yet."""
    return max((run.bytes / run.rows for run in manifest.runs.values() if run.rows), default=0.0)
