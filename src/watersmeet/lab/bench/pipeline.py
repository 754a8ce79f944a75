"""A query, written once: as a tree of our operators, as a chain of Spark's own joins, and as SQL.

>>> chain = Pipeline((Step("AB", (("A.k", "B.k"),)), Step("C", (("B.m", "C.m"),))))
>>> chain.streams
('A', 'B', 'C')
>>> print(chain.sql)
SELECT A.*, B.*, C.* FROM A, B, C WHERE A.k = B.k AND B.m = C.m
"""

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame

from watersmeet.api.flow import Flow
from watersmeet.api.relation import Relation

Equality = tuple[str, str]


@dataclass(frozen=True)
class Step:
    """One operator: the streams it adds, and a pair of columns that joins each of them to one before it."""

    streams: str
    equalities: tuple[Equality, ...]


@dataclass(frozen=True)
class Pipeline:
    """Operators on top of each other; streams have names of one letter.

    Ours give a column for every stream, and Spark's own joins flat ones, in which as with ``join(other, "k")`` the key
    is kept once. Where ``is_flat``, as for a sink that stores them, both give the same.
    """

    steps: tuple[Step, ...]
    is_flat: bool = False

    @property
    def streams(self) -> tuple[str, ...]:
        """All streams, in the order in which they are joined."""
        return tuple(stream for step in self.steps for stream in step.streams)

    @property
    def equalities(self) -> tuple[Equality, ...]:
        """What every stream but the first is joined on, in order."""
        return tuple(pair for step in self.steps for pair in step.equalities)

    @property
    def sql(self) -> str:
        """The join of tables named as the streams, with all their columns."""
        columns = ", ".join(f"{stream}.*" for stream in self.streams)
        return f"SELECT {columns} FROM {', '.join(self.streams)} WHERE {_condition(self.equalities)}"  # noqa: S608

    def relation(self, frames: Mapping[str, DataFrame]) -> Relation:
        """Our operators: one for each step."""
        flow = Flow(frames[self.streams[0]].sparkSession)
        streams = {name: flow.stream(name, frames[name]) for name in self.streams}
        first, *rest = self.steps
        joined = flow.join(*(streams[name] for name in first.streams), on=_condition(first.equalities))
        for step in rest:
            joined = joined.join(*(streams[name] for name in step.streams), on=_condition(step.equalities))
        return joined.select(*self._flat_columns(frames)) if self.is_flat else joined

    def chain(self, frames: Mapping[str, DataFrame]) -> DataFrame:
        """Spark's own joins, one after the other."""
        first, *rest = self.streams
        joined = _prefixed(first, frames[first])
        for stream, (left, right) in zip(rest, self.equalities, strict=True):
            other = _prefixed(stream, frames[stream])
            joined = joined.join(other, joined[_flat(left)] == other[_flat(right)]).drop(other[_flat(right)])
        return joined

    def _flat_columns(self, frames: Mapping[str, DataFrame]) -> list[str]:
        """What is left of all columns where each key is kept once, under the names it has in the chain."""
        again = {right for _, right in self.equalities}
        columns = [f"{stream}.{name}" for stream in self.streams for name in frames[stream].columns]
        return [f"{column} AS {_flat(column)}" for column in columns if column not in again]


def _condition(equalities: tuple[Equality, ...]) -> str:
    return " AND ".join(f"{left} = {right}" for left, right in equalities)


def _prefixed(stream: str, frame: DataFrame) -> DataFrame:
    return frame.select(*(frame[name].alias(f"{stream}_{name}") for name in frame.columns))


def _flat(column: str) -> str:
    return column.replace(".", "_")
