import os
import subprocess
import sys

import pytest

from watersmeet.model.errors import StorageError
from watersmeet.storage.lock import Lock

HOLD = """
import sys
from watersmeet.storage.lock import Lock
lock = Lock.acquire(sys.argv[1])
print("held" if lock else "refused", flush=True)
sys.stdin.read()
"""


def start(path) -> subprocess.Popen[str]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, "-c", HOLD, str(path)], env=environment, **pipes)


def test_a_lock_is_refused_to_a_second_owner_in_the_same_process(tmp_path):
    first = Lock.acquire(tmp_path / "new" / "lock")
    assert first is not None
    assert Lock.acquire(tmp_path / "new" / "lock") is None
    first.release()
    first.release()
    second = Lock.acquire(tmp_path / "new" / "lock")
    assert second is not None
    second.release()


def test_a_lock_is_refused_to_another_process_and_ends_with_its_owner(tmp_path):
    owner = start(tmp_path / "lock")
    assert owner.stdout.readline() == "held\n"
    assert Lock.acquire(tmp_path / "lock") is None
    assert Lock.holder(tmp_path / "lock").startswith(f"process {owner.pid} on ")
    owner.kill()
    owner.communicate(timeout=60)
    with Lock.acquire(tmp_path / "lock"):
        late = start(tmp_path / "lock")
        assert late.communicate(timeout=60)[0] == "refused\n"


def test_a_lock_that_cannot_be_taken_at_all_is_an_error(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="could not lock"):
        Lock.acquire(tmp_path / "file" / "lock")
