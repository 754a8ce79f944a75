"""What an experiment is made on: streams, a query over them, sites, sizes and a budget.

A setting is a value, so runs of the same setting are made once however many experiments ask for them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from watersmeet.adapt.moving.memory import SPAN_EPOCHS, THETA_D
from watersmeet.api.relation import Relation
from watersmeet.lab.reproduce.strategies import BALANCING

Streams = dict[str, list[pa.Table]]


@dataclass(frozen=True)
class Size:
    """How much data: ``rows`` of each stream in an epoch; a value comes back after ``tuple_range`` of them."""

    epochs: int
    rows: int
    tuple_range: int
    groups: int = 300


class Setting(Protocol):
    """One kind of data and query."""

    @property
    def name(self) -> str:
        """For people."""

    @property
    def sites(self) -> int:
        """The machines of the paper."""

    @property
    def weights(self) -> tuple[float, ...]:
        """How many groups each site has at first, in proportion; nothing where all have as many."""

    @property
    def minutes(self) -> float:
        """How long the paper's run lasted: the span of the x axis."""

    def size(self, *, quick: bool) -> Size:
        """How much data to make."""

    def budget_bytes(self, *, quick: bool) -> int:
        """The threshold of each site, scaled so that spills are about as many as in the paper."""

    def streams(self, size: Size) -> Streams:
        """Make the data: for each stream a table for every epoch."""

    def relation(self, spark: SparkSession, frames: Mapping[str, DataFrame]) -> Relation:
        """The query; every result names the row of each stream that it was made of."""


@dataclass(frozen=True)
class Treatment:
    """How memory is kept to its budget, the setting's or another, and what moves groups.

    Without a strategy there is no limit. ``theta_d`` and ``span`` are those of the policies that balance memory. To
    ``purge_at``, a run is written anew if more than that part of its rows can go.
    """

    strategy: str | None = None
    fraction: float = 0.3
    adaptation: str = "none"
    theta_d: float = THETA_D
    span: int = SPAN_EPOCHS
    budget: int | None = None
    purge_at: float | None = None

    def __str__(self) -> str:
        if self.purge_at is not None:
            return f"purged at {self.purge_at:.0%}"
        spilled = f"{self.strategy}, {self.fraction:.0%} at a time" if self.strategy else "unlimited"
        if self.adaptation == "none":
            return spilled
        tuned = f" at {self.theta_d:g} every {self.span}" if self.adaptation in BALANCING else ""
        return f"{spilled}, {self.adaptation}{tuned}"


UNLIMITED = Treatment()
