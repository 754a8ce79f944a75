"""Every back end, for the one behaviour suite."""

import uuid

import pytest

from watersmeet.storage.base import Storage
from watersmeet.storage.faulty import FaultyStorage
from watersmeet.storage.local import LocalStorage
from watersmeet.storage.remote import FsspecStorage

BACK_ENDS = ["local", "local, not durable", "fsspec over memory", "fsspec over files", "faulty at rate 0"]


@pytest.fixture(params=BACK_ENDS)
def storage(request, tmp_path) -> Storage:
    root, cache = str(tmp_path / "root"), str(tmp_path / "cache")
    match request.param:
        case "local":
            return LocalStorage(root)
        case "local, not durable":
            return LocalStorage(root, durable=False)
        case "fsspec over memory":
            return FsspecStorage(f"memory://{uuid.uuid4().hex}/root", cache)
        case "fsspec over files":
            return FsspecStorage(f"file://{root}", cache)
        case _:
            return FaultyStorage(LocalStorage(root), seed=1, rate=0.0)
