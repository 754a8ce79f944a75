"""Generators that run at the same time."""

import threading
from collections.abc import Iterator

import pytest

from watersmeet.site.parallel import in_parallel


def numbers(first: int, count: int, barrier: threading.Barrier | None = None) -> Iterator[int]:
    if barrier:
        barrier.wait(10)  # passed only if all parts run at once
    yield from range(first, first + count)


def failing() -> Iterator[int]:
    yield 1
    raise RuntimeError("no more")


def test_all_that_parts_yield_comes_and_they_run_at_once():
    barrier = threading.Barrier(2)
    assert sorted(in_parallel([numbers(0, 3, barrier), numbers(10, 2, barrier)])) == [0, 1, 2, 10, 11]


def test_of_each_part_at_most_one_item_waits():
    made: list[int] = []

    def counted() -> Iterator[int]:
        for number in range(100):
            made.append(number)
            yield number

    merged = in_parallel([counted(), iter(())])
    assert next(merged) == 0
    merged.close()
    assert len(made) <= 3


def test_what_a_part_fails_with_is_raised():
    with pytest.raises(RuntimeError, match="no more"):
        list(in_parallel([failing(), numbers(0, 2)]))


def test_nothing_and_one():
    assert list(in_parallel([])) == []
    assert list(in_parallel([iter([1])])) == [1]
