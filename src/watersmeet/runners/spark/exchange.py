"""Exchanges: how a level's messages are brought to their sites. Chosen in one place, `exchange_of`.

A site has a task even if no message comes to it, and a task knows its site by its first row: a site's messages and the
site's own row, of a tiny cached DataFrame with one row per site (the *anchor*), are brought together in one partition.

- `UnionExchange`, where all tasks run in one executor anyway. Spark keeps the partitions of a union whose parts are
  partitioned alike, and puts the anchor's row first. Nothing is sorted or buffered.
- `JoinExchange`, where there are several executors. Spark prefers to run a task where the first of its inputs is
  cached, and the first input of a merge join is its *streamed* side: the left one of a left outer join. (A right outer
  join would stream the delta instead of buffering it, and would not stick; a union knows hosts, and no executors.) So
  every site stays on its executor. A site without messages gets a row of nulls beside its site.
- The local exchange does without Spark: one task for all sites and levels (`one_task`).
"""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType

from watersmeet.runners.spark.schemas import null
from watersmeet.runners.spark.session import has_one_executor
from watersmeet.site.layout import slot_name
from watersmeet.site.messages import HASH, SITE, TAG, Kind, tag_of
from watersmeet.site.spec import LevelSpec
from watersmeet.site.travel import HEAD

BEGINNINGS = 1 << 40
"""That two anchors begin to count at the same place is one chance in so many."""


class Exchange(Protocol):
    """Brings messages to their sites; ``leads`` tells whether a site's own row comes first, or beside its messages."""

    leads: bool

    def gather(self, delta: DataFrame | None, spec: LevelSpec) -> DataFrame:
        """Bring every message for a level to its site; None is no message at all."""

    def release(self) -> None:
        """Let Spark forget what was cached."""


def exchange_of(spark: SparkSession, site_keys: Sequence[int]) -> Exchange:
    """The exchange for a session, with a cached row for every site.

    Where there are several executors, the rows are cached by a job of their own, while no other task takes a slot:
    Spark deals out tasks to executors in turn. A row is first made by a task of its own, as the one that caches it
    prefers the host where it was made.

    Spark caches equal plans once for all sessions, and whoever lets go of one does so for all. So each begins to count
    elsewhere, and what other queries do is no concern of this one.
    """
    is_alone, count = has_one_executor(spark), len(site_keys)
    first = count * secrets.randbelow(BEGINNINGS)
    numbers = spark.range(first, first + count, 1, 1 if is_alone else count)
    place = (F.col("id") % count + 1).cast(IntegerType())
    sites = numbers.select(F.element_at(F.lit(list(site_keys)), place).alias(SITE))
    anchor = Anchor(sites.repartition(len(site_keys), SITE).persist())
    if is_alone:
        return UnionExchange(anchor)
    anchor.sites.write.format("noop").mode("overwrite").save()
    return JoinExchange(anchor)


@dataclass
class Anchor:
    """One row per site, in the site's own partition."""

    sites: DataFrame
    _by_level: dict[tuple[str, ...], DataFrame] = field(default_factory=dict)

    def rows(self, spec: LevelSpec) -> DataFrame:
        """The rows in the form of a level's messages, made once: Spark plans what it is told, every time it is told."""
        columns = [(name, kind) for name, kind in message_columns(spec) if name != SITE]
        form = tuple(f"{name} {kind}" for name, kind in columns)
        if form not in self._by_level:
            site_row = F.lit(tag_of(Kind.SITE)).alias(TAG)
            self._by_level[form] = self.sites.select(
                SITE, *(site_row if name == TAG else null(kind, name) for name, kind in columns)
            )
        return self._by_level[form]


@dataclass
class UnionExchange:
    """A union of the anchor and the messages."""

    anchor: Anchor
    leads: bool = True

    def gather(self, delta: DataFrame | None, spec: LevelSpec) -> DataFrame:
        """The site's row, then its messages."""
        rows = self.anchor.rows(spec)
        return rows if delta is None else rows.union(delta.repartition(len(spec.sites), SITE))

    def release(self) -> None:
        """Let Spark forget the anchor."""
        self.anchor.sites.unpersist()


@dataclass
class JoinExchange:
    """A merge join of the anchor with the messages."""

    anchor: Anchor
    leads: bool = False

    def gather(self, delta: DataFrame | None, spec: LevelSpec) -> DataFrame:
        """The messages of the site, or a row of nulls."""
        if delta is None:
            return self.anchor.rows(spec)
        return self.anchor.sites.hint("merge").join(delta.repartition(len(spec.sites), SITE), SITE, "left")

    def release(self) -> None:
        """Let Spark forget the anchor."""
        self.anchor.sites.unpersist()


def message_columns(spec: LevelSpec) -> list[tuple[str, pa.DataType]]:
    """The columns of a level's messages, in order: those of level 0 come from streams, and all of them are rows."""
    if spec.packed:
        return [(column.name, column.type) for column in HEAD]
    head = [(SITE, pa.int32()), (TAG, pa.int32()), (HASH, pa.int64())]
    body = [(column.name, column.type) for column in HEAD if column.name not in (SITE, TAG)] if spec.level else []
    return [*head, *body, *((slot_name(slot), kind) for slot, kind in enumerate(spec.incoming.slots))]
