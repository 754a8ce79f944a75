"""Rows as messages, on Spark: what the select of a batch writes down, and the one between two levels.

A message has its input, the hash of its key, the site of its group, and its columns in the slots of the level. Rows
that sites share, or that go to all of them, have a message for each.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from watersmeet.driver.topology import Topology, promises_name
from watersmeet.model.ids import InputName
from watersmeet.model.plan import QUOTED, Column, Input, Operator
from watersmeet.runners.spark.schemas import has_map
from watersmeet.runners.spark.split import (
    Goal,
    Routing,
    all_of,
    by_case,
    expression,
    hash_of,
    is_whole,
    site_of,
    sites_of,
)
from watersmeet.runners.spark.union import STREAM, UnionLayout, holds_back, passes
from watersmeet.site.layout import Layout, slot_name
from watersmeet.site.messages import BODY, HASH, INPUTS_MAX, SITE, TAG, Kind, tag_of

_TEXT = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
_NAME_OR_TEXT = re.compile(rf"{_TEXT}|{QUOTED}\.{QUOTED}")


@dataclass
class FirstDelta:
    """Makes the messages for level 0 of a batch: input, hash, site and columns.

    Plan and routing seldom change, and writing the expressions down takes many calls of the JVM: they are kept.
    """

    union: UnionLayout
    _made_for: tuple[object, Routing] | None = None
    _where: SparkColumn | None = None
    _columns: list[SparkColumn] = field(default_factory=list)

    def of(self, batch: DataFrame, topology: Topology, routing: Routing) -> DataFrame:
        """The messages of a batch."""
        if self._made_for is None or self._made_for[0] is not topology or self._made_for[1] != routing:
            self._write_down(topology, routing)
            self._made_for = (topology, routing)
        rows = batch if self._where is None else batch.where(self._where)
        messages = rows.select(*self._columns)
        return _to_each(messages) if routing.splits else messages

    def _write_down(self, topology: Topology, routing: Routing) -> None:
        numbers = {name: number for number, name in enumerate(self.union.streams)}
        inputs, promises = topology.stream_tags(), topology.promise_tags()
        own = {source.name: (tag, source) for tag, source in inputs.items()}
        sources = inputs | {tag: own[InputName(stream.name)][1] for tag, stream in promises.items()}
        stream_of = {tag: numbers[source.name] for tag, source in inputs.items()}
        stream_of |= {tag: numbers[promises_name(stream.name)] for tag, stream in promises.items()}
        rules = {stream_of[tag]: self._rule(topology, source) for tag, source in inputs.items()}
        rules |= {stream_of[tag]: _Rule(is_promise=True) for tag in promises}
        operators = {stream_of[tag]: topology.inputs[own[source.name][0]][0] for tag, source in sources.items()}
        layout = topology.incoming(0)
        hashed = by_case(STREAM, {number: rule.hash for number, rule in rules.items()}, rules)
        kind = by_case(STREAM, {number: rule.kind for number, rule in rules.items()}, rules)
        tags = {number: tag_of(Kind.PROMISE, tag) if tag in promises else tag for tag, number in stream_of.items()}
        tag = by_case(STREAM, {number: F.lit(tag) for number, tag in tags.items()}, tags.keys())
        slots = _slots(layout, sources, self.union.layout, STREAM, stream_of)
        all_kept = [rule.keeps_all for rule in rules.values()]
        kept = {number: F.lit(True) if rule.keeps_all else rule.joins for number, rule in rules.items()}
        self._where = None if all(all_kept) else by_case(STREAM, kept, rules)
        if routing.splits:
            names = {stream_of[tag]: "" if tag in promises else str(source.name) for tag, source in sources.items()}
            goals = {n: Goal(o.id, names[n], copied=o.level == 0 and bool(names[n])) for n, o in operators.items()}
            site = sites_of(STREAM, goals, routing, hashed, _lots(self.union.layout))
        else:
            site = site_of(STREAM, {number: each.id for number, each in operators.items()}, routing, hashed)
        self._columns = [
            site.alias(SITE),
            (tag + kind if any(all_kept) else tag).alias(TAG),
            hashed.alias(HASH),
            *slots,
        ]

    def _rule(self, topology: Topology, source: Input) -> "_Rule":
        keys = tuple(in_slots(key.sql, self.union.layout) for key in source.keys)
        stream = topology.plan.stream(source.name)
        tag = next(number for number, each in topology.stream_tags().items() if each is source)
        is_preserved = topology.is_preserved(tag)
        time = None if stream.time is None else in_slots(stream.time.sql, self.union.layout)
        flag = in_slots(passes(stream.name).sql, self.union.layout) if holds_back(stream) else None
        return _Rule(keys, time, flag, is_preserved=is_preserved, is_checked=stream.is_checked)


@dataclass(frozen=True)
class _Rule:
    """How the rows of a stream become messages: the SQL of their key, and of their time and filters, if they have any.

    Rows that join nothing are dropped, or go to any site if they are checked, or come out without a match. Punctuations
    have no key, and all go to one site.
    """

    keys: tuple[str, ...] = ()
    time: str | None = None
    passes: str | None = None
    is_preserved: bool = False
    is_checked: bool = False
    is_promise: bool = False

    @property
    def keeps_all(self) -> bool:
        """Whether rows that join nothing go on, too."""
        return self.is_checked or self.is_preserved or self.is_promise

    @property
    def joins(self) -> SparkColumn:
        """Whether a row can be joined with anything."""
        return is_whole(self.keys) & expression(self.passes) if self.passes else is_whole(self.keys)

    @property
    def hash(self) -> SparkColumn:
        """The hash of a row's key, or of its time if it joins nothing."""
        if self.is_promise:
            return F.lit(0).cast("bigint")
        hashed = hash_of(self.keys)
        return F.when(self.joins, hashed).otherwise(hash_of([self.time])) if self.time else hashed

    @property
    def kind(self) -> SparkColumn:
        """What its tag has in addition: the kind of its message, if it joins nothing."""
        if not self.keeps_all or self.is_promise:
            return F.lit(0)
        others = F.lit(tag_of(Kind.UNMATCHED if self.is_preserved else Kind.UNJOINED))
        if self.is_preserved and self.passes:
            others = F.when(expression(self.passes), others).otherwise(tag_of(Kind.UNJOINED))
        return F.when(self.joins, 0).otherwise(others)


