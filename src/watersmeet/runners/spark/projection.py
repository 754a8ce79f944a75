"""What happens to joined rows on their way to the sink: the user's own filters and selects, in Spark."""

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.errors import AnalysisException
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from watersmeet.model.errors import QueryError

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
class Projection:
    """Steps applied to the joined row, first to last."""

    steps: tuple[Where | Select, ...] = ()

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
            raise QueryError(
                "the query aggregates",
                why="each epoch would be aggregated by itself, and the results never be final",
                how="aggregate what the sink holds, or in a function given to foreachBatch",
            )

    def apply(self, rows: DataFrame) -> DataFrame:
        """The rows after all steps; a mistake is told before anything runs."""
        try:
            for step in self.steps:
                rows = rows.where(step.condition) if isinstance(step, Where) else rows.select(*_columns(step.items))
        except AnalysisException as error:
            raise QueryError(
                "Spark does not accept an expression of the query",
                why=str(error).split("\n", 1)[0].rstrip("."),
                how="correct the expression; a joined row has one struct column per stream, so write A.x",
            ) from error
        return rows


def _has_columns(step: Where | Select) -> bool:
    return isinstance(step, Select) and not _all_text(step)


def _all_text(step: Where | Select) -> bool:
    return isinstance(step, Select) and all(isinstance(item, str) for item in step.items)


def _columns(items: Sequence[Item]) -> list[SparkColumn]:
    return [_column(item) if isinstance(item, str) else item for item in items]


def _column(text: str) -> SparkColumn:
    return F.col(text) if text.strip().endswith("*") else F.expr(text)
