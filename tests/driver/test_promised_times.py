"""What punctuations that name the time of a stream do: rows of others are decided, and go."""

import pyarrow as pa
import pytest
from tests.support.in_process import InProcess

from watersmeet.model.query import Aggregate, AggregateNode, GroupKey, JoinNode, Query, StreamNode
from watersmeet.operators.promises.patterns import SHAPE, shape_of
from watersmeet.planning import plan
from watersmeet.planning.windows import WINDOW_TYPE

TIME = pa.timestamp("us", "UTC")
SCHEMA = pa.schema([("k", pa.int64()), ("ts", TIME)])


def query(folder, *named, how="left"):
    """Rows of A wait for those of B, which are promised by some columns; both live for 5 microseconds."""
    a, b = StreamNode("A", SCHEMA, "ts", 5), StreamNode("B", SCHEMA, "ts", 5, punctuated=named)
    return InProcess(plan(Query(JoinNode((a, b), "A.k = B.k", how), ("A.k", "A.ts", "B.ts"))), str(folder))


def rows(*pairs):
    keys, times = zip(*pairs, strict=True) if pairs else ([], [])
    return pa.table([pa.array(keys, pa.int64()), pa.array(times, pa.int64()).cast(TIME)], schema=SCHEMA)


def promised(*ranges, keys=None):
    """Ranges of time, perhaps each of a key."""
    fields, shape = [(SHAPE, pa.int64())], shape_of([], [0]) if keys is None else shape_of([0], [1])
    columns = [pa.array([shape] * len(ranges), pa.int64())]
    if keys is not None:
        fields += [("k", pa.int64()), ("k#until", pa.int64())]
        columns += [pa.array(keys, pa.int64()), pa.nulls(len(ranges), pa.int64())]
    fields += [("ts", TIME), ("ts#until", TIME)]
    columns += [pa.array([each[n] for each in ranges], pa.int64()).cast(TIME) for n in (0, 1)]
    return pa.table(columns, schema=pa.schema(fields))


def epoch(running, a=(), b=(), promises=None):
    names = {column.field for column in running.plan.stream("B").punctuated}
    none = promised(keys=[] if "k" in names else None)
    return running.epoch({"A": rows(*a), "B": rows(*b), "B#promises": promises or none}).num_rows


def held(running):
    return sum(run.rows for run in running.manifest.runs.values() if run.input == "A")


def test_ranges_that_follow_each_other_are_a_watermark(tmp_path):
    running = query(tmp_path, "ts")
    ranges = [(None, 10), (10, 20), (20, 30), (30, 40)]
    came = [epoch(running, [(1, 12)] if n == 0 else [], promises=promised(each)) for n, each in enumerate(ranges)]
    assert came == [0, 0, 1, 0]  # it lives until 17, which the second range promises
    assert running.manifest.promised_until == {"B": 40}
    assert held(running) == 0


def test_a_range_that_was_missing_connects_those_that_came_before(tmp_path):
    running = query(tmp_path, "ts")
    for each in [(10, 20), (30, 40), (20, 30)]:
        epoch(running, [(1, 12)], promises=promised(each))
        assert running.manifest.promised_until == {}
    epoch(running, promises=promised((None, 10)))
    assert running.manifest.promised_until == {"B": 40}
    assert epoch(running) == 3


def test_ranges_of_one_epoch_connect_too(tmp_path):
    running = query(tmp_path, "ts")
    epoch(running, promises=promised((20, 30), (None, 10), (5, 22), (31, 40)))
    assert running.manifest.promised_until == {"B": 30}


def test_ranges_with_a_beginning_promise_nothing_before_it(tmp_path):
    running = query(tmp_path, "ts")
    epoch(running, [(1, 12)], promises=promised((0, 10), (10, 20)))
    assert [epoch(running), running.manifest.promised_until, held(running)] == [0, {}, 1]


