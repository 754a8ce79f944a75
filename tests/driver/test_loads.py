"""What the tasks of an epoch tell is the load that policies are shown."""

import numpy as np
import pyarrow as pa
from tests.support.in_process import InProcess, Moving
from tests.support.states import JOIN, two_way_plan

from watersmeet.state.groups import group_of


def started(tmp_path, **options):
    query = InProcess(two_way_plan(), str(tmp_path), groups=8, sites=2, **options)
    rows = {"A": pa.table({"k": [1, 2, 2], "v": [1, 2, 3]}), "B": pa.table({"k": [2, 5], "v": [1, 2]})}
    query.epoch(rows)
    return query


def test_busy_times_and_tuples_are_told_by_site_and_group(tmp_path):
    query = started(tmp_path, moving=Moving("memory", apart=True))
    load = query.loop.stepper.observer.load
    assert load.busy_ms.shape == (1, 2)
    assert (load.busy_ms > 0).all()
    assert load.duration_ms >= load.busy_ms.max()
    groups = group_of(query._hashes([pa.array([1, 2, 5])], [pa.int64()]), 8)  # noqa: SLF001
    expected = np.zeros(8)
    np.add.at(expected, groups, [1, 3 + 2, 1])
    assert load.tuples[JOIN].tolist() == expected.tolist(), "rows that came, and results"
    assert load.results[JOIN].sum() == 2
    assert load.is_shared


def test_one_process_that_does_all_is_told(tmp_path):
    assert not started(tmp_path).loop.stepper.observer.load.is_shared


def test_nothing_is_told_where_nothing_moves_or_in_a_step_of_cleanup(tmp_path):
    assert started(tmp_path, moving=Moving("none")).loop.stepper.observer.load is None
