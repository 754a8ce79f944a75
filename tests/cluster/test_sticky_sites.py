import json
import subprocess
import sys

import pytest
from tests.cluster.sticky import EPOCHS, KILL_AT, SITES

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]


def test_sites_stay_on_their_executors_and_move_only_when_one_is_lost():
    command = [sys.executable, "-m", "tests.cluster.sticky"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr[-3000:]
    report = json.loads(done.stdout.splitlines()[-1])
    before, after = report["places"][:KILL_AT], report["places"][KILL_AT:]
    assert len(report["places"]) == EPOCHS
    assert all(epoch == before[0] for epoch in before), "a site moved without need"
    assert len(set(before[0])) == 2, "one executor got all sites"
    killed = before[0][0]
    assert all(killed not in epoch and len(epoch) == SITES for epoch in after)
    assert report["exact"]
    assert report["rows"] > 0
