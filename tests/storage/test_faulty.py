import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest

from watersmeet.model.errors import StorageError, StorageFullError
from watersmeet.storage.faulty import Fault, FaultyStorage
from watersmeet.storage.local import LocalStorage


@pytest.fixture
def inner(tmp_path):
    return LocalStorage(str(tmp_path / "inner"), durable=False)


def outcome(call, *arguments) -> str:
    try:
        call(*arguments)
    except StorageError as error:
        return error.what
    return "done"


def outcomes(storage, paths=range(200)) -> list[str]:
    return [outcome(storage.create, f"runs/{path}", b"x") for path in paths]


def test_the_same_seed_fails_the_same_calls_in_any_order(inner):
    one = outcomes(FaultyStorage(inner, seed=7, rate=0.3))
    other = outcomes(FaultyStorage(inner, seed=7, rate=0.3), reversed(range(200)))
    assert one == other[::-1]
    assert one != outcomes(FaultyStorage(inner, seed=8, rate=0.3))


def test_the_rate_is_kept(inner):
    assert 40 <= sum(told != "done" for told in outcomes(FaultyStorage(inner, seed=7, rate=0.3))) <= 80


def test_a_refused_call_is_not_done_and_a_landed_one_is(inner):
    storage = FaultyStorage(inner, seed=3, rate=0.3, landed_rate=0.3)
    told = {f"runs/{path}": what for path, what in enumerate(outcomes(storage))}
    assert {what.partition(" failed ")[2] for what in told.values()} == {"", "before it was done", "after it was done"}
    assert inner.list("") == sorted(path for path, what in told.items() if "before" not in what)


def test_a_retry_draws_anew(inner):
    storage = FaultyStorage(inner, seed=1, rate=0.9)
    tries = [outcome(storage.create, "x", b"x") for _ in range(100)]
    assert "done" in tries


def test_only_the_chosen_operations_fail(inner):
    storage = FaultyStorage(inner, rate=1.0, operations=frozenset({"read"}))
    storage.create("x", b"x")
    assert storage.create_new("x", b"y") is False
    assert storage.size("x") == 1
    assert storage.list("") == ["x"]
    assert storage.local("x").exists()
    assert outcome(storage.read, "x") == "read of x failed before it was done"
    storage.delete(["x"])


@pytest.mark.parametrize("operation", ["create", "create_new", "read", "size", "list", "delete", "local"])
def test_every_operation_can_fail(inner, operation):
    inner.create("x", b"x")
    storage = FaultyStorage(inner, rate=1.0)
    data = [b"y"] if operation.startswith("create") else []
    assert outcome(getattr(storage, operation), "x", *data) == f"{operation} of x failed before it was done"


def test_a_planned_fault_strikes_the_nth_matching_call_only(inner):
    storage = FaultyStorage(inner, plan=(Fault("create_new", "manifest/*", nth=1, landed=True), Fault("read")))
    assert storage.create_new("runs/1", b"x")
    assert storage.create_new("manifest/1", b"x")
    assert outcome(storage.create_new, "manifest/2", b"x") == "create_new of manifest/2 failed after it was done"
    assert storage.create_new("manifest/2", b"y") is False
    assert storage.create_new("manifest/3", b"x")
    assert outcome(storage.read, "manifest/2") == "read of manifest/2 failed before it was done"
    assert storage.read("manifest/2") == b"x"


def test_writes_beyond_the_room_there_is_are_refused_and_smaller_ones_still_fit(inner):
    storage = FaultyStorage(inner, full_after_bytes=10)
    storage.create("a", b"123456")
    with pytest.raises(StorageFullError, match="5 bytes more than the 10 there were made to be, 6 are taken"):
        storage.create("b", b"12345")
    assert storage.create_new("c", b"1234")
    with pytest.raises(StorageFullError):
        storage.create_new("d", b"1")
    assert inner.list("") == ["a", "c"]


def test_copies_with_a_ledger_count_together(inner, tmp_path):
    storage = FaultyStorage(inner, plan=(Fault("create", nth=5),), full_after_bytes=9, ledger=str(tmp_path / "ledger"))
    copies = [pickle.loads(pickle.dumps(storage)) for _ in range(12)]  # noqa: S301 - our own bytes
    with ThreadPoolExecutor(4) as pool:
        told = list(pool.map(lambda n: outcome(copies[n].create, f"runs/{n}", b"x"), range(12)))
    assert len(inner.list("")) == told.count("done") == 9
    assert sum("failed before" in what for what in told) == 1
    assert sum("could not write" in what for what in told) == 2


def test_copies_without_a_ledger_count_for_themselves(inner):
    storage = FaultyStorage(inner, plan=(Fault("create"),))
    copy = pickle.loads(pickle.dumps(storage))  # noqa: S301 - our own bytes
    assert [outcome(each.create, "x", b"x") == "done" for each in (storage, copy, storage, copy)] == [
        False,
        False,
        True,
        True,
    ]
