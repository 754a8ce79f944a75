"""A run that is closed lets go of its checkpoint when its last step has ended, and not before."""

import threading
import time

import pytest
from tests.driver.test_publish import batch
from tests.support.in_process import InProcess
from tests.support.states import two_way_plan

from watersmeet.model.errors import CheckpointInUseError, StoppedError


def test_a_checkpoint_stays_locked_while_a_step_outlasts_the_close(tmp_path):
    query, begun, goes_on = InProcess(two_way_plan(), str(tmp_path)), threading.Event(), threading.Event()

    def reach(point, _):
        if point == "before-sink":
            begun.set()
            assert goes_on.wait(60)

    query.loop.stepper.reach = reach
    step = threading.Thread(target=query.epoch, args=(batch(0),))
    close = threading.Thread(target=query.close)
    step.start()
    assert begun.wait(60)
    close.start()
    time.sleep(0.2)
    assert close.is_alive()
    with pytest.raises(CheckpointInUseError, match="in use"):
        InProcess(two_way_plan(), str(tmp_path))
    goes_on.set()
    for each in (step, close):
        each.join(60)
    with pytest.raises(StoppedError):
        query.epoch(batch(1))
    again = InProcess(two_way_plan(), str(tmp_path), offsets=query.offsets)
    assert again.manifest.batch == 0
    again.close()
