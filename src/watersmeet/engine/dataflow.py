"""The dataflow of a query on Spark: one union of all streams going in, one stage per level of the plan.

    union of the streams (tag, hash, slots)              in the streaming plan: filters, projections and hashes
      -> site -> exchange -> [anchor] -> site tasks      level 0
      -> hash, site -> exchange -> [anchor] -> tasks     level 1, ...
      -> filters -> rows (a struct column per stream)    to the sink

The `anchor` adds a row for every site, which tells a task its site and is passed over then.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import chain

import pyarrow as pa
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from watersmeet.engine.anchor import Anchor
from watersmeet.engine.effects import Report
from watersmeet.engine.layout import HASH, RUN, SITE, TAG, Layout, slot_name
from watersmeet.engine.site_task import SiteTask
from watersmeet.engine.spec import LevelSpec
from watersmeet.engine.split import by_tag, expression, hash_of, joins_something, site_of
from watersmeet.engine.topology import Topology
from watersmeet.engine.types import null, spark_schema
from watersmeet.engine.worker_socket import acknowledge_at_once
from watersmeet.model.errors import WorkerError
from watersmeet.model.plan import QUOTED, Column, Input, Operator

_TEXT = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
_NAME_OR_TEXT = re.compile(rf"{_TEXT}|{QUOTED}\.{QUOTED}")


def tagged_union(topology: Topology, frames: Mapping[str, DataFrame]) -> DataFrame:
    """All streams as one, each row with its tag, the hash of its key and its columns in slots."""
    layout = topology.incoming(0)
    parts = [_tagged(topology, layout, tag, source, frames) for tag, source in topology.stream_tags().items()]
    union = parts[0]
    for part in parts[1:]:
        union = union.union(part)
    return union


def run_level(anchor: Anchor, delta: DataFrame | None, spec: LevelSpec, report: Report) -> DataFrame:
    """Bring every row to its site and run the site tasks of one level."""
    tasks = _site_tasks(spec, report, anchor_leads=anchor.leads)
    return anchor.gather(delta, spec).mapInArrow(tasks, spark_schema(spec.output))


@dataclass
class FirstSplit:
    """Tells a batch's rows their sites. Routing seldom changes, and writing it down takes many calls of the JVM."""

    topology: Topology
    groups: int
    _routing: Mapping[str, Sequence[int]] = field(default_factory=dict)
    _site: SparkColumn | None = None

    def delta(self, union: DataFrame, routing: Mapping[str, Sequence[int]]) -> DataFrame:
        """The rows of a batch, each with its site at the operator that joins it."""
        if self._site is None or routing != self._routing:
            tables = {tag: routing[self.topology.inputs[tag][0].id] for tag in self.topology.stream_tags()}
            self._routing, self._site = routing, site_of(tables, self.groups).alias(SITE)
        return union.select(self._site, "*")


def next_delta(
    produced: DataFrame, topology: Topology, level: int, routing: Mapping[str, Sequence[int]], groups: int
) -> DataFrame:
    """What a level produced, filtered, with hash and site at the next level; pointers and parcels keep their site."""
    if topology.packs(level):
        return produced
    fed, below = topology.fed_by_level(level - 1), topology.outgoing(level - 1)
    sources = {tag: source for tag, (_, source) in fed.items()}
    hashed = by_tag({tag: hash_of(_keys(source, below)) for tag, source in sources.items()})
    site = site_of({tag: routing[topology.inputs[tag][0].id] for tag in fed}, groups, hashed)
    passes = by_tag({tag: _passes(*pair, below) for tag, pair in fed.items()})
    is_pointer = F.col(RUN).isNotNull()
    return produced.where(is_pointer | passes).select(
        F.coalesce(F.col(SITE), site).alias(SITE),
        TAG,
        F.when(~is_pointer, hashed).alias(HASH),
        RUN,
        *_slots(topology.incoming(level), sources, below).values(),
    )


