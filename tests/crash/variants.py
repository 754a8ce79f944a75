"""What a seed decides of the query that is killed: its kind, its rows, and by the rules its results."""

from collections import Counter
from dataclasses import dataclass, replace
from datetime import timedelta

import numpy as np
import pyarrow as pa
from tests.support.oracle import answer
from tests.support.punctuations import Punctuated
from tests.support.rules import accepted_rows, lives_overlap

from watersmeet.model.query import Aggregate, AggregateNode, GroupKey, JoinNode, Query, StreamNode
from watersmeet.planning.windows import WINDOW_TYPE

EPOCHS = 4
WITH_BUDGET = 1000
"""Queries of this seed and above have far too little memory, so they spill and clean up."""
WITH_MOVES = 2 * WITH_BUDGET
"""Groups of queries of this seed and above move, are split and are parked by lot; half of them have a budget."""

Taken = list[dict[str, list[int]]]
"""Which epochs of each source, a stream or its punctuations, every batch has taken."""

ONE_BY_ONE: Taken = [{name: [epoch] for name in (*"ABC", "C-promises")} for epoch in range(EPOCHS)]

KINDS = ("inner", "windowed", "outer", "aggregate", "ring", "promised")
WAYS = 8
"""Seeds that are alike but for how results are written and rows travel."""

SECOND_US = 1_000_000
WINDOW, DELAY, EVERY = 8 * SECOND_US, 4 * SECOND_US, 10 * SECOND_US
GROUPED_BY = ("A.k", "window(A.ts, '10 seconds')")
SHOWN = ("A.id AS a", "B.id AS b", "C.id AS c", "A.k AS k")
TOLD = ("count(*) AS n", "sum(C.id) AS total")


