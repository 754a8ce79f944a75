"""An auction: in how many categories each person bids within 12 hours of registering.

It is the query of the paper on CAPE (Figure 1.3), over three streams: persons, items and bids. Without punctuations
every item and every bid has to be kept, as more bids, and more items of that number, might come. But the auction knows
better:

- no two items, and no two persons, have the same number: ``unique="id"``;
- when an auction is closed, no bid on its item comes any more: that is a *punctuation* on the stream of bids.

So only items whose auction is open are kept, persons for 12 hours, and of bids nothing. The query is run both ways; the
results are the same. Run it with a Python that has ``watersmeet[lab]``::

    python examples/auction.py

It takes a minute at most, and draws the state of both runs into ``out/auction.png``.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

import watersmeet as wm

HOUR = 3_600
EPOCH = 3 * HOUR
Streams = Mapping[str, Sequence[pa.Table]]
CATEGORIES = ("books", "coins", "garden", "music", "stamps", "tools", "toys")


# --- the query -------------------------------------------------------------------------------------------------------


def categories_by_person(
    spark: SparkSession, streams: Streams, window: str = "12 hours", *, promises: bool = True
) -> wm.Relation:
    """The query; with ``promises`` it is told what will not come any more."""
    frames = {name: wm.testing.replay(spark, tables) for name, tables in streams.items()}
    unique = "id" if promises else None
    late = "0 seconds"  # rows of one epoch come in any order, those of the next are not earlier

    flow = wm.Flow(spark)
    person = flow.stream("P", frames["persons"], time="registered", window=window, watermark=late, unique=unique)
    item = flow.stream("I", frames["items"], time="opened", watermark=late, unique=unique)
    bid = flow.stream("B", frames["bids"], time="at", watermark=late)
    if promises:
        flow.punctuations("B", frames["closed"])  # its column is called as that of the bids: item

    bids = item.join(bid, on="I.id = B.item").join(person, on="B.bidder = P.id")
    # A person's window is over when that of all who registered in the same hour is: then the count is final.
    return bids.groupBy("P.id", "window(P.registered, '1 hour')").agg("count(DISTINCT I.category) AS categories")


@dataclass(frozen=True)
class Outcome:
    """What a run gave: the categories by person, and the rows of state after every epoch."""

    categories: dict[int, int]
    state_rows: list[int]


def run(relation: wm.Relation, spark: SparkSession, name: str) -> Outcome:
    """Run a query to the end of its input."""
    writer = relation.select("id", "categories").writeStream.format("memory").queryName(name)
    query = writer.option("sites", 2).option("endOfInput", "true").trigger(availableNow=True).start()
    query.awaitTermination()
    epochs = [each["customMetrics"] for each in query.recentProgress if each["numInputRows"]]
    rows = {row["id"]: row["categories"] for row in spark.table(name).collect()}
    return Outcome(rows, [each["stateRows"] for each in epochs])


# --- the streams -----------------------------------------------------------------------------------------------------


def auction(
    hours: int = 24, persons: int = 60, items: int = 100, bids: int = 1_500, seed: int = 1
) -> dict[str, list[pa.Table]]:
    """Make the streams: so many persons, items and bids an hour, three hours an epoch; auctions last up to three."""
    rng = np.random.default_rng(seed)
    person, item = np.arange(persons * hours), np.arange(items * hours)
    registered = np.sort(rng.integers(0, hours * HOUR, len(person)))
    opened = np.sort(rng.integers(0, hours * HOUR, len(item)))
    closes = opened + rng.integers(HOUR // 2, 3 * HOUR, len(item))
    category = np.asarray(CATEGORIES)[rng.integers(0, len(CATEGORIES), len(item))]

    on = rng.integers(0, len(item), bids * hours)
    at = opened[on] + (rng.random(len(on)) * (closes - opened)[on]).astype(np.int64)
    known = np.searchsorted(registered, at, side="right")  # whoever bids is registered, most of them not long ago
    bidder = known - 1 - rng.geometric(1 / (8 * persons), len(on)) % np.maximum(known, 1)
    happens = (known > 0) & (at < hours * HOUR)
    on, at, bidder = on[happens], at[happens], bidder[happens]

    return {
        "persons": _by_epoch(hours, registered, {"id": person, "registered": _times(registered)}),
        "items": _by_epoch(hours, opened, {"id": item, "category": category, "opened": _times(opened)}),
        "bids": _by_epoch(hours, at, {"item": on, "bidder": bidder, "at": _times(at)}),
        "closed": _by_epoch(hours, closes, {"item": item}),
    }


def _times(seconds: np.ndarray) -> pa.Array:
    start = int(datetime.fromisoformat("2026-01-01T00:00:00+00:00").timestamp())
    return pa.array((start + seconds) * 1_000_000).cast(pa.timestamp("us", tz="UTC"))


def _by_epoch(hours: int, seconds: np.ndarray, columns: Mapping[str, Any]) -> list[pa.Table]:
    table = pa.table(columns)
    return [table.filter(pa.array(seconds // EPOCH == epoch)) for epoch in range(hours * HOUR // EPOCH)]


# --- both ways -------------------------------------------------------------------------------------------------------


def compare(spark: SparkSession, streams: Streams, window: str = "12 hours") -> dict[str, Outcome]:
    """Run the query without and with punctuations, and see that the results are the same."""
    without = run(categories_by_person(spark, streams, window, promises=False), spark, "without")
    promised = run(categories_by_person(spark, streams, window), spark, "promised")
    if without.categories != promised.categories:
        raise SystemExit("the results differ")
    return {"windows only": without, "windows, punctuations and unique keys": promised}


def draw(outcomes: Mapping[str, Outcome], path: Path) -> None:
    """Draw the rows of state after every epoch."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import EngFormatter

    figure = Figure(figsize=(7.5, 4.4), layout="constrained")
    axes = figure.subplots()
    for (name, outcome), colour in zip(outcomes.items(), ("#d62728", "#1f77b4"), strict=True):
        hours = [EPOCH // HOUR * epoch for epoch in range(1, len(outcome.state_rows) + 1)]
        axes.plot(hours, outcome.state_rows, label=name, color=colour, marker="o", ms=4)
    axes.set_xlabel("hours of the auction")
    axes.set_ylabel("rows of state")
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(EngFormatter(sep=""))
    axes.set_title("Categories by person: state with and without punctuations", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def main() -> None:
    """Run it and tell."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config(
            "spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1"
        )  # the run is too short for Java's second compiler
        .getOrCreate()
    )
    outcomes = compare(spark, auction())
    for name, outcome in outcomes.items():
        print(f"{name}: {max(outcome.state_rows):,} rows of state at most")
    print(f"the same number of categories for each of {len(outcome.categories):,} persons")
    draw(outcomes, Path("out/auction.png"))
    print("wrote out/auction.png")
    spark.stop()


if __name__ == "__main__":
    main()