def next_delta(produced: DataFrame, topology: Topology, level: int, routing: Routing) -> DataFrame:
    """What a level produced as messages for the next: rows are filtered, hashed and routed; others know their site."""
    if topology.packs(level):
        return produced
    fed, below = topology.fed_by_level(level - 1), topology.outgoing(level - 1)
    sources = {tag: source for tag, (_, source) in fed.items()}
    tags = {tag: tag for tag in fed}
    keys = {tag: tuple(in_slots(key.sql, below) for key in source.keys) for tag, source in sources.items()}
    hashed = by_case(TAG, {tag: hash_of(texts) for tag, texts in keys.items()}, keys)
    site, is_one = _sites(topology, fed, routing, hashed, below)
    unmatched = [tag for tag in fed if topology.is_preserved(tag)]
    passed = by_case(TAG, {tag: _passes(fed[tag][0], () if tag in unmatched else keys[tag], below) for tag in fed})
    is_row = F.col(TAG) < F.lit(INPUTS_MAX)
    tag_now = F.col(TAG)
    for tag in unmatched:
        is_unmatched = (F.col(TAG) == tag) & ~is_whole(keys[tag])
        tag_now = F.when(is_unmatched, tag_of(Kind.UNMATCHED, tag)).otherwise(tag_now)
    messages = produced.where(~is_row | passed).select(
        site.alias(SITE),
        tag_now.alias(TAG),
        F.when(is_row, hashed).alias(HASH),
        BODY,
        *_slots(topology.incoming(level), sources, below, TAG, tags),
    )
    return messages if is_one else _to_each(messages)


