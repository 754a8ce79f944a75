"""Rows that are rejected are written where the user says: seen once, and when the version that counts them is there."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.in_process import InProcess

from watersmeet.model.query import FilterNode, JoinNode, Query, StreamNode
from watersmeet.planning import plan

SCHEMA = pa.schema({"k": pa.int64(), "note": pa.string(), "ts": pa.timestamp("us", "UTC")})


def table(*rows):
    columns = zip(*rows, strict=True) if rows else ((), (), ())
    return pa.table([pa.array(each, kind) for each, kind in zip(columns, SCHEMA.types, strict=True)], schema=SCHEMA)


@pytest.fixture
def query(tmp_path):
    """A stream with a watermark and a filter, and one without times."""
    a, b = StreamNode("A", SCHEMA, "ts", None, 5), StreamNode("B", SCHEMA)
    node = FilterNode(JoinNode((a, b), "A.k = B.k"), "A.k < 9")
    return InProcess(plan(Query(node, ("A.k",))), str(tmp_path / "ck"), rejected_path=str(tmp_path / "rejected"))


def seen(folder):
    files = sorted((folder / "rejected").glob("[!.]*.parquet"))
    rows = [row for file in files for row in pq.read_table(file).to_pylist()]
    return sorted((row["stream"], row["epoch"], row["reason"], json.loads(row["row"])["k"]) for row in rows)


LATE = [("A", 1, "late", 3), ("A", 1, "late", 9), ("A", 1, "null time", 4)]
FIRST = {"A": table((1, "in time", 100)), "B": table((1, None, None), (2, "without times", None))}
SECOND = {"A": table((3, 'late "quoted"', 94), (9, "late, and filtered", 0), (2, "just", 95), (4, None, None))}


def test_late_rows_and_rows_without_a_time_are_written_whole_with_the_reason(query, tmp_path):
    query.epoch(FIRST)
    assert seen(tmp_path) == []
    query.epoch(SECOND | {"B": table()})
    assert seen(tmp_path) == LATE
    names = [file.name for file in (tmp_path / "rejected").iterdir()]
    assert all(name.startswith("epoch-000000000001-") for name in names)
    texts = [
        json.loads(row) for name in names for row in pq.read_table(tmp_path / "rejected" / name)["row"].to_pylist()
    ]
    assert {'late "quoted"', "late, and filtered", None} == {text["note"] for text in texts}


def test_rows_of_an_attempt_that_was_not_committed_are_never_seen(query, tmp_path):
    query.epoch(FIRST)
    query.attempt(SECOND | {"B": table()})
    assert seen(tmp_path) == []
    query.epoch(SECOND | {"B": table()})
    assert seen(tmp_path) == LATE
    query.epoch({"A": table((5, "late", 1)), "B": table()})
    assert seen(tmp_path) == [*LATE, ("A", 2, "late", 5)]
    assert not list((tmp_path / "rejected").glob(".*")), "what an attempt left is cleared"
