"""Rows without a match that reach an outer join late, out of what was spilled below it."""

import pyarrow as pa
import pytest
from tests.support.in_process import InProcess

from watersmeet.model.ids import SiteId
from watersmeet.model.query import Aggregate, AggregateNode, GroupKey, JoinNode, Query, StreamNode
from watersmeet.planning import plan
from watersmeet.planning.windows import WINDOW_TYPE
from watersmeet.state.changes import SpillGroups
from watersmeet.state.groups import GroupSet

SCHEMA = pa.schema({"k": pa.int64(), "ts": pa.timestamp("us", "UTC")})


def table(*rows):
    keys, times = zip(*rows, strict=True) if rows else ((), ())
    return pa.table([pa.array(keys, pa.int64()), pa.array(times, SCHEMA.field("ts").type)], schema=SCHEMA)


def test_a_row_that_comes_up_at_the_end_comes_alone_though_all_there_was_is_decided(tmp_path):
    a, b, c = (StreamNode(name, SCHEMA, "ts", 8, 0) for name in "ABC")
    node = JoinNode((JoinNode((a, b), "A.k = B.k"), c), "A.k = C.k", "left")
    query = InProcess(plan(Query(node)), str(tmp_path), groups=1, sites=1)
    query.epoch({"A": table((2, 5)), "B": table(), "C": table((9, 100))})
    query.loop.stepper.adapt([SpillGroups(SiteId(0), {query.plan.operators[0].id: GroupSet.of([0])})])
    query.epoch({"A": table(), "B": table((2, 3)), "C": table()})
    assert query.is_missing
    assert query.manifest.operators["join2"].decided
    found = []
    for level in range(2):
        while any(query.manifest.spilled(operator.id) for operator in query.plan.levels[level]):
            found += query.clean("end", None, level).to_pylist()
    assert [(row["A"]["k"], row["B"]["k"], row["C"]["k"]) for row in found] == [(2, 2, None)]


def test_a_group_waits_for_the_rows_that_come_alone_into_it(tmp_path):
    a, b = (StreamNode(name, SCHEMA, "ts", 8, 0) for name in "AB")
    keys = (GroupKey("window", "window(A.ts, '10 microseconds')", WINDOW_TYPE),)
    told = (Aggregate("n", "count", pa.int64(), None, None), Aggregate("met", "count", pa.int64(), "B.k", pa.int64()))
    node = AggregateNode(JoinNode((a, b), "A.k = B.k", "left"), keys, told, "append")
    query = InProcess(plan(Query(node)), str(tmp_path), groups=1, sites=1)
    met = query.epoch({"A": table((1, 1), (2, 9)), "B": table((1, 2))})
    assert not met.num_rows
    assert not query.epoch({"A": table((7, 30)), "B": table((8, 12))}).num_rows  # 2 may still be met at 13
    assert not query.epoch({"A": table(), "B": table((8, 30))}).num_rows  # now it may not
    assert not query.epoch({"A": table(), "B": table()}).num_rows  # it comes alone
    [group] = query.epoch({"A": table(), "B": table()}).to_pylist()
    assert (group["aggregate1"]["n"], group["aggregate1"]["met"]) == (2, 1)


@pytest.mark.parametrize("how", ["left", "full", "anti", "semi"])
def test_a_row_that_what_it_is_joined_on_excludes_comes_alone_at_once(tmp_path, how):
    a, b = (StreamNode(name, SCHEMA) for name in "AB")
    node = JoinNode((a, b), "A.k = B.k AND A.ts > TIMESTAMP '1970-01-01 00:00:00'", how)
    query = InProcess(plan(Query(node, ("A.k",))), str(tmp_path), groups=1, sites=1)
    excluded = query.epoch({"A": table((1, 0), (2, None), (3, 5)), "B": table()}).to_pylist()
    assert sorted(row["A"]["k"] for row in excluded) == ([] if how == "semi" else [1, 2])
    assert query.manifest.rows == 1, "and is not kept"


def test_a_group_by_a_time_comes_when_the_watermark_has_passed_it(tmp_path):
    keys = (GroupKey("ts", "A.ts", SCHEMA.field("ts").type),)
    told = (Aggregate("n", "count", pa.int64(), None, None),)
    node = AggregateNode(StreamNode("A", SCHEMA, "ts", None, 2), keys, told, "append")
    query = InProcess(plan(Query(node)), str(tmp_path), groups=1, sites=1)
    rows = [
        query.epoch({"A": each}).num_rows for each in (table((1, 1), (1, 2)), table((1, 4), (2, 4)), table(), table())
    ]
    assert sum(rows) == 1, "rows of 2 may still come"
    assert sum(query.epoch({"A": each}).num_rows for each in (table((1, 5)), table())) == 1