def test_a_stream_has_ended_once_ranges_promise_all_times(tmp_path):
    running = query(tmp_path, "ts")
    epoch(running, [(1, 12)], promises=promised((20, None)))
    assert running.manifest.ended == {}
    epoch(running, promises=promised((None, 20)))
    assert list(running.manifest.ended) == ["B"]
    assert epoch(running) == 1


def test_a_key_that_is_promised_before_a_time_decides_the_rows_that_end_by_then(tmp_path):
    running = query(tmp_path, "k", "ts")
    rows = [(5, 0), (5, 4), (5, 5), (6, 0)]
    epoch(running, rows, promises=promised((None, 9), keys=[5]))
    assert [epoch(running), epoch(running), held(running)] == [2, 0, 2]  # two live until 5 and 9
    epoch(running, [(5, 1), (5, 6)], promises=promised((None, 10), keys=[5]))
    assert epoch(running) == 1


def test_a_row_that_arrives_after_its_key_was_promised_for_its_time_comes_out_at_once(tmp_path):
    running = query(tmp_path, "k", "ts")
    epoch(running, promises=promised((None, 9), keys=[5]))
    assert [epoch(running, [(5, 4), (5, 5)]), held(running)] == [1, 1]


@pytest.mark.parametrize(("low", "high"), [(0, 100), (None, 4)])
def test_a_key_that_is_promised_from_a_time_or_up_to_an_early_one_decides_nothing(tmp_path, low, high):
    running = query(tmp_path, "k", "ts")
    epoch(running, [(5, 0)], promises=promised((low, high), keys=[5]))
    assert [epoch(running), held(running)] == [0, 1]


def test_a_key_that_is_promised_at_all_times_is_promised(tmp_path):
    running = query(tmp_path, "k", "ts")
    epoch(running, [(5, 10**9), (6, 0)], promises=promised((None, None), keys=[5]))
    assert [epoch(running), epoch(running), held(running)] == [1, 0, 1]


def test_possible_matches_stay_until_all_rows_they_can_be_joined_with_are_decided(tmp_path):
    a, b = (StreamNode(name, SCHEMA, "ts", 5, punctuated=("k", "ts")) for name in "AB")
    running = InProcess(plan(Query(JoinNode((a, b), "A.k = B.k", "left"), ("A.k", "A.ts", "B.ts"))), str(tmp_path))

    def step(a=(), b=(), of_a=(), of_b=()):
        told = {f"{name}#promises": promised(*some, keys=[5] * len(some)) for name, some in (("A", of_a), ("B", of_b))}
        return running.epoch({"A": rows(*a), "B": rows(*b), **told}).num_rows

    def kept():
        return sum(run.rows for run in running.manifest.runs.values() if run.input == "B")

    assert step(a=[(5, 4)], b=[(5, 0)], of_a=[(None, 5)]) == 1
    step(of_b=[(None, 8)])
    assert [step(), step(), kept()] == [0, 0, 1]  # A's row lives until 9
    step(of_b=[(None, 9)])
    assert [step(), step(), kept()] == [0, 0, 0]


def test_groups_of_a_window_are_final_by_a_key_that_is_promised_before_its_end(tmp_path):
    a = StreamNode("A", SCHEMA, "ts", punctuated=("k", "ts"))
    keys = (GroupKey("k", "A.k", pa.int64()), GroupKey("w", "window(A.ts, '10 microseconds')", WINDOW_TYPE))
    node = AggregateNode(a, keys, (Aggregate("n", "count", pa.int64()),), "append")
    running = InProcess(plan(Query(node), type_of=lambda *_: TIME), str(tmp_path))
    came = [
        running.epoch({"A": rows((5, 3), (5, 13), (6, 3)), "A#promises": promised((None, 19), keys=[5])}).num_rows,
        running.epoch({"A": rows(), "A#promises": promised((None, 20), keys=[5])}).num_rows,
        running.epoch({"A": rows(), "A#promises": promised(keys=[])}).num_rows,
    ]
    assert came == [0, 1, 1]