def finish(rows: DataFrame, operator: Operator) -> DataFrame:
    """The query's rows: what the root produced and its filters let pass."""
    for condition in operator.filters:
        rows = rows.where(condition)
    return rows


def _site_tasks(
    spec: LevelSpec, report: Report, *, anchor_leads: bool
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function Spark runs for every site: the first row is the anchor's or comes after it, and tells which.

    (The number of the Spark partition would not: a sink may coalesce several sites into one task.)
    """
    sites = {each.key: site for site, each in spec.sites.items()}

    def site_task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        acknowledge_at_once()
        for first in batches:
            if first.num_rows:
                task = SiteTask(spec, sites[first.column(SITE)[0].as_py()])
                rest = _after_anchor(first) if anchor_leads else first
                yield from task.run(chain([rest], batches))
                report.add(task.effects_name)

    return site_task


def _after_anchor(first: pa.RecordBatch) -> pa.RecordBatch:
    """The rows behind the anchor's. Rows that come without it are of a site that some other task answers for, too."""
    if first.column(TAG)[0].is_valid:
        raise WorkerError(
            "rows have come to a site task without their site's row of the anchor",
            why="Spark has not kept the partitions of a union whose parts are partitioned alike",
            how="leave spark.sql.unionOutputPartitioning as it is, and report this with the version of Spark",
        )
    return first.slice(1)


def _tagged(topology: Topology, layout: Layout, tag: int, source: Input, frames: Mapping[str, DataFrame]) -> DataFrame:
    frame = frames[source.name].alias(source.name)
    for condition in topology.plan.stream(source.name).filters:
        frame = frame.where(condition)
    keys = _keys(source, None)
    own = _slots(layout, {tag: source}, None)
    slots = [own[slot] if slot in own else null(kind, slot_name(slot)) for slot, kind in enumerate(layout.slots)]
    return frame.where(joins_something(keys)).select(F.lit(tag).alias(TAG), hash_of(keys).alias(HASH), *slots)


def _slots(layout: Layout, sources: Mapping[int, Input], below: Layout | None) -> dict[int, SparkColumn]:
    """The slots that rows of some tags fill, in order."""
    filled: dict[int, dict[int, SparkColumn]] = {}
    for tag, source in sources.items():
        for column, slot in layout.columns[tag]:
            filled.setdefault(slot, {})[tag] = expression(in_slots(_value(column, source), below))
    guarded = len(sources) > 1
    return {slot: by_tag(cases, guarded=guarded).alias(slot_name(slot)) for slot, cases in sorted(filled.items())}


def _keys(source: Input, below: Layout | None) -> list[str]:
    return [in_slots(key.sql, below) for key in source.keys]


def _value(column: Column, source: Input) -> str:
    computed = next((key.sql for key in source.keys if key.column == column), None)
    if column.field.startswith("#") and computed is not None:
        return computed
    return column.sql


def in_slots(sql: str, layout: Layout | None) -> str:
    """Canonical SQL over streams' columns as SQL over the slots they are in; what stands in quotes stays.

    >>> layout = Layout((pa.int64(),), {0: ((Column("A", "x"), 0),)})
    >>> in_slots("`A`.`x` > 3 AND `A`.`x` <> '`A`.`x`'", layout)
    "`#s0` > 3 AND `#s0` <> '`A`.`x`'"
    """
    pairs = [pair for columns in layout.columns.values() for pair in columns] if layout else []
    slots = {column.sql: f"`{slot_name(slot)}`" for column, slot in pairs}
    return _NAME_OR_TEXT.sub(lambda found: slots.get(found[0], found[0]), sql)


def _passes(operator: Operator, source: Input, below: Layout | None) -> SparkColumn:
    conditions = (expression(in_slots(text, below)) for text in operator.filters)
    return reduce(SparkColumn.__and__, conditions, joins_something(_keys(source, below)))
