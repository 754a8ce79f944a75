"""A query, written once: as a tree of our operators, as a chain of Spark's own joins, and as SQL.

>>> chain = Pipeline((Step("AB", (("A.k", "B.k"),)), Step("C", (("B.m", "C.m"),))))
>>> chain.streams
('A', 'B', 'C')
>>> print(chain.sql)
SELECT A.*, B.*, C.* FROM A JOIN B ON A.k = B.k JOIN C ON B.m = C.m
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from watersmeet.api.flow import Flow
from watersmeet.api.predicate import predicate
from watersmeet.api.relation import Relation

Equality = tuple[str, str]

_COLUMN = re.compile(r"\b([A-Z])\.(\w+)")


@dataclass(frozen=True)
class Step:
    """One operator: the streams it adds, and a pair of columns that joins each of them to one before it.

    ``conditions`` are what else it is on, at most one for each pair, in the same order; without pairs, it is a ring and
    they are all. If it is no inner join, it adds one stream, or is of two.
    """

    streams: str
    equalities: tuple[Equality, ...]
    conditions: tuple[str, ...] = ()
    how: Literal["inner", "left"] = "inner"

    @property
    def on(self) -> str:
        """All of it as one condition."""
        return " AND ".join((*(f"{left} = {right}" for left, right in self.equalities), *self.conditions))

    @property
    def links(self) -> tuple["Link", ...]:
        """The same as joins of two, one after the other; the first of all streams has none."""
        count = max(len(self.equalities), len(self.conditions))
        joined = self.streams[-count:]
        others = (*self.conditions, *[""] * (count - len(self.conditions)))
        equalities = (*self.equalities, *[None] * (count - len(self.equalities)))
        return tuple(map(Link, joined, equalities, others, [self.how] * count))


@dataclass(frozen=True)
class Link:
    """A stream, and what joins it to those before it."""

    stream: str
    equality: Equality | None
    condition: str
    how: str

    @property
    def on(self) -> str:
        """The condition."""
        equality = [f"{self.equality[0]} = {self.equality[1]}"] if self.equality else []
        return " AND ".join([*equality, *([self.condition] if self.condition else [])])

    @property
    def repeated(self) -> tuple[str, ...]:
        """The column that has what one before it has, too."""
        return self.equality[1:] if self.equality else ()


@dataclass(frozen=True)
class EventTime:
    """The column that holds the event times of every stream, how late rows may be, and how far apart joined ones."""

    column: str
    watermark: str
    reach: str = ""


@dataclass(frozen=True)
class Counted:
    """Results are counted by windows of the first stream's event time, and by a number of parts of its key."""

    seconds: int
    key: str
    parts: int


@dataclass(frozen=True)
class Compared:
    """A function that is asked of each pair of rows that the first step finds, and lets all pass."""

    function: Callable[[pa.Array, pa.Array], pa.Array]
    columns: Equality


