"""How the names of successful attempts' effects reach the driver: a Spark accumulator, or the folder itself.

An accumulator's additions come with the end of a task, after all its output was read, and Spark counts those of
successful tasks only. A session without a Spark context (Spark Connect) has no accumulators; there, what is in the
folder has to do.
"""

from dataclasses import dataclass

from pyspark.accumulators import Accumulator, AccumulatorParam
from pyspark.sql import SparkSession

from watersmeet.site.effects import Report, folder_of
from watersmeet.storage.base import Storage


class _Names(AccumulatorParam[tuple[str, ...]]):
    def zero(self, value: tuple[str, ...]) -> tuple[str, ...]:
        del value
        return ()

    def addInPlace(self, value1: tuple[str, ...], value2: tuple[str, ...]) -> tuple[str, ...]:  # noqa: N802 -- Spark's
        return (*value1, *value2)


@dataclass(frozen=True)
class AccumulatedReport:
    """Names by accumulator."""

    names: Accumulator[tuple[str, ...]]

    def add(self, name: str) -> None:
        """Add a name, in a worker."""
        self.names.add((name,))


@dataclass(frozen=True)
class SilentReport:
    """No names: the folder is listed."""

    def add(self, name: str) -> None:
        """Do nothing."""


@dataclass(frozen=True)
class Reports:
    """The names reported to one driver."""

    storage: Storage
    driver: str
    report: Report

    @classmethod
    def of(cls, session: SparkSession, storage: Storage, driver: str) -> "Reports":
        """Reports by the best means the session has."""
        context = getattr(session, "_sc", None)
        names = AccumulatedReport(context.accumulator((), _Names())) if context else SilentReport()
        return cls(storage, driver, names)

    def clear(self) -> None:
        """Forget the names of earlier epochs."""
        if isinstance(self.report, AccumulatedReport):
            self.report.names.value = ()

    def names(self) -> list[str]:
        """The names of this epoch's effects."""
        if isinstance(self.report, AccumulatedReport):
            return list(self.report.names.value)
        return [name for name in self.storage.list(folder_of(self.driver)) if name.endswith(".json")]
