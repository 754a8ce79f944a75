"""Every back end, for the one behaviour suite."""

import uuid
from pathlib import Path

import pytest
from tests.support.file_systems import SCHEMES

from watersmeet.storage.base import Storage
from watersmeet.storage.faulty import FaultyStorage
from watersmeet.storage.local import LocalStorage
from watersmeet.storage.remote import FsspecStorage

EXCLUSIVE = ["local", "local, not durable", "fsspec over memory", "fsspec over files", "faulty at rate 0"]


@pytest.fixture(params=[*EXCLUSIVE, *SCHEMES])
def storage(request, tmp_path) -> Storage:
    return opened(request.param, tmp_path)


@pytest.fixture(params=EXCLUSIVE)
def exclusive_storage(request, tmp_path) -> Storage:
    """One where two writers may come in the same instant."""
    return opened(request.param, tmp_path)


def opened(kind: str, folder: Path) -> Storage:
    root, cache = str(folder / "root"), str(folder / "cache")
    match kind:
        case "local":
            return LocalStorage(root)
        case "local, not durable":
            return LocalStorage(root, durable=False)
        case "fsspec over memory":
            return FsspecStorage(f"memory://{uuid.uuid4().hex}/root", cache)
        case "fsspec over files":
            return FsspecStorage(f"file://{root}", cache)
        case scheme if scheme in SCHEMES:
            return FsspecStorage(f"{scheme}://{root}", cache)
        case _:
            return FaultyStorage(LocalStorage(root), seed=1, rate=0.0)
