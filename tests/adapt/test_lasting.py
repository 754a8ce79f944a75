"""What is about to expire is worth less to keep."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from tests.support.in_process import InProcess

from watersmeet.adapt.policy import MemoryOptions
from watersmeet.adapt.spilling.adaptive import adaptive
from watersmeet.adapt.spilling.candidates import Candidate, Pool, Pressure
from watersmeet.adapt.spilling.lasting import Lasting
from watersmeet.adapt.statistics import Observation, Statistics
from watersmeet.model.ids import OperatorId
from watersmeet.model.query import JoinNode, Query, StreamNode
from watersmeet.planning import plan
from watersmeet.state.sizes import live_bytes

SCHEMA = pa.schema([("k", pa.int64()), ("ts", pa.timestamp("us", "UTC"))])
WINDOW = 100


def running(folder, budget_bytes=None):
    nodes = tuple(StreamNode(name, SCHEMA, "ts", window_us=WINDOW, delay_us=0) for name in "AB")
    query = Query(JoinNode(nodes, "A.k = B.k", "inner"))
    return InProcess(plan(query), str(folder), options=MemoryOptions(budget_bytes))


def epoch(number, keys):
    times = pa.array([10 * number] * len(keys), pa.int64()).cast(SCHEMA.field("ts").type)
    table = pa.table({"k": pa.array(keys, pa.int64()), "ts": times}, SCHEMA)
    return {"A": table, "B": table}


def test_of_two_groups_that_are_alike_the_one_whose_rows_end_soon_is_worth_less():
    seen = Observation(*(np.array([900.0, 900.0]) for _ in range(4)))
    known = Statistics.cold(groups=2)
    for number in range(4):
        known = known.after(seen, epoch=number)
    lasts = np.array([[1.0, 20.0], [1.0, 20.0]])
    candidate = Candidate(OperatorId("join1"), 0, None, known.size_bytes, known)
    pressure = Pressure(budget_bytes=4000, live_bytes=7200, fraction=0.3, epoch=4)
    alike = adaptive(Pool.of([candidate]), pressure)
    assert alike[0] == pytest.approx(alike[1])
    soon, later = adaptive(Pool.of([replace(candidate, lasts=lasts)]), pressure)
    assert soon < later


def test_how_long_rows_last_is_learnt_from_watermarks(tmp_path):
    query, lasting = running(tmp_path), Lasting()
    for number in range(8):
        query.epoch(epoch(number, [1] if number < 4 else [2]))
        lasting.see(query.manifest)
    [found] = lasting.epochs(query.manifest).values()
    known = found[np.isfinite(found)]
    assert sorted({round(each, 1) for each in known.tolist()}) == pytest.approx([4.5, 8.5], abs=0.6)


def test_what_has_expired_is_not_taken_for_live(tmp_path):
    query = running(tmp_path, budget_bytes=1 << 30)
    for number in range(60):
        query.epoch(epoch(number, [number % 3] * 4))
    [(name, known)] = query.loop.stepper.observer.statistics.items()
    assert known.live_by_input.sum() == pytest.approx(live_bytes(query.manifest, name).sum())
