"""All contenders by name, and the way in which each goes about a suite's query."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Contender = Literal[
    "watersmeet",
    "watersmeet-still",
    "watersmeet-one-site",
    "watersmeet-rows",
    "watersmeet-budget",
    "watersmeet-untraced",
    "watersmeet-long",
    "watersmeet-rows-long",
    "watersmeet-parquet",
    "watersmeet-soak",
    "watersmeet-windows",
    "watersmeet-punctuations",
    "watersmeet-promises",
    "watersmeet-built",
    "watersmeet-empty",
    "watersmeet-restarted",
    "watersmeet-remote-empty",
    "watersmeet-remote-restarted",
    "watersmeet-remote-moved",
    "spark",
    "spark-rocksdb",
    "spark-rows",
    "spark-parquet",
    "spark-foreachbatch",
    "duckdb",
    "duckdb-memory",
]
ROCKSDB = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.join.stateFormatVersion": "4",
}
EPOCHS = {"all": slice(None), "but last": slice(-1), "last": slice(-1, None)}
"""Parts of the data."""


@dataclass(frozen=True)
class Way:
    """How a contender is run; ``about`` tells it in the report.

    ``sink`` is where results go (`delivery`), ``epochs`` are those it is shown. One that ``resumes`` goes on with a
    copy of the checkpoint that the suite's first contender left; ``storage`` is where ours keeps its state (`place`).
    ``options`` are those of our query, which is told of some or all of the ``promises`` that there are.
    """

    engine: Literal["watersmeet", "spark", "foreachbatch", "duckdb"]
    about: str
    sink: Literal["noop", "rows", "parquet", "gauged"] = "noop"
    has_budget: bool = False
    switches: Mapping[str, bool] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    epochs: Literal["all", "but last", "last"] = "all"
    storage: Literal["local", "remote"] = "local"
    resumes: bool = False
    has_copies: bool = False
    in_memory: bool = False
    promises: Literal["all", "windows", "punctuations"] = "all"


def _ours(about: str, **rest: object) -> Way:
    return Way("watersmeet", about, **rest)  # type: ignore[arg-type]


def _spark(about: str, **rest: object) -> Way:
    return Way("spark", about, **rest)  # type: ignore[arg-type]


WAYS: dict[Contender, Way] = {
    "watersmeet": _ours(
        "our operators and the noop sink, which drops results where they are made; counted by the operators"
    ),
    "watersmeet-still": _ours("as the first, but nothing moves between sites", options={"adaptation": "none"}),
    "watersmeet-one-site": _ours("as the first, all groups on one site at first", options={"siteWeights": "1,0"}),
    "watersmeet-rows": _ours(
        "the same, but every result becomes a row of Spark's and reaches its noop sink; counted there", sink="rows"
    ),
    "watersmeet-budget": _ours("as the first, with less memory than it has state", has_budget=True),
    "watersmeet-untraced": _ours("as the first, without tracing results back to groups", switches={"trace": False}),
    "watersmeet-long": _ours("as the first, never taking the shortcut", switches={"shortcut": False}),
    "watersmeet-rows-long": _ours(
        "every result becomes a row of Spark's, and the shortcut is never taken",
        sink="rows",
        switches={"shortcut": False},
    ),
    "watersmeet-parquet": _ours("our operators into Parquet files; counted in the files", sink="parquet"),
    "watersmeet-soak": _ours(
        "our operators with little memory; every epoch the checkpoint and the driver are weighed",
        sink="gauged",
        has_budget=True,
    ),
    "watersmeet-windows": _ours(
        "rows are let go as their windows end; every epoch the checkpoint and the driver are weighed",
        sink="gauged",
        promises="windows",
    ),
    "watersmeet-punctuations": _ours(
        "the same, but rows are let go as punctuations come", sink="gauged", promises="punctuations"
    ),
    "watersmeet-promises": _ours("the same with both", sink="gauged"),
    "watersmeet-built": _ours("builds the state that others go on with", epochs="but last", storage="remote"),
    "watersmeet-empty": _ours("the last epoch on an empty checkpoint", epochs="last"),
    "watersmeet-restarted": _ours("the last epoch after all others", epochs="last", resumes=True),
    "watersmeet-remote-empty": _ours(
        "the last epoch on an empty checkpoint on a stand-in for remote storage", epochs="last", storage="remote"
    ),
    "watersmeet-remote-restarted": _ours(
        "the last epoch after all others, on hosts that have copies of the state they wrote",
        epochs="last",
        storage="remote",
        resumes=True,
        has_copies=True,
    ),
    "watersmeet-remote-moved": _ours(
        "the same on other hosts, which have none", epochs="last", storage="remote", resumes=True
    ),
    "spark": _spark(
        "Spark's own joins, default in-heap store; every result reaches the noop sink and is counted there"
    ),
    "spark-rocksdb": _spark("the same with RocksDB and state format 4", settings=ROCKSDB),
    "spark-rows": _spark("Spark's own joins, in-heap, into the function that ours hands its rows to", sink="rows"),
    "spark-parquet": _spark("Spark's own joins, in-heap, into Parquet files; counted in the files", sink="parquet"),
    "spark-foreachbatch": Way(
        "foreachbatch",
        "what Spark's users can do today: a function stores each epoch's rows, and joins new ones with stored ones",
        sink="rows",
    ),
    "duckdb": Way("duckdb", "one batch join of all rows into a table of a database file"),
    "duckdb-memory": Way("duckdb", "the same into a table in memory", in_memory=True),
}
