"""The demo's query: A, B and C joined on their first columns, then D on C's second, then E on D's second."""

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa

from watersmeet.lab.generator import five_way

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from watersmeet.api.query import Query

Streams = dict[str, list[pa.Table]]

OPERATORS = {"join1": "A.a1 = B.b1 = C.c1", "join2": "C.c2 = D.d1", "join3": "D.d2 = E.e1"}
COLUMNS = ("A.a2", "B.b2", "C.c1", "D.d2", "E.payload")
RATIOS = (3, 1, 1)
SPREAD = 0.5
RANGES = 1.5
"""How often every value comes round while the demo lasts: results grow with the cube of it, and 1.5 makes about nine
results of every row that arrives."""
SMALLEST_RANGE = 30
SKEWED_SITES = 2
"""Sites where one of them is overloaded, unless more are asked for."""


class Sizes(msgspec.Struct, frozen=True):
    """How much data there is: ``rows`` are those of one stream in one epoch."""

    epochs: int
    rows: int
    seed: int


def make_streams(sizes: Sizes) -> Streams:
    """The five streams, a table for every epoch."""
    tuple_range = max(SMALLEST_RANGE, round(sizes.epochs * sizes.rows / RANGES))
    return five_way(sizes.seed, sizes.epochs, sizes.rows, tuple_range, RATIOS, SPREAD)


def start(
    spark: "SparkSession", streams: Streams, sites: int | None, checkpoint: Path, *, is_skewed: bool = False
) -> "Query":
    """Start the query; its results are counted and thrown away.

    Where it ``is_skewed``, all groups are on the first site, and every site is worked for by a process of its own.
    """
    from watersmeet.api.flow import Flow
    from watersmeet.testing import replay, thrown

    flow = Flow(spark)
    a, b, c, d, e = (flow.stream(name, replay(spark, tables)) for name, tables in streams.items())
    abc = flow.join(a, b, c, on="A.a1 = B.b1 AND B.b1 = C.c1")
    joined = abc.join(d, on="C.c2 = D.d1").join(e, on="D.d2 = E.e1").select(*COLUMNS)
    writer = joined.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    if is_skewed:
        weights = ["1", *["0"] * ((sites or SKEWED_SITES) - 1)]
        with thrown(shortcut=False):
            return writer.option("siteWeights", ",".join(weights)).trigger(availableNow=True).start()
    if sites is not None:
        writer = writer.option("sites", sites)
    return writer.trigger(availableNow=True).start()
