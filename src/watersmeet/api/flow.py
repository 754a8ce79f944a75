"""`Flow`: where a query begins. Streams are registered by name, joined, filtered and projected, then written."""

import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from functools import reduce
from typing import Any

import pyarrow as pa
from msgspec.structs import replace
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from watersmeet.api.joining import On, join_relations
from watersmeet.api.predicate import Predicate
from watersmeet.api.relation import Relation
from watersmeet.api.shape import Shape
from watersmeet.driver.topology import promises_name
from watersmeet.model.errors import DuplicateNameError, NotStreamingError, QueryError, UnknownNameError, nearest
from watersmeet.model.query import StreamNode
from watersmeet.planning.durations import duration_us
from watersmeet.planning.lives import time_column
from watersmeet.planning.names import Scope
from watersmeet.planning.predicates import predicate_name
from watersmeet.planning.promises import named_columns
from watersmeet.planning.views import stream_view
from watersmeet.runners.spark.columns import refused
from watersmeet.runners.spark.determinism import refuse_changing_columns
from watersmeet.runners.spark.punctuations import normal_form
from watersmeet.runners.spark.schemas import arrow_schema
from watersmeet.runners.spark.session import check_session, is_case_sensitive

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


class Flow:
    """The streams of a query, in a Spark session.

    The session is yours: it is never configured, replaced or stopped.

    >>> import watersmeet as wm
    >>> flow = wm.Flow(spark)
    >>> orders = flow.stream("O", wm.testing.replay(spark, [pa.table({"id": [1, 2], "item": ["ink", "pen"]})]))
    >>> payments = flow.stream("P", wm.testing.replay(spark, [pa.table({"order": [2], "cents": [250]})]))
    >>> paid = flow.join(orders, payments, on="O.id = P.order").select("O.item", "P.cents")
    >>> query = paid.writeStream.format("memory").queryName("paid").trigger(availableNow=True).start()
    >>> query.awaitTermination(60)
    True
    >>> [tuple(row) for row in spark.table("paid").collect()]
    [('pen', 250)]
    """

    def __init__(self, spark: SparkSession) -> None:
        check_session(spark)
        self.spark = spark
        self._frames: dict[str, DataFrame] = {}
        self._nodes: dict[str, StreamNode] = {}
        self._punctuated: dict[str, tuple[str, ...]] = {}
        self._promises: dict[str, list[DataFrame]] = {}
        self._aliases: dict[str, list[str]] = {}
        self._rows: dict[tuple[str, ...], DataFrame] = {}
        self._predicates: dict[str, Predicate] = {}

    @property
    def frames(self) -> Mapping[str, DataFrame]:
        """The registered DataFrames by stream name."""
        return self._frames

    @property
    def punctuated(self) -> Mapping[str, tuple[str, ...]]:
        """The streams that have punctuations, and the columns that these name."""
        return self._punctuated

    @property
    def predicates(self) -> Mapping[str, tuple[Callable[..., Any], tuple[str, ...]]]:
        """The functions that joins are on, with the columns they read, by the names they have in conditions."""
        return {name: (each.function, each.columns) for name, each in self._predicates.items()}

    def add_predicate(self, predicate: Predicate) -> str:
        """Register a function under a name; plans number those that they use (`watersmeet.planning.predicates`)."""
        known = next((name for name, each in self._predicates.items() if each is predicate), None)
        name = known or predicate_name(len(self._predicates) + 1, predicate.name)
        self._predicates[name] = predicate
        return name

    @property
    def case_sensitive(self) -> bool:
        """Whether names are case-sensitive in the session."""
        return is_case_sensitive(self.spark)

    def stream(
        self,
        name: str,
        df: DataFrame,
        *,
        time: str | None = None,
        window: str | timedelta | None = None,
        watermark: str | timedelta | None = None,
        unique: str | Sequence[str] | None = None,
    ) -> Relation:
        """Register a streaming DataFrame from any source under a name.

        ``time`` is the column of its event times. A row then lives for the ``window`` that follows its time, or for
        ever without one, and rows are joined only if all their lives overlap. With a ``watermark``, a row may be that
        much earlier than the latest row of the epochs before; rows later than that are rejected, and state that can
        have no match any more is dropped.

        ``unique`` promises that no row arrives with the same values in this column or these columns as a row of an
        earlier epoch, so rows that wait for a match with such a key need not be kept. The promise is not checked.

        >>> from datetime import datetime
        >>> import watersmeet as wm
        >>> clicks = wm.testing.replay(spark, [pa.table({"ad": [1], "at": [datetime(2026, 1, 1, 12, 5)]})])
        >>> times = [datetime(2026, 1, 1, hour) for hour in (11, 12)]
        >>> views = wm.testing.replay(spark, [pa.table({"ad": [1, 1], "at": times})])
        >>> flow = wm.Flow(spark)
        >>> c = flow.stream("C", clicks, time="at", window="1 minute", watermark="1 minute")
        >>> v = flow.stream("V", views, time="at", window="10 minutes", watermark="1 minute")
        >>> query = (c.join(v, on="C.ad = V.ad").select("hour(V.at) AS seen")
        ...     .writeStream.format("memory").queryName("seen").trigger(availableNow=True).start())
        >>> query.awaitTermination(60)
        True
        >>> [tuple(row) for row in spark.table("seen").collect()]
        [(12,)]

        >>> import watersmeet as wm
        >>> flow = wm.Flow(spark)
        >>> flow.stream("A", spark.readStream.format("rate").load())
        Relation(A)
        >>> flow.stream("B", spark.range(3))
        Traceback (most recent call last):
        watersmeet.model.errors.NotStreamingError: [NotStreamingError] the DataFrame of stream B is not a stream: \
it has all its rows already. To fix it, make it with spark.readStream, or join it with Spark's own join.
        """
        self._check(name, df)
        schema = arrow_schema(df.schema, name)
        window_us = None if window is None else duration_us(f"window of stream {name}", window, may_be_zero=False)
        delay_us = (
            None if watermark is None else duration_us(f"watermark of stream {name}", watermark, may_be_zero=True)
        )
        alike = _names(name, unique)
        stream = StreamNode(name, schema, time, window_us, delay_us, unique=alike)
        scope = Scope([stream], case_sensitive=self.case_sensitive)
        time_column(stream, scope)
        named_columns(stream, alike, scope)
        if window is not None and watermark is None:
            warnings.warn(_endless(name), stacklevel=2)
        self._frames[name], self._nodes[name] = df, stream
        return Relation(Shape(self, stream, stream_view(stream, case_sensitive=self.case_sensitive)))

    def punctuations(self, stream: str, df: DataFrame) -> None:
        """Register a streaming DataFrame of punctuations: rows that will not arrive any more.

        Its columns are named as the stream's. A plain value stands for itself, an array for any of its values, a struct
        of ``low`` and ``high`` for the range ``[low, high)``, where null is open; null or a missing column stands for
        any value. A punctuation holds from the end of the epoch in which it arrives: later rows that match it are
        rejected, state that waits for such rows is dropped, and rows without a match and final groups are emitted. One
        whose columns are all null ends the stream. There may be several such DataFrames for a stream.

        >>> import watersmeet as wm
        >>> flow = wm.Flow(spark)
        >>> items = wm.testing.replay(spark, [pa.table({"id": [1, 2]}), pa.table({"id": [3]})])
        >>> bids = wm.testing.replay(spark, [pa.table({"item": [1, 1]}), pa.table({"item": [1, 2]})])
        >>> sold = wm.testing.replay(spark, [pa.table({"item": [1]}), pa.table({"item": pa.array([], pa.int64())})])
        >>> i, b = flow.stream("I", items), flow.stream("B", bids)
        >>> flow.punctuations("B", sold)
        >>> query = (
        ...     flow.join(i, b, on="I.id = B.item")
        ...     .select("I.id")
        ...     .writeStream.format("memory")
        ...     .queryName("bids")
        ...     .trigger(availableNow=True)
        ...     .start()
        ... )
        >>> query.awaitTermination(60)
        True
        >>> sorted(row.id for row in spark.table("bids").collect())
        [1, 1, 2]
        >>> query.lastProgress["customMetrics"]["rejected"]
        [{'stream': 'B', 'reason': 'punctuated', 'rows': 1}]
        """
        if not isinstance(stream, str):
            raise QueryError(
                f"punctuations was given {stream!r} as a stream",
                why="streams are known by their names here",
                how='write for example flow.punctuations("A", df)',
            )
        if stream not in self._nodes:
            raise UnknownNameError(
                f"there is no stream {stream} for these punctuations",
                why="punctuations belong to a registered stream",
                how=f"register it first with flow.stream ({nearest(stream, list(self._nodes))})",
            )
        self._check_frame(f"punctuations of stream {stream}", df)
        node, frames = self._nodes[stream], [*self._promises.get(stream, ()), df]
        scope = Scope([node], case_sensitive=self.case_sensitive)
        names = {scope.fold(name): name for each in frames for name in each.columns}
        named_columns(node, df.columns, scope)
        columns = named_columns(node, tuple(names.values()), scope)
        kinds = {column.field: self._frames[stream].schema[column.field].dataType for column in columns}
        parts = [normal_form(stream, each, kinds) for each in frames]
        self._frames[promises_name(stream)] = reduce(DataFrame.union, parts)
        self._promises[stream], self._punctuated[stream] = frames, tuple(kinds)
        for alias in self._aliases.get(stream, ()):
            self._share_punctuations(stream, alias)

    def join(self, *relations: Relation | On, on: On | None = None, how: str | None = None) -> Relation:
        """Join two or more relations on equalities of their columns; ``on`` and ``how`` are those of `Relation.join`.

        Columns that are all equal to each other are joined in one m-way operator; several keys make a tree of
        operators. Other conditions filter. Without an equality, streams with windows are joined as a ring: every row
        meets all rows of the other.

        >>> from datetime import datetime
        >>> import watersmeet as wm
        >>> at = [datetime(2026, 1, 1, 12, minute) for minute in (0, 1, 30)]
        >>> bids = wm.testing.replay(spark, [pa.table({"price": [10, 30, 10], "at": at})])
        >>> asks = wm.testing.replay(spark, [pa.table({"price": [12], "at": at[:1]})])
        >>> flow, window = wm.Flow(spark), {"time": "at", "window": "5 minutes", "watermark": "1 minute"}
        >>> b, a = flow.stream("B", bids, **window), flow.stream("A", asks, **window)
        >>> query = (
        ...     flow.join(b, a, on="ABS(B.price - A.price) < 5")
        ...     .select("B.price AS bid", "A.price AS ask")
        ...     .writeStream.format("memory")
        ...     .queryName("near")
        ...     .trigger(availableNow=True)
        ...     .start()
        ... )
        >>> query.awaitTermination(60)
        True
        >>> [tuple(row) for row in spark.table("near").collect()]
        [(10, 12)]

        >>> import watersmeet as wm
        >>> flow = wm.Flow(spark)
        >>> rates = spark.readStream.format("rate").load()
        >>> a, b, c = (flow.stream(name, rates) for name in "ABC")
        >>> print(flow.join(a, b, c, on="A.value = B.value AND B.value = C.value"))
        Relation(A, B, C)
        """
        return join_relations(self, relations, on, how)

    def type_of(self, sql: str, stream: str) -> pa.DataType:
        """The type Spark gives an expression over a stream."""
        try:
            frame = self._frames[stream].alias(stream).select(F.expr(sql).alias("key"))
        except (PySparkException, Py4JError) as error:
            raise refused(error) from error
        return arrow_schema(frame.schema, stream).field(0).type

    def row_frame(self, streams: Sequence[str]) -> DataFrame:
        """A DataFrame without rows that has a struct column for each of some streams."""
        key = tuple(streams)
        if key not in self._rows:
            structs = (F.lit(None).cast(self._frames[name].schema).alias(name) for name in streams)
            self._rows[key] = self.spark.range(0).select(*structs)
        return self._rows[key]

    def add_alias(self, stream: str, alias: str) -> None:
        """Register a stream under another name."""
        self.check_name(alias, taken=self._frames)
        self._frames[alias], self._nodes[alias] = self._frames[stream], replace(self._nodes[stream], name=alias)
        self._aliases.setdefault(stream, []).append(alias)
        if stream in self._punctuated:
            self._share_punctuations(stream, alias)

    def _share_punctuations(self, stream: str, alias: str) -> None:
        self._frames[promises_name(alias)] = self._frames[promises_name(stream)]
        self._promises[alias], self._punctuated[alias] = self._promises[stream], self._punctuated[stream]
        for other in self._aliases.get(alias, ()):
            self._share_punctuations(alias, other)

    def check_name(self, name: str, taken: Iterable[str]) -> None:
        """Refuse an invalid or duplicate name."""
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise QueryError(
                f"stream name {name!r} is not a plain name",
                why="it is used as the name of a column and of folders",
                how="use letters, digits and underscores, starting with a letter",
            )
        known = {each.lower(): each for each in taken}
        if name.lower() in known:
            raise DuplicateNameError(
                f"stream {name} exists already",
                why=f"a joined row has one column per stream, and {known[name.lower()]} is taken",
                how="choose another name; to join a stream with itself, register it twice under two names",
            )

    def _check(self, name: str, df: DataFrame) -> None:
        self.check_name(name, self._frames)
        self._check_frame(f"stream {name}", df)

    def _check_frame(self, what: str, df: DataFrame) -> None:
        if not isinstance(df, DataFrame):
            raise QueryError(
                f"{what} was given {df!r}" if what.startswith("stream") else f"{what} were given as {df!r}",
                why="a stream is made of a streaming DataFrame",
                how="make one with spark.readStream",
            )
        if not df.isStreaming:
            raise NotStreamingError(
                f"the DataFrame of {what} is not a stream",
                why="it has all its rows already",
                how="make it with spark.readStream, or join it with Spark's own join",
            )
        refuse_changing_columns(what, df)


def _names(stream: str, unique: object) -> tuple[str, ...]:
    """The columns that are unique together."""
    names = () if unique is None else (unique,) if isinstance(unique, str) else unique
    if not isinstance(names, list | tuple) or not all(isinstance(each, str) for each in names):
        raise QueryError(
            f"unique of stream {stream} is {unique!r}",
            why="it names columns whose values together are unique",
            how='write one name, as "id", or a list of names',
        )
    return tuple(names)


def _endless(name: str) -> str:
    return (
        f"stream {name} has a window and no watermark: the window decides which rows are joined, but no row is late "
        f"and none expires, so state grows for ever. Add watermark='30 seconds', or as much as rows may be late."
    )
