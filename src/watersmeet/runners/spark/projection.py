"""What happens to joined rows on their way to the sink: the user's own filters and selects, in Spark."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pyspark.errors import PySparkException
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from watersmeet.model.errors import QueryError
from watersmeet.runners.spark.columns import refused

Item = str | SparkColumn


@dataclass(frozen=True)
class Where:
    """Keep the rows for which a condition holds."""

    condition: Item


@dataclass(frozen=True)
class Select:
    """Project to some expressions."""

    items: tuple[Item, ...]


@dataclass(frozen=True)
class Call:
    """A method of Spark's DataFrames with its arguments."""

    method: Literal["withColumn", "withColumnRenamed", "drop"]
    arguments: tuple[Item, ...]


Step = Where | Select | Call


@dataclass(frozen=True)
class Projection:
    """Steps applied to the joined row, first to last."""

    steps: tuple[Step, ...] = ()

    @property
    def needed(self) -> tuple[str, ...] | None:
        """The SQL of all that the steps read of the joined row, or None where they may read everything."""
        if not self.steps:
            return None
        first = self.steps[0]
        texts = first.items if isinstance(first, Select) else ()
        return tuple(text for text in texts if isinstance(text, str)) if _all_text(first) else None

    @property
    def filters(self) -> bool:
        """Whether some rows may not pass."""
        return any(isinstance(step, Where) for step in self.steps)

    def refuse_aggregates(self, empty: DataFrame) -> None:
        """Refuse steps that make a row of no rows: an aggregate would be one of each epoch by itself."""
        if (len(self.steps) > 1 or any(map(_has_columns, self.steps))) and not empty.isEmpty():
            raise aggregates()

    def apply(self, rows: DataFrame) -> DataFrame:
        """The rows after all steps; a mistake is told before anything runs."""
        try:
            for step in self.steps:
                rows = _applied(step, rows)
        except PySparkException as error:
            raise refused(error) from error
        return rows


def aggregates() -> QueryError:
    """What is said of a query that aggregates."""
    return QueryError(
        "the query aggregates",
        why="each epoch would be aggregated by itself, and the results never be final",
        how="aggregate what the sink holds, or in a function given to foreachBatch",
    )


def _applied(step: Step, rows: DataFrame) -> DataFrame:
    if isinstance(step, Where):
        return rows.where(step.condition)
    if isinstance(step, Select):
        return rows.select(*_columns(step.items))
    made: DataFrame = getattr(rows, step.method)(*step.arguments)
    return made


def _has_columns(step: Step) -> bool:
    return isinstance(step, Select) and not _all_text(step)


def _all_text(step: Step) -> bool:
    return isinstance(step, Select) and all(isinstance(item, str) for item in step.items)


def _columns(items: Sequence[Item]) -> list[SparkColumn]:
    return [_column(item) if isinstance(item, str) else item for item in items]


def _column(text: str) -> SparkColumn:
    return F.col(text) if text.strip().endswith("*") else F.expr(text)