@dataclass(frozen=True)
class Pipeline:
    """Operators on top of each other; streams have names of one letter. Results may be counted in the end.

    All streams have event times, or none; or punctuations on one column, from sources of their own.

    Ours give a column for every stream, and Spark's own joins flat ones, in which as with ``join(other, "k")`` the key
    is kept once. Where ``is_flat``, as for a sink that stores them, both give the same.
    """

    steps: tuple[Step, ...]
    is_flat: bool = False
    time: EventTime | None = None
    counted: Counted | None = None
    punctuated: str = ""
    compared: Compared | None = None

    def told(self, promises: Literal["all", "windows", "punctuations"]) -> "Pipeline":
        """The same query, told of some promises only."""
        return replace(
            self,
            time=None if promises == "punctuations" else self.time,
            punctuated="" if promises == "windows" else self.punctuated,
        )

    @property
    def sources(self) -> tuple[str, ...]:
        """The streams, and their punctuations."""
        return (*self.streams, *(map(ended, self.streams) if self.punctuated else ()))

    @property
    def streams(self) -> tuple[str, ...]:
        """All streams, in the order in which they are joined."""
        return tuple(stream for step in self.steps for stream in step.streams)

    @property
    def links(self) -> tuple[Link, ...]:
        """What every stream but the first is joined on, in order."""
        return tuple(link for step in self.steps for link in step.links)

    @property
    def sql(self) -> str:
        """The join of tables named as the streams, with all their columns."""
        columns = ", ".join(f"{stream}.*" for stream in self.streams)
        joins = (f"{'LEFT ' if link.how == 'left' else ''}JOIN {link.stream} ON {link.on}" for link in self.links)
        source = " ".join((self.streams[0], *joins))
        if self.counted is None or self.time is None:
            return f"SELECT {columns} FROM {source}"  # noqa: S608
        window = f"time_bucket(INTERVAL {self.counted.seconds} SECONDS, {self.streams[0]}.{self.time.column})"
        return f"SELECT count(*) FROM {source} GROUP BY {window}, {self.counted.key} % {self.counted.parts}"  # noqa: S608

    def relation(self, frames: Mapping[str, DataFrame]) -> Relation:
        """Our operators: one for each step."""
        flow = Flow(frames[self.streams[0]].sparkSession)
        timed = {"time": self.time.column, "watermark": self.time.watermark} if self.time else {}
        streams = {name: flow.stream(name, frames[name], **timed) for name in self.streams}
        for name in self.streams if self.punctuated else ():
            flow.punctuations(name, frames[ended(name)].select(self.punctuated))
        first, *rest = self.steps
        asked = [predicate(self.compared.function, *self.compared.columns)] if self.compared else []
        joined = flow.join(*(streams[name] for name in first.streams), on=[first.on, *asked], how=first.how)
        for step in rest:
            joined = joined.join(*(streams[name] for name in step.streams), on=step.on, how=step.how)
        if self.counted is not None and self.time is not None:
            window = f"window({self.streams[0]}.{self.time.column}, '{self.counted.seconds} seconds') AS w"
            part = f"{self.counted.key} % {self.counted.parts} AS part"
            return joined.groupBy(window, part).agg("count(*) AS n")
        return joined.select(*self._flat_columns(frames)) if self.is_flat else joined

    def chain(self, frames: Mapping[str, DataFrame]) -> DataFrame:
        """Spark's own joins, one after the other."""
        joined = self._prefixed(self.streams[0], frames)
        links = self.links
        for link in links:
            other = self._prefixed(link.stream, frames)
            on = F.expr(_COLUMN.sub(r"\1_\2", link.on))
            joined = joined.join(other, on, link.how).drop(*map(_flat, link.repeated))
            if self.time and (link is not links[-1] or self.counted):
                joined = _without_watermark(joined, f"{link.stream}_{self.time.column}")
        if self.counted is not None and self.time is not None:
            window = F.window(f"{self.streams[0]}_{self.time.column}", f"{self.counted.seconds} seconds")
            part = F.col(_flat(self.counted.key)) % self.counted.parts
            return joined.groupBy(window.alias("w"), part.alias("part")).agg(F.count(F.lit(1)).alias("n"))
        return joined

    def _prefixed(self, stream: str, frames: Mapping[str, DataFrame]) -> DataFrame:
        frame = frames[stream]
        named = frame.select(*(frame[name].alias(f"{stream}_{name}") for name in frame.columns))
        return named.withWatermark(f"{stream}_{self.time.column}", self.time.watermark) if self.time else named

    def _flat_columns(self, frames: Mapping[str, DataFrame]) -> list[str]:
        """What is left of all columns where each key is kept once, under the names it has in the chain."""
        again = {column for link in self.links for column in link.repeated}
        columns = [f"{stream}.{name}" for stream in self.streams for name in frames[stream].columns]
        return [f"{column} AS {_flat(column)}" for column in columns if column not in again]


def ended(stream: str) -> str:
    """The source of a stream's punctuations."""
    return f"{stream}-ended"


def _flat(column: str) -> str:
    return column.replace(".", "_")


def _without_watermark(frame: DataFrame, column: str) -> DataFrame:
    """The same rows: Spark allows one column with a watermark for each input of a join, here the first stream's."""
    return frame.withColumn(column, F.expr(f"{column} + INTERVAL 0 SECONDS"))
