"""All streams as one streaming DataFrame: the input of every epoch.

Each row has the number of its stream, and its columns in slots that all streams share. Filters and projections are
evaluated here, by Spark; keys are not: which column a row is joined on is the plan's business, and the plan may change
while the streaming query goes on. They are hashed in the select of each batch (`levels`).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from watersmeet.driver.topology import Topology
from watersmeet.runners.spark.split import expression
from watersmeet.runners.spark.types import null
from watersmeet.site.layout import Layout, pack, slot_name

STREAM = "#stream"


@dataclass(frozen=True)
class UnionLayout:
    """The streams by number, and the slots their columns are in."""

    streams: tuple[str, ...]
    layout: Layout

    @classmethod
    def of(cls, topology: Topology) -> "UnionLayout":
        """The layout of a query's streams, which is the same for all of its plans."""
        columns = topology.stream_columns()
        names = tuple(stream.name for stream in topology.plan.streams if stream.name in columns)
        return cls(names, pack({n: columns[name] for n, name in enumerate(names)}, topology.plan.types))

    def union(self, topology: Topology, frames: Mapping[str, DataFrame]) -> DataFrame:
        """All streams as one."""
        first, *others = (self._part(topology, number, frames[name]) for number, name in enumerate(self.streams))
        for part in others:
            first = first.union(part)
        return first

    def _part(self, topology: Topology, number: int, frame: DataFrame) -> DataFrame:
        name = self.streams[number]
        frame = frame.alias(name)
        for condition in topology.plan.stream(name).filters:
            frame = frame.where(condition)
        own = {slot: expression(column.sql) for column, slot in self.layout.columns[number]}
        slots = [
            own[slot].alias(slot_name(slot)) if slot in own else null(kind, slot_name(slot))
            for slot, kind in enumerate(self.layout.slots)
        ]
        return frame.select(F.lit(number).alias(STREAM), *slots)
