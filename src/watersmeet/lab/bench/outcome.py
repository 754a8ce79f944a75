"""What a contender is told, and what it tells."""

from typing import Literal, get_args

import msgspec

Contender = Literal[
    "watersmeet",
    "watersmeet-rows",
    "watersmeet-budget",
    "watersmeet-untraced",
    "spark",
    "spark-rocksdb",
    "duckdb",
    "duckdb-memory",
]
CONTENDERS: tuple[Contender, ...] = get_args(Contender)
ABOUT: dict[Contender, str] = {
    "watersmeet": "our operators and the noop sink, which drops results where they are made; counted by the operators",
    "watersmeet-rows": "the same, but every result becomes a row of Spark's and reaches its noop sink; counted there",
    "watersmeet-budget": "as the first, with less memory than it has state",
    "watersmeet-untraced": "as the first, without tracing results back to groups",
    "spark": "Spark's own joins, default in-heap store; every result reaches the noop sink and is counted there",
    "spark-rocksdb": "the same with RocksDB and state format 4",
    "duckdb": "one batch join of all rows into a table of a database file",
    "duckdb-memory": "the same into a table in memory",
}
CORES = 2
"""Tasks at once, shuffle partitions, sites, threads: the same for all, on every machine."""


class Task(msgspec.Struct, frozen=True):
    """One contender's part in a suite; ``data`` has a folder per stream, ``work`` is its own."""

    suite: str
    contender: Contender
    data: str
    work: str
    heap: str
    budget_bytes: int | None = None


class Outcome(msgspec.Struct, frozen=True):
    """What a run took and gave.

    From outside come the peak of the memory of all its processes together, the memory of its Python workers over time,
    and the part of the machine's processors that processes of others used meanwhile: the more, the less its times say.
    Where it is the median of several runs, ``runs_s`` has the times of all.
    """

    contender: Contender
    whole_s: float
    results: int
    epoch_ms: tuple[float, ...] = ()
    epoch_results: tuple[int, ...] = ()
    state_bytes: int = 0
    busy_ms: tuple[float, ...] = ()
    peak_bytes: int = 0
    others_share: float = 0.0
    workers_bytes: tuple[int, ...] = ()
    runs_s: tuple[float, ...] = ()

    @property
    def last_s(self) -> float:
        """The last and largest epoch."""
        return self.epoch_ms[-1] / 1000 if self.epoch_ms else 0.0
