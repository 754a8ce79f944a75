"""Results that are staged: written to files by the tasks, and read from there by the sink, in the same step.

A sink that takes rows can be given those of the tasks themselves. Then every result goes from Python to the JVM and is
made a row of Spark's there, and whatever runs on these rows twice runs the tasks twice. Or the tasks of the root write
Parquet files, and the sink is given a DataFrame that reads them by columns. That is quicker for many results, and takes
a second job, which is slower for few. So results are staged where as many are expected as pay for it.

1. An epoch is expected to have as many results as the one before; a step of cleanup, as the step of cleanup before.
2. The files lie in the driver's folder of effects. They are cleared as these are: after the commit, or, if the driver
   was killed, by the next one.
3. Not staged are types that Parquet does not have, and results of a query with a remote checkpoint: there, files are
   dearer than rows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from watersmeet.driver.ports import Step
from watersmeet.runners.spark.schemas import empty_frame, spark_schema
from watersmeet.site.effects import Effects, folder_of
from watersmeet.site.result_files import ResultFormat, StagedFormat
from watersmeet.site.travel import NOTHING
from watersmeet.storage.base import Storage

STAGED_FROM = 250_000
"""As many results take a core a quarter of a second to become rows, as long as a job that reads few."""

_PATTERNS = frozenset("*?[]{}\\,")
"""Spark takes a path with one of these for a pattern."""


@dataclass
class Staging:
    """Decides which steps of one run stage their results."""

    staged_from: int = STAGED_FROM
    _made: dict[bool, int] = field(default_factory=dict)

    def prepared(self, step: Step[DataFrame], storage: Storage, driver: str) -> Step[DataFrame]:
        """The step as its tasks are to do it: with files of results, if they are staged."""
        *below, root = step.levels
        expected = self._made.get(step.batch is None, 0)
        if root.files is not None or not step.has_results or expected < self.staged_from:
            return step
        schema = root.outgoing.schema
        if storage.is_remote or _PATTERNS & set(storage.url) or schema.names == [NOTHING] or not fits_parquet(schema):
            return step
        form = StagedFormat(f"{storage.url}/{folder_of(driver)}", schema, tuple(schema.names), "none")
        return replace(step, levels=[*below, replace(root, files=form)])

    def learn(self, step: Step[DataFrame], effects: Sequence[Effects]) -> None:
        """A step was taken: the next one of its kind is likely to have as many results."""
        root = step.levels[-1].level
        made = sum(sum(each.rows_out.values()) for each in effects if each.level == root)
        self._made[step.batch is None] = made if step.has_results else 0


def staged_rows(session: SparkSession, form: ResultFormat, effects: Sequence[Effects]) -> DataFrame:
    """What the tasks of a step have written, as rows."""
    paths = [f"{form.path}/{name}" for each in effects for name in each.files]
    schema = form.schema or pa.schema([])
    if not paths:
        return empty_frame(session, schema)
    return session.read.schema(spark_schema(schema)).parquet(*paths)


def staged(step: Step[DataFrame]) -> StagedFormat | None:
    """How the tasks of a step write results for the sink to read, if they do."""
    form = step.levels[-1].files
    return form if isinstance(form, StagedFormat) else None


def fits_parquet(schema: pa.Schema) -> bool:
    """Whether rows come back from a file as they were.

    >>> fits_parquet(pa.schema({"a": pa.int64()})), fits_parquet(pa.schema({"a": pa.list_(pa.duration("us"))}))
    (True, False)
    """
    return not any(map(_is_strange, _types(schema)))


def _types(schema: pa.Schema) -> Iterator[pa.DataType]:
    waiting = [field.type for field in schema]
    while waiting:
        kind = waiting.pop()
        waiting += [kind.field(number).type for number in range(kind.num_fields)]
        yield kind


def _is_strange(kind: pa.DataType) -> bool:
    return bool(pa.types.is_duration(kind) or pa.types.is_interval(kind) or pa.types.is_null(kind))
