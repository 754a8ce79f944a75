"""An order book: which bids and asks of one moment are close enough to be traded, and at what prices.

Bids and asks of a share arrive as two streams. A bid and an ask are *near* if the ask's price is at most `NEAR` cents
above the bid's, both stand at the same time (an order stands for `STANDS`), and the ask has no fewer pieces than the
bid. None of these is an equality, so Spark refuses to join such streams. Here it is a *ring*, and all of it is found by
binary search: no pair is looked at that does not match by two of the values.

The orders are made here: a price that wanders, and orders around it. Run it with a Python that has
``watersmeet[lab]``::

    python examples/order_book.py

It takes about a minute, and draws the orders and the pairs that were found into ``out/order_book.png``.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

import watersmeet as wm

NEAR = 2
STANDS = "2 seconds"
ON = f"A.cents - B.cents BETWEEN 0 AND {NEAR} AND B.pieces <= A.pieces"
START = int(datetime(2026, 1, 5, 9, tzinfo=UTC).timestamp()) * 1_000_000
Book = Mapping[str, Sequence[pa.Table]]
Pair = tuple[int, int]


# --- the query -------------------------------------------------------------------------------------------------------


def near_orders(spark: SparkSession, book: Book) -> wm.Relation:
    """Bids and asks that could be traded, with their numbers."""
    flow = wm.Flow(spark)
    bids, asks = (
        flow.stream(name, wm.testing.replay(spark, book[name]), time="at", window=STANDS, watermark="1 second")
        for name in "BA"
    )
    return flow.join(bids, asks, on=ON).select("B.id AS bid", "A.id AS ask")


# --- the orders ------------------------------------------------------------------------------------------------------


def orders(seconds: int = 12, rate: int = 25, seed: int = 3) -> Book:
    """For bids and asks a table a second: most are some cents below or above a price that wanders."""
    rng = np.random.default_rng(seed)
    price = 10_000 + np.cumsum(rng.integers(-6, 7, seconds))
    return {
        side: [_second(rng, second, int(price[second]), rate, sign) for second in range(seconds)]
        for side, sign in (("B", -1), ("A", 1))
    }


def _second(rng: np.random.Generator, second: int, price: int, rate: int, sign: int) -> pa.Table:
    moments = np.sort(rng.integers(0, 1_000_000, rate)) + second * 1_000_000 + START
    return pa.table(
        {
            "id": second * rate + np.arange(rate),
            "at": pa.array(moments).cast(pa.timestamp("us", "UTC")),
            "cents": price + sign * rng.geometric(0.08, rate),
            "pieces": rng.choice([10, 20, 50, 100], rate),
        }
    )


# --- run it ----------------------------------------------------------------------------------------------------------


def run(spark: SparkSession, book: Book, name: str = "near_orders") -> list[Pair]:
    """The numbers of bids and asks that are near each other, sorted."""
    query = near_orders(spark, book).writeStream.format("memory").queryName(name).trigger(availableNow=True).start()
    query.awaitTermination()
    return sorted((row.bid, row.ask) for row in spark.table(name).collect())


def draw(book: Book, pairs: Sequence[Pair], file: Path) -> None:
    """All orders by time and price, and a line for each pair."""
    from matplotlib.figure import Figure

    tables = {side: pa.concat_tables(parts) for side, parts in book.items()}
    at = {side: (np.asarray(table["at"].cast(pa.int64())) - START) / 1e6 for side, table in tables.items()}
    cents = {side: np.asarray(table["cents"]) for side, table in tables.items()}
    figure = Figure(figsize=(9, 5), layout="constrained")
    axes = figure.add_subplot()
    ends = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    times, prices = (np.stack([each["B"][ends[0]], each["A"][ends[1]]]) for each in (at, cents))
    axes.plot(times, prices / 100, color="#aaaaaa", lw=0.6, zorder=1)
    for side, label, colour in (("B", "bids", "#1f77b4"), ("A", "asks", "#d62728")):
        axes.scatter(at[side], cents[side] / 100, s=9, color=colour, label=label, zorder=2)
    axes.set(title=f"{len(pairs):,} pairs of bids and asks", xlabel="seconds", ylabel="price")
    axes.legend(frameon=False)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=120)


def main() -> int:
    """Find the pairs, tell their number, and draw them."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    session = SparkSession.builder.master("local[2]").appName("order_book").config("spark.ui.enabled", "false")
    spark = session.getOrCreate()
    book = orders()
    found = run(spark, book)
    count = sum(len(table) for tables in book.values() for table in tables)
    picture = Path("out", "order_book.png")
    draw(book, found, picture)
    print(f"{count:,} orders: {len(found):,} pairs of a bid and an ask are near each other; see {picture}")
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
