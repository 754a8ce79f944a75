"""A join of two streams whose values come for a while and then no more (CAPE 3.3, 3.5).

A value is *open* for some minutes, in which each stream brings it `ROWS_OF_A_VALUE` times; then both streams have a
punctuation for it. How long it is open differs, from less than a window to several. So state is as large as what is
open if punctuations are heeded, as a window if these are, and with both as what is open *and* in the window. An epoch
is a minute. The summary in CAPE gives no sizes; these are ours.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from watersmeet.api.flow import Flow
from watersmeet.api.relation import Relation
from watersmeet.lab.generator import Int64s
from watersmeet.lab.reproduce.setting import Size, Streams

SEED = 33
OPEN_MINUTES = 12
"""A value is open for up to so long."""
WINDOW_MINUTES = 4
ROWS_OF_A_VALUE = 6
MINUTE_US = 60_000_000
FULL = Size(epochs=24, rows=3_000, tuple_range=3_000 * OPEN_MINUTES)
QUICK, QUICK_BUDGET = Size(epochs=4, rows=60, tuple_range=60 * OPEN_MINUTES, groups=30), 5_000


@dataclass(frozen=True)
class Punctuated:
    """The join, with or without windows and punctuations; the streams are the same."""

    windows: bool
    punctuations: bool
    sites: int = 2
    minutes: float = FULL.epochs
    weights: tuple[float, ...] = ()

    @property
    def name(self) -> str:
        """What the query is told."""
        told = {"windows": self.windows, "punctuations": self.punctuations}
        return f"join with {' and '.join(name for name, is_told in told.items() if is_told) or 'neither'}"

    def size(self, *, quick: bool) -> Size:
        """How much data to make."""
        return QUICK if quick else FULL

    def budget_bytes(self, *, quick: bool) -> int:
        """There is none; what warms up has one."""
        return QUICK_BUDGET if quick else 1 << 40

    def streams(self, size: Size) -> Streams:
        """Make the data; values that are open as it begins are among them, so that all minutes are alike."""
        rng = np.random.default_rng(SEED)
        values = np.arange((size.epochs + OPEN_MINUTES) * size.rows // ROWS_OF_A_VALUE)
        opened = rng.uniform(-OPEN_MINUTES, size.epochs, len(values)) * MINUTE_US
        closed = opened + rng.uniform(0.5, OPEN_MINUTES, len(values)) * MINUTE_US
        made = {name: self._rows(size, values, opened, closed, rng) for name in "AB"}
        ends = (closed // MINUTE_US).astype(np.int64)
        return {**made, "closed": _by_epoch(size, ends, pa.table({"k": values}))}

    def relation(self, spark: SparkSession, frames: Mapping[str, DataFrame]) -> Relation:
        """One operator."""
        flow = Flow(spark)
        window = {"time": "at", "window": f"{WINDOW_MINUTES} minutes", "watermark": "0 seconds"}
        a, b = (flow.stream(name, frames[name], **(window if self.windows else {})) for name in "AB")
        for name in "AB" if self.punctuations else "":
            flow.punctuations(name, frames["closed"])
        return flow.join(a, b, on="A.k = B.k").select("A.n AS a", "B.n AS b")

    def _rows(
        self, size: Size, values: Int64s, opened: np.ndarray, closed: np.ndarray, rng: np.random.Generator
    ) -> list[pa.Table]:
        """A stream's rows: of each value so many, at any time while it is open."""
        own = np.repeat(np.arange(len(values)), ROWS_OF_A_VALUE)
        at = (opened[own] + rng.random(len(own)) * (closed - opened)[own]).astype(np.int64)
        times = pa.array(at).cast(pa.timestamp("us", tz="UTC"))
        table = pa.table({"k": values[own], "n": np.arange(len(own)), "at": times})
        return _by_epoch(size, at // MINUTE_US, table)


def _by_epoch(size: Size, minutes: Int64s, table: pa.Table) -> list[pa.Table]:
    return [table.filter(pa.array(minutes == epoch)) for epoch in range(size.epochs)]