def _sites(
    topology: Topology,
    fed: Mapping[int, tuple[Operator, Input]],
    routing: Routing,
    hashed: SparkColumn,
    below: Layout,
) -> tuple[SparkColumn, bool]:
    """A message's site, or all of its sites where there may be several, and whether it is one.

    Of inputs whose rows go everywhere, these are all sites that store any.
    """
    everywhere = [tag for tag in fed if topology.specs[tag].go_everywhere]
    operators = {tag: topology.inputs[tag][0].id for tag in fed}
    site = F.coalesce(F.col(SITE), site_of(TAG, operators, routing, hashed))
    if not everywhere and not routing.splits:
        return site, True
    sites = F.array(site)
    if routing.splits:
        goals = {tag: Goal(operators[tag], str(source.name), copied=True) for tag, (_, source) in fed.items()}
        found = sites_of(TAG, goals, routing, hashed, _lots(below))
        sites = F.when(F.col(SITE).isNotNull(), F.array(F.col(SITE))).otherwise(found)
    for tag in everywhere:
        keys = sorted(set(routing.tables[operators[tag]]))
        sites = F.when(F.col(TAG) == tag, F.array(*map(F.lit, keys))).otherwise(sites)
    return sites, False


def _to_each(messages: DataFrame) -> DataFrame:
    """A message for each of the sites: Spark copies the row."""
    return messages.select(F.explode(SITE).alias(SITE), *(F.col(f"`{n}`") for n in messages.columns if n != SITE))


def _lots(layout: Layout) -> SparkColumn:
    """A number that a row always has, to deal out rows by: of its values, and, as rows may be equal, of where it is.

    A number of its order would not do: rows may come in another one if a task is repeated. Spark does not hash columns
    that state cannot keep either.
    """
    hashed = [slot for slot, kind in enumerate(layout.slots) if not (has_map(kind) or pa.types.is_null(kind))]
    names = [slot_name(slot) for slot in hashed]
    return F.xxhash64(*(F.col(f"`{name}`") for name in names), F.spark_partition_id())


def _slots(
    layout: Layout, sources: Mapping[int, Input], below: Layout, case: str, case_of: Mapping[int, int]
) -> list[SparkColumn]:
    """The slots of a level's messages, in order, made of those of the messages below."""
    filled: dict[int, dict[int, str]] = {}
    for tag, source in sources.items():
        for column, slot in layout.columns[tag]:
            filled.setdefault(slot, {})[case_of[tag]] = in_slots(_value(column, source), below)
    return [
        by_case(
            case, {number: expression(sql) for number, sql in cases.items()}, cases, guarded=len(cases) < len(sources)
        ).alias(slot_name(slot))
        for slot, cases in sorted(filled.items())
    ]


def _value(column: Column, source: Input) -> str:
    told = {key.column: key.sql for key in source.keys} | dict(source.computed)
    if column.field.startswith("#") and column in told:
        return told[column]
    return column.sql


def in_slots(sql: str, layout: Layout) -> str:
    """Canonical SQL over streams' columns as SQL over the slots they are in; what stands in quotes stays.

    >>> import pyarrow as pa
    >>> layout = Layout((pa.int64(),), {0: ((Column("A", "x"), 0),)})
    >>> in_slots("`A`.`x` > 3 AND `A`.`x` <> '`A`.`x`'", layout)
    "`#s0` > 3 AND `#s0` <> '`A`.`x`'"
    """
    pairs = [pair for columns in layout.columns.values() for pair in columns]
    slots = {column.sql: f"`{slot_name(slot)}`" for column, slot in pairs}
    return _NAME_OR_TEXT.sub(lambda found: slots.get(found[0], found[0]), sql)


def _passes(operator: Operator, keys: Sequence[str], below: Layout) -> SparkColumn:
    whole = [is_whole(keys)] if keys else [F.lit(True)]
    return all_of([*whole, *(expression(in_slots(text, below)) for text in operator.filters)])
