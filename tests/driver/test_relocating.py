"""What the papers' protocols of moving state become is told by their names, as it happens."""

import logging
import re

import numpy as np
import pyarrow as pa
import pytest
from tests.law.test_law_of_moves import moved_by, remote, streams
from tests.support.in_process import InProcess
from tests.support.states import two_way_plan

from watersmeet.state.events import MoveEvent

PROTOCOL = [
    "ComputePartitionsToMove",
    "PartitionsToMove",
    "DeactivatePartitions",
    "Deactivated",
    "SendPartitions",
    "ReceivePartitions",
    "Received",
    "ReactivatePartitions",
]
LINE = re.compile(r"epoch (\d+): (\w+): join1 groups ([\d, \-]+) from site (\d) to (\d), (\d+) bytes; .+")


@pytest.fixture
def told(caplog):
    caplog.set_level(logging.INFO, "watersmeet.relocation")

    def lines():
        return [LINE.fullmatch(record.message).groups() for record in caplog.records]

    return lines


def test_each_step_of_a_move_is_logged_by_its_name_with_groups_sites_and_bytes(tmp_path, told):
    with moved_by("memory"):
        query = InProcess(two_way_plan(), str(tmp_path), groups=4, sites=2, weights=(1.0, 0.0))
        for tables in streams(1)[:6]:
            query.epoch(tables)
        moves = [each for each in query.loop.stepper.checkpoint.events() if isinstance(each, MoveEvent)]
    first, lines = moves[0], told()
    about = (str(first.before.site), str(first.after.site), str(first.bytes))
    of_it = [(int(epoch), step) for epoch, step, groups, *rest in lines if tuple(rest) == about]
    assert [step for _, step in of_it][: len(PROTOCOL)] == PROTOCOL
    assert [epoch - first.epoch for epoch, _ in of_it][: len(PROTOCOL)] == [0] * 5 + [1] * 3


def test_of_a_move_that_is_announced_the_rows_are_sent_and_received_before(tmp_path, told):
    with remote("memory"):
        query = InProcess(two_way_plan(), str(tmp_path), groups=4, sites=2, weights=(1.0, 0.0))
        for tables in streams(1)[:9]:
            query.epoch(tables)
    steps = [step for _, step, *_ in told()]
    assert steps[:4] == ["ComputePartitionsToMove", "PartitionsToMove", "SendPartitions", "ReceivePartitions"]
    after = steps[steps.index("Received") :]
    assert after[:3] == ["Received", "DeactivatePartitions", "Deactivated"]
    assert "ReactivatePartitions" in after


def test_nothing_is_told_where_nothing_moves(tmp_path, told):
    query = InProcess(two_way_plan(), str(tmp_path), groups=4, sites=2)
    query.epoch({name: pa.table({"k": np.arange(9), "v": np.arange(9)}) for name in "AB"})
    assert told() == []
