"""Expressions of queries that run in this process, without Spark: they are plain columns, which Arrow can take."""

import re

import pyarrow as pa

_PLAIN = re.compile(r"`(\w+)`\.`(\w+)`")


def plain_column(rows: pa.Table, sql: str) -> pa.Array:
    """The values of a stream's column; ``rows`` have a struct for each stream.

    >>> rows = pa.table({"A": pa.array([{"k": 1}, {"k": 2}])})
    >>> plain_column(rows, "`A`.`k`").to_pylist()
    [1, 2]
    """
    found = _PLAIN.fullmatch(sql)
    if found is None:
        raise ValueError(sql)
    column = rows.column(found[1]).combine_chunks()
    return column.field(found[2]) if len(column) else pa.array([], column.type.field(found[2]).type)
