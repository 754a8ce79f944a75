"""The oracle: what a batch join of all accepted input gives, by DuckDB, as a multiset."""

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import duckdb
import pyarrow as pa

MACROS = (
    "unix_micros(t) AS epoch_us(t)",
    "timestamp_micros(n) AS make_timestamptz(n)",
    "pmod(a, b) AS ((a % b) + b) % b",
    "xxhash64(x) AS CAST(hash(x)::HUGEINT - 9223372036854775808 AS BIGINT)",
    "window_of(a, b) AS {'start': a, 'end': b}",
    "startswith(a, b) AS starts_with(a, b)",
    "substring_index(s, mark, n) AS split_part(s, mark, n)",
    "wm_predicate_1_close(a, b) AS abs(a - b) <= 1",
    "wm_predicate_2_beyond(a, b, c) AS a + b > c",
)
"""What Spark has and DuckDB has not, as far as plans use it; any hash will do."""

_local = threading.local()


def connection() -> duckdb.DuckDBPyConnection:
    if not hasattr(_local, "connection"):
        _local.connection = duckdb.connect(config={"threads": 1})
        for macro in MACROS:
            _local.connection.execute(f"CREATE MACRO {macro}")
    return _local.connection


def joined(
    tables: Mapping[str, Sequence[pa.Table]], conditions: Iterable[str], select: str | None = None
) -> Counter[str]:
    """All rows of the join, each as text, with how often it occurs."""
    columns = select or ", ".join(f'"{name}"."{column}"' for name, t in tables.items() for column in t[0].column_names)
    where = " AND ".join(f"({condition})" for condition in conditions)
    sources = ", ".join(f'"{name}"' for name in tables)
    return answer(tables, f"SELECT {columns} FROM {sources} WHERE {where}")


def answer(tables: Mapping[str, Sequence[pa.Table]], sql: str) -> Counter[str]:
    """What a query over tables gives, as `joined` does."""
    with registered(tables):
        return multiset(connection().sql(sql).to_arrow_table())


@contextmanager
def registered(tables: Mapping[str, Sequence[pa.Table]]) -> Iterator[None]:
    """Queries within the block find tables by their names."""
    for name, parts in tables.items():
        connection().register(name, pa.concat_tables(parts))
    try:
        yield
    finally:
        for name in tables:
            connection().unregister(name)


def multiset(table: pa.Table) -> Counter[str]:
    """Rows as text: structs and strings print alike whichever engine made them."""
    columns = [[repr(value) for value in plain(column).to_pylist()] for column in table.columns]
    return Counter(map("|".join, zip(*columns, strict=True))) if columns else Counter({"": table.num_rows})


def plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """An instant prints as a number: the name of its zone is of no matter."""
    return column.cast(pa.int64()) if pa.types.is_timestamp(column.type) and column.type.tz else column


def difference(got: Counter[str], expected: Counter[str]) -> str:
    missing, extra = expected - got, got - expected
    return (
        f"{missing.total()} missing, {extra.total()} too many of {expected.total()}; "
        f"missing {list(missing.items())[:3]}, too many {list(extra.items())[:3]}"
    )