@dataclass(frozen=True)
class Variant:
    """The kind, how results are written, whether one task does everything, how rows travel, memory, and moves."""

    kind: str
    through_spark: bool
    shortcut: bool
    key: str
    with_budget: bool
    with_moves: bool

    @classmethod
    def of(cls, seed: int) -> "Variant":
        """All ways within eight seeds, and all kinds within as many times that as there are."""
        kind = KINDS[seed % WITH_BUDGET // WAYS % len(KINDS)]
        key = "m" if seed // 4 % 2 == 0 else "t"
        with_budget = seed % WITH_MOVES >= WITH_BUDGET
        return cls(kind, bool(seed % 2), seed // 2 % 2 == 0, key, with_budget, seed >= WITH_MOVES)

    @property
    def staged_from(self) -> int | None:
        """Results that go through Spark are staged in files where one task may do everything, and handed over else."""
        return 0 if self.through_spark and self.shortcut else None

    @property
    def conditions(self) -> tuple[str, str]:
        """The second level joins on whole numbers, which travel in parcels, or on kinds, which travel in slots.

        Of rings, both levels are on no equality.
        """
        if self.kind == "ring":
            return "ABS(A.k - B.k) <= 1", "ABS(B.m - C.m) < 1" if self.key == "m" else "B.m <= C.m AND B.t < C.t"
        return "A.k = B.k", f"B.{self.key} = C.{self.key}"

    @property
    def how(self) -> str:
        """The kind of the second join."""
        return {"outer": "left", "promised": "full"}.get(self.kind, "inner")

    @property
    def ends_input(self) -> bool:
        """Whether some results come only when all input has ended."""
        return self.kind in ("outer", "aggregate", "promised")

    @property
    def times(self) -> dict[str, object]:
        """What is said of the times of every stream."""
        if self.kind in ("inner", "promised"):
            return {}
        return {"time": "ts", "window": timedelta(microseconds=WINDOW), "watermark": timedelta(microseconds=DELAY)}

    def streams(self, schema: pa.Schema) -> dict[str, StreamNode]:
        said = ("ts", WINDOW, DELAY) if self.times else ()
        streams = {name: StreamNode(name, schema, *said) for name in "ABC"}
        if self.kind == "promised":
            streams |= {
                "A": StreamNode("A", schema, unique=("id",)),
                "C": StreamNode("C", schema, punctuated=(self.key,)),
            }
        return streams

    @property
    def promises(self) -> dict[str, Punctuated]:
        """In every epoch C promises some of the keys that the second level joins on."""
        if self.kind != "promised":
            return {}
        numbers = [[3 * epoch + n for n in range(3)] for epoch in range(EPOCHS)]
        told = [[n if self.key == "m" else f"t{n}" for n in some] for some in numbers]
        return {"C": Punctuated((self.key,), tuple(tuple({self.key: (each,)} for each in some) for some in told))}

    def query(self, schema: pa.Schema) -> Query:
        """The query as the planner gets it; the API says the same in `tests.crash.query`."""
        a, b, c = self.streams(schema).values()
        first, second = self.conditions
        rows = JoinNode((JoinNode((a, b), first), c), second, self.how)
        if self.kind != "aggregate":
            return Query(rows, tuple(text.split(" AS ")[0] for text in SHOWN))
        number, [key, window] = pa.int64(), GROUPED_BY
        told = Aggregate("n", "count", number), Aggregate("total", "sum", number, "C.id", number)
        return Query(AggregateNode(rows, (GroupKey("k", key, number), GroupKey("window", window, WINDOW_TYPE)), told))

    def sql(self, schema: pa.Schema) -> str:
        """The query over all accepted rows."""
        a, b, c = self.streams(schema).values()
        first, second = self.conditions
        below, above = [first, *lives_overlap([a, b])], [second, *lives_overlap([a, b, c])]
        rows = f"A JOIN B ON {' AND '.join(below)} {self.how} JOIN C ON {' AND '.join(above)}"
        if self.kind != "aggregate":
            return f"SELECT {', '.join(SHOWN)} FROM {rows}"
        start = f"make_timestamptz(epoch_us(A.ts) - pmod(epoch_us(A.ts), {EVERY}))"
        told = "count(*) AS n, CAST(sum(C.id) AS BIGINT) AS total"
        return f"SELECT A.k AS k, {start} AS start, {told} FROM {rows} GROUP BY ALL"


def tables(seed: int) -> dict[str, list[pa.Table]]:
    rng, variant = np.random.default_rng(seed), Variant.of(seed)
    return {name: [_table(rng, epoch, variant) for epoch in range(EPOCHS)] for name in "ABC"}


def batches(seed: int) -> list[dict[str, pa.Table]]:
    made, promises = tables(seed), Variant.of(seed).promises
    schema = made["A"][0].schema
    return [
        {name: parts[epoch] for name, parts in made.items()}
        | {f"{name}#promises": each.table(epoch, schema) for name, each in promises.items()}
        for epoch in range(EPOCHS)
    ]


def expected(seed: int, taken: Taken = ONE_BY_ONE) -> Counter[str]:
    """The results by the rules, of the rows that are accepted, which depends on the batches they came in."""
    accepted, _ = _by_the_rules(seed, taken)
    return answer(accepted, Variant.of(seed).sql(accepted["A"][0].schema))


def rejected(seed: int) -> Counter[tuple[str, int, str]]:
    """How many rows are not accepted, by stream, epoch and reason."""
    _, epochs = _by_the_rules(seed, ONE_BY_ONE)
    counts = {(stream, epoch, why): n for epoch, each in enumerate(epochs) for (stream, why), n in each.items()}
    return Counter(counts)


def _by_the_rules(seed: int, taken: Taken) -> tuple[dict[str, list[pa.Table]], list[Counter[tuple[str, str]]]]:
    made, variant = tables(seed), Variant.of(seed)
    rows = [
        {name: pa.concat_tables([parts[0][:0], *(parts[n] for n in batch[name])]) for name, parts in made.items()}
        for batch in taken
    ]
    promises = {}
    for name, each in variant.promises.items():
        told = [[pattern for n in batch[f"{name}-promises"] for pattern in each.epochs[n]] for batch in taken]
        promises[name] = replace(each, epochs=tuple(map(tuple, told)))
    return accepted_rows(variant.streams(made["A"][0].schema), rows, promises)


def _table(rng: np.random.Generator, epoch: int, variant: Variant) -> pa.Table:
    rows = 0 if epoch == 2 else 40
    keys = rng.integers(0, 25, rows)
    kinds = 24 if variant.times else 72 if variant.promises else 12  # so that some find no match
    columns = {
        "id": pa.array(rng.integers(0, 10**9, rows)),
        "k": pa.array(keys, mask=rng.random(rows) < 0.05),
        "m": pa.array(rng.integers(0, kinds, rows)),
        "t": pa.array([f"t{key}" for key in rng.integers(0, kinds, rows)], pa.string()),
    }
    if variant.times:  # some come late, and some have no time
        lags = np.where(rng.random(rows) < 0.15, rng.integers(0, 20 * SECOND_US, rows), 0)
        times = epoch * EVERY + rng.integers(0, EVERY, rows) - lags
        columns["ts"] = pa.array(times, pa.timestamp("us", "UTC"), mask=rng.random(rows) < 0.03)
    return pa.table(columns)
