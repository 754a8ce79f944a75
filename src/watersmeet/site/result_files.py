"""Files of results that site tasks write themselves, and what they are called.

Turning Arrow batches into Spark's rows is the dearest part of a large epoch. A sink that takes plain columns needs no
rows: ``noop`` drops the results in the task, ``parquet`` writes them there. A task writes to a hidden file of its own
attempt, and tells its name with its effects. The names are part of the version the step commits; only then are the
files given names that readers see (`watersmeet.driver.publish`).

    .epoch-000000000007-<query>-1-<attempt>.parquet   ->   epoch-000000000007-<query>-1.parquet

A sink that takes rows may be given such files, too: Spark reads Parquet by columns quicker than it makes rows of what a
Python worker sends. Those are *staged* (`StagedFormat`): they lie beside the effects of the task, and go with them.

`result_writer` writes them.
"""

import uuid
from dataclasses import dataclass

import pyarrow as pa

from watersmeet.model.ids import EpochId, SiteId


@dataclass(frozen=True)
class ResultFormat:
    """What the tasks of the root do with results: drop them, or write the columns of ``schema`` to files.

    ``columns`` are the names of the root's columns, in the order of the schema; None means the joined row as it is.
    """

    path: str | None
    schema: pa.Schema | None = None
    columns: tuple[str, ...] | None = None
    compression: str = "snappy"
    query: str = ""

    @property
    def codec(self) -> str:
        """The compression, as Arrow calls it."""
        return "none" if self.compression == "uncompressed" else self.compression

    def file_name(self, epoch: EpochId, site: SiteId) -> str:
        """The name of an epoch's file."""
        return f"{epoch_prefix(epoch, self.query)}-{site}.parquet"

    def attempt_name(self, epoch: EpochId, site: SiteId) -> str:
        """A hidden name for one attempt at it."""
        return f".{epoch_prefix(epoch, self.query)}-{site}-{uuid.uuid4().hex[:12]}.parquet"


@dataclass(frozen=True)
class StagedFormat(ResultFormat):
    """Results that Spark reads in the same step, in the folder of effects, which is cleared after the commit."""

    def attempt_name(self, epoch: EpochId, site: SiteId) -> str:
        """A name that Spark does not pass over, and by which effects are cleared: it begins with the epoch."""
        return f"{epoch:012d}-{site}-{uuid.uuid4().hex[:12]}.parquet"


def epoch_prefix(epoch: EpochId, query: str) -> str:
    """How the names of an epoch's files begin: with the epoch and its query.

    >>> epoch_prefix(EpochId(7), "3f9c21aa-0c1d")
    'epoch-000000000007-3f9c21aa'
    """
    return f"epoch-{epoch:012d}-{query[:8]}"
