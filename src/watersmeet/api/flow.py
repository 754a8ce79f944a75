"""`Flow`: where a query begins. Streams are registered by name, joined, filtered and projected, then written."""

import re
from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from watersmeet.api.joining import On, join_relations
from watersmeet.api.relation import Relation
from watersmeet.api.shape import Shape
from watersmeet.model.errors import DuplicateNameError, NotStreamingError, QueryError, UnsupportedError
from watersmeet.model.query import StreamNode
from watersmeet.planning.views import stream_view
from watersmeet.runners.spark.determinism import refuse_changing_columns
from watersmeet.runners.spark.session import check_session, is_case_sensitive
from watersmeet.runners.spark.types import arrow_schema

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


class Flow:
    """The streams of a query and the session they live in.

    The session is the user's: it is never configured, replaced or stopped.

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
        self._rows: dict[tuple[str, ...], DataFrame] = {}

    @property
    def frames(self) -> Mapping[str, DataFrame]:
        """The registered DataFrames by stream name."""
        return self._frames

    @property
    def case_sensitive(self) -> bool:
        """Whether the session tells names apart by case."""
        return is_case_sensitive(self.spark)

    def stream(self, name: str, df: DataFrame, *, time: str | None = None, window: str | None = None) -> Relation:
        """Register a streaming DataFrame from any source under a name.

        >>> import watersmeet as wm
        >>> flow = wm.Flow(spark)
        >>> flow.stream("A", spark.readStream.format("rate").load())
        Relation(A)
        >>> flow.stream("B", spark.range(3))
        Traceback (most recent call last):
        watersmeet.model.errors.NotStreamingError: [NotStreamingError] the DataFrame of stream B is not a stream: \
it has all its rows already. To fix it, make it with spark.readStream, or join it with Spark's own join.
        """
        if time is not None or window is not None:
            raise UnsupportedError(
                f"stream {name} has a window",
                why="this version joins streams without windows only",
                how="leave time and window out; all rows then stay joinable",
            )
        self._check(name, df)
        schema = arrow_schema(df.schema, name)
        self._frames[name] = df
        stream = StreamNode(name, schema)
        return Relation(Shape(self, stream, stream_view(stream, case_sensitive=self.case_sensitive)))

    def join(self, *relations: Relation | On, on: On | None = None, how: str | None = None) -> Relation:
        """Join two or more relations on equalities of their columns; ``on`` and ``how`` are those of `Relation.join`.

        Equalities of one class make one m-way operator, several classes a tree of operators. Other conditions filter.

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
        frame = self._frames[stream].alias(stream).select(F.expr(sql).alias("key"))
        return arrow_schema(frame.schema, stream).field(0).type

    def row_frame(self, streams: Sequence[str]) -> DataFrame:
        """A DataFrame without rows that has a struct column for each of some streams."""
        key = tuple(streams)
        if key not in self._rows:
            structs = (F.lit(None).cast(self._frames[name].schema).alias(name) for name in streams)
            self._rows[key] = self.spark.range(0).select(*structs)
        return self._rows[key]

    def add_alias(self, stream: str, alias: str) -> None:
        """Have a stream under a further name."""
        self.check_name(alias, taken=self._frames)
        self._frames[alias] = self._frames[stream]

    def check_name(self, name: str, taken: Iterable[str]) -> None:
        """Refuse a name that is none, or is taken."""
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise QueryError(
                f"stream name {name!r} is not a plain name",
                why="it names a column and folders",
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
        if not isinstance(df, DataFrame):
            raise QueryError(
                f"stream {name} was given {df!r}",
                why="a stream is made of a streaming DataFrame",
                how="make one with spark.readStream",
            )
        if not df.isStreaming:
            raise NotStreamingError(
                f"the DataFrame of stream {name} is not a stream",
                why="it has all its rows already",
                how="make it with spark.readStream, or join it with Spark's own join",
            )
        refuse_changing_columns(name, df)
