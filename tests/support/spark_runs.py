"""Run a case on Spark through the public API and give what the sink got."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

import watersmeet as wm
from tests.support.draws import Case, TimedCase
from tests.support.oracle import multiset
from tests.support.ring_draws import OF_THREE, PREDICATE
from watersmeet.model.query import FilterNode, JoinNode, Node, StreamNode

PATIENCE_S = 240
_CALL = re.compile(rf"(?: AND )?((?:{PREDICATE}|{OF_THREE})\([^)]*\))(?: AND )?")
_COLUMN = re.compile(r"\w+\.\w+")


class Collected:
    """A sink that keeps every epoch's rows by id, so that a replay replaces them."""

    def __init__(self) -> None:
        self.epochs: dict[int, pa.Table] = {}

    def __call__(self, rows: DataFrame, epoch: int) -> None:
        self.epochs[epoch] = rows.toArrow()

    @property
    def rows(self) -> Counter[str]:
        return sum((multiset(flat(table)) for table in self.epochs.values()), start=Counter())


def flat(rows: pa.Table) -> pa.Table:
    """A row's struct columns as plain columns."""
    return rows.flatten()


def relation(flow: wm.Flow, frames: Mapping[str, DataFrame], node: Node) -> wm.Relation:
    """A drawn query, in the words of the API."""
    if isinstance(node, StreamNode):
        said = {"unique": node.unique} if node.unique else {}
        stream = flow.stream(node.name, frames[node.name], **times_of(node), **said)
        if node.punctuated is not None:
            flow.punctuations(node.name, frames[f"{node.name}#promises"])
        return stream
    if isinstance(node, FilterNode):
        return relation(flow, frames, node.input).where(node.condition)
    assert isinstance(node, JoinNode)
    return flow.join(*(relation(flow, frames, each) for each in node.inputs), on=with_functions(node.on), how=node.how)


def with_functions(on: str) -> object:
    """A drawn condition, in which functions are functions; they stand between ANDs."""
    parts = [part for part in _CALL.split(on) if part]
    made = [_predicate(part) if _CALL.fullmatch(part) else part for part in parts]
    return on if len(parts) == 1 and made == parts else made


def _predicate(call: str) -> object:
    def close(left: pa.Array, right: pa.Array) -> pa.Array:
        """Defined here, so that it travels to the workers as a whole."""
        return pc.less_equal(pc.abs(pc.subtract(left, right)), 1)

    def beyond(first: pa.Array, second: pa.Array, third: pa.Array) -> pa.Array:
        return pc.greater(pc.add(first, second), third)

    return wm.predicate(close if call.startswith(PREDICATE) else beyond, *_COLUMN.findall(call))


def times_of(node: StreamNode) -> dict[str, object]:
    lengths = {"window": node.window_us, "watermark": node.delay_us}
    times = {name: timedelta(microseconds=length) for name, length in lengths.items() if length is not None}
    return {} if node.time is None else {"time": node.time, **times}


def frames_of(spark: SparkSession, case: Case) -> dict[str, DataFrame]:
    """The streams of a case, and their punctuations as a user writes them."""
    frames = {name: wm.testing.replay(spark, tables) for name, tables in case.streams.items()}
    for name, each in (case.promises if isinstance(case, TimedCase) else {}).items():
        schema = case.nodes[name].schema
        tables = [each.written(epoch, schema) for epoch in range(len(case.epochs))]
        frames[f"{name}#promises"] = wm.testing.replay(spark, tables)
    return frames


def run_case(spark: SparkSession, case: Case, **options: object) -> Counter[str]:
    rows = relation(wm.Flow(spark), frames_of(spark, case), case.query.node)
    named = [f"{text} AS {text.replace('.', '_')}" for text in case.query.needed or ()]
    return run(rows.select(*named) if named else rows, **options)


def run(rows: wm.Relation, **options: object) -> Counter[str]:
    """All results of a query over what is available now."""
    sink = Collected()
    query = rows.writeStream.foreachBatch(sink).options(**options).trigger(availableNow=True).start()
    assert query.awaitTermination(PATIENCE_S)
    return sink.rows


def tables_of(columns: Mapping[str, Sequence[object]], types: Mapping[str, pa.DataType] | None = None) -> pa.Table:
    schema = pa.schema(list(types.items())) if types else None
    return pa.table(dict(columns), schema=schema)
