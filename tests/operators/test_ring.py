"""The kernel of rings against every pair, looked at one by one."""

import math
import operator
import random
from itertools import product

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from watersmeet.model.errors import PredicateError
from watersmeet.model.plan import Test as Condition
from watersmeet.operators import predicate
from watersmeet.operators.calls import PredicateCall
from watersmeet.operators.join.probe import RunView
from watersmeet.operators.ring import index
from watersmeet.operators.ring.task import RingSide, RingTask
from watersmeet.operators.spec import LifeSpec
from watersmeet.state.rows import SortedRows

OPERATORS = {"lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge, "eq": operator.eq}
WHOLE = [None, *range(8)]
FLOATS = [None, 0.0, -0.0, 0.1, 0.2, 0.3, 2.5, -math.inf, math.inf, math.nan]
EXTREME = [None, -(2**63), -(2**63) + 1, 2**63 - 1, 2**63 - 2, 0, 1]
MIXED = [-(2**63), *range(8)]


def rows(name: str, values: dict[str, list[object]], kind: pa.DataType) -> SortedRows:
    columns = {f"{name}.{field}": pa.array(column, kind) for field, column in values.items()}
    count = len(next(iter(values.values())))
    return SortedRows(np.arange(count, dtype=np.uint64) << np.uint64(50), pa.record_batch(columns))


def holds(test: Condition, row: dict[str, object]) -> bool | None:
    left, right = (row[str(name)] for name in test.arguments)
    if left is None or right is None:
        return None
    if test.function == "within":
        difference = left - right
        above = test.low is None or compared("gt" if test.excluded else "ge", difference, test.low)
        return above and (test.high is None or compared("lt" if test.excluded else "le", difference, test.high))
    return compared(test.function, left, right)


def compared(function: str, left: float, right: float) -> bool:
    """As in Spark: what is not a number is greater than any other, and equal to itself."""
    keys = [(1, 0) if isinstance(each, float) and math.isnan(each) else (0, each) for each in (left, right)]
    return OPERATORS[function](*keys)


def found(task: RingTask, sides: list[RingSide]) -> list[tuple[object, ...]]:
    pairs = []
    for results in task.meet(sides):
        columns = results.columns()
        pairs += zip(*(columns[name].to_pylist() for name in sorted(columns)), strict=True)
    return sorted(pairs, key=repr)


def expected(tests: list[Condition], left: SortedRows, right: SortedRows) -> list[tuple[object, ...]]:
    both = (a | b for a, b in product(left.rows.to_pylist(), right.rows.to_pylist()))
    passed = [row for row in both if all(holds(test, row) for test in tests)]
    return sorted((tuple(row[name] for name in sorted(row)) for row in passed), key=repr)


@pytest.mark.parametrize("values", [WHOLE, FLOATS, EXTREME, MIXED], ids=["whole", "floats", "extreme", "mixed"])
@pytest.mark.parametrize("tree_cost", [0, 4])
def test_ranges_find_the_pairs_that_pass(values, tree_cost, monkeypatch):
    monkeypatch.setattr(index, "TREE_COST", tree_cost)
    kind = pa.float64() if values is FLOATS else pa.int64()
    for seed in range(60):
        chance = random.Random(seed)
        left, right = (
            rows(name, {field: chance.choices(values, k=size) for field in "xy"}, kind)
            for name, size in (("A", chance.randint(1, 20)), ("B", chance.randint(1, 20)))
        )
        names = [("A.x", "B.x"), ("B.x", "A.y"), ("A.y", "B.y"), ("B.y", "A.x")]
        tests = [Condition(chance.choice(list(OPERATORS)), chance.choice(names)) for _ in range(chance.randint(0, 3))]
        if chance.random() < 0.6:
            low, high = chance.choice([(-2, 2), (None, 1), (1, None), (-3, -1)])
            if kind == pa.float64():
                low, high = (None if each is None else each / 10 for each in (low, high))
            excluded = kind == pa.float64() and chance.random() < 0.5
            tests.append(Condition("within", chance.choice(names), low, high, excluded))
        task = RingTask(4, tuple(tests), (None, None))
        sides = [RingSide((RunView(left),)), RingSide((), (right,))]
        if chance.random() < 0.5:
            sides = [RingSide((), (left,)), RingSide((RunView(right),))]
        assert repr(found(task, sides)) == repr(expected(tests, left, right)), (seed, tests)


TEXTS = [None, "", "a", "ab", "abc", "b", "a%", "\0", "a\0", "a\0b", "é", "éé", "z", "\U0001f600", "a" * 32, "a" * 40]


@pytest.mark.parametrize("tree_cost", [0, 4])
def test_texts_that_begin_with_others_are_found(tree_cost, monkeypatch):
    monkeypatch.setattr(index, "TREE_COST", tree_cost)
    looked_at = []
    monkeypatch.setattr(
        predicate.Asked,
        "passed",
        lambda self, some, column: looked_at.append(len(some[0])) or asked(self, some, column),
    )
    for seed in range(60):
        chance = random.Random(seed)
        left, right = (rows(name, {"x": chance.choices(TEXTS, k=30)}, pa.string()) for name in "AB")
        text, prefix = chance.choice([("A.x", "B.x"), ("B.x", "A.x")])
        pairs = (a | b for a, b in product(left.rows.to_pylist(), right.rows.to_pylist()))
        held = [row for row in pairs if None not in row.values() and row[text].startswith(row[prefix])]
        task = RingTask(4, (Condition("starts_with", (text, prefix)),), (None, None))
        sides = chance.choice(
            [[RingSide((RunView(left),)), RingSide((), (right,))], [RingSide((), (left,)), RingSide((RunView(right),))]]
        )
        assert found(task, sides) == sorted(((row["A.x"], row["B.x"]) for row in held), key=repr)
    assert sum(looked_at) < 0.4 * 60 * 900


asked = predicate.Asked.passed


def test_every_pair_with_a_new_row_is_found_at_one_site():
    """Two sites: each has old rows of both inputs, some of the new ones, and the others' as probes."""
    left, right = (rows(name, {"x": list(range(8))}, pa.int64()) for name in "AB")
    parts = {"A": [left.slice(n, n + 2) for n in range(0, 8, 2)], "B": [right.slice(n, n + 2) for n in range(0, 8, 2)]}
    got = []
    for site in (0, 1):
        sides = [
            RingSide((RunView(parts[name][site]),), (parts[name][2 + site],), (parts[name][3 - site],)) for name in "AB"
        ]
        got += found(RingTask(4, (), (None, None)), sides)
    all_pairs = {(a, b) for a, b in product(range(8), range(8)) if a >= 4 or b >= 4}
    assert sorted(got) == sorted(all_pairs)


def test_rows_meet_while_they_live():
    lives = LifeSpec("A.x", "A.y"), LifeSpec("B.x", None, 3)
    left = rows("A", {"x": [0, 0, 5], "y": [2, 9, 6]}, pa.int64())
    right = rows("B", {"x": [1, 2, 5, 6]}, pa.int64())
    task = RingTask(4, (), lives, is_windowed=True, life=LifeSpec("#join1.begin", "#join1.end"))
    pairs = found(task, [RingSide((), (left,)), RingSide((), (right,))])
    overlap = [
        (max(a, c), min(b, c + 3), a, b, c)
        for a, b in ((0, 2), (0, 9), (5, 6))
        for c in (1, 2, 5, 6)
        if max(a, c) < min(b, c + 3)
    ]
    assert pairs == sorted(overlap, key=repr)


def test_tests_that_drop_most_for_their_time_are_asked_first():
    asked: dict[str, int] = {"few": 0, "most": 0}

    def few(left, right):
        asked["few"] += len(left)
        return pc.greater_equal(pc.add(left, right), 1)

    def most(left, right):
        asked["most"] += len(left)
        return pc.equal(left, right)

    functions = {name: PredicateCall(name, each, ("A.x", "B.x")) for name, each in (("few", few), ("most", most))}
    tests = tuple(Condition("call", ("A.x", "B.x"), name=name) for name in ("few", "most"))
    task = RingTask(4, tests, (None, None), functions=functions)
    left, right = (rows(name, {"x": [n % 50 for n in range(1500)]}, pa.int64()) for name in "AB")
    count = sum(results.count for results in task.meet([RingSide((), (left,)), RingSide((), (right,))]))
    assert count == 49 * 30 * 30
    assert min(asked.values()) < 0.5 * max(asked.values())


def test_a_predicate_that_fails_on_no_row_alone_says_so():
    def fails(left):
        if len(left) > 1:
            raise ValueError("too many")
        return pc.is_valid(left)

    with pytest.raises(PredicateError, match="on none of them alone"):
        PredicateCall("fails", fails, ("A.x",))(pa.array([1, 2, 3]))


def test_a_row_on_which_a_predicate_fails_is_told_by_its_position_and_its_other_values():
    def fails(left, right):
        if 3 in left.to_pylist():
            raise ValueError("three")
        return pc.equal(left, right)

    pixels, text = pa.array([[0] * 90, [1]]), pa.array(["a" * 90, "b"])
    left, right = (
        SortedRows(
            np.arange(2, dtype=np.uint64),
            pa.record_batch({f"{name}.{field}": values for field, values in columns.items()}),
        )
        for name, columns in (
            ("A", {"x": pa.array([1, 3]), "#key": pa.array([1, 2]), "id": pa.array([70, 71]), "img": pixels}),
            ("B", {"x": pa.array([5, 6]), "id": pa.array([80, 81]), "t": text}),
        )
    )
    functions = {"fails": PredicateCall("fails", fails, ("A.x", "B.x"))}
    task = RingTask(4, (Condition("call", ("A.x", "B.x"), name="fails"),), (None, None), functions=functions)
    with pytest.raises(PredicateError) as failed:
        found(task, [RingSide((RunView(left),)), RingSide((), (right,))])
    told = f"fails on the row A.x = 3, B.x = 5, number 2 of 4 (A.id = 71, B.id = 80, B.t = {'a' * 40})"
    assert failed.value.what == f"predicate fails {told}"
    assert failed.value.why == "ValueError: three"


@pytest.mark.parametrize(
    ("returned", "what"),
    [
        (np.array([True, "no", None], object), "an array of NoneType and bool and str"),
        (np.array([object()] * 3), "an array of object"),
        (np.array([1j, 2, 3]), "an array of complex128"),
        ([True] * 3, "list"),
        (True, "bool"),
    ],
)
def test_what_a_predicate_returns_instead_of_booleans_is_told(returned, what):
    with pytest.raises(PredicateError, match=f"predicate wrong returns {what}: a row matches or it does not"):
        PredicateCall("wrong", lambda _: returned, ("A.x",))(pa.array([1, 2, 3]))


def images(name: str, lengths: list[int]) -> SortedRows:
    ends = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    pixels = pa.ListArray.from_arrays(ends, pa.array(np.zeros(sum(lengths), np.uint8)))
    return SortedRows(
        np.arange(len(lengths), dtype=np.uint64) << np.uint64(50), pa.record_batch({f"{name}.img": pixels})
    )


@pytest.mark.parametrize("lengths", [[5_000] * 60, [*[1] * 59, 300_000]], ids=["alike", "one is long"])
@pytest.mark.parametrize("kind", [pa.list_(pa.uint8()), pa.binary()], ids=str)
def test_a_function_is_given_no_more_bytes_at_once_than_the_limit(lengths, kind, monkeypatch):
    monkeypatch.setattr(predicate, "ASKED_LIMIT_BYTES", 1 << 20)
    given = []

    def near(left, right):
        given.append(left.nbytes + right.nbytes)
        return pa.array(np.ones(len(left), np.bool_))

    sides = [images(name, lengths) for name in "AB"]
    if pa.types.is_binary(kind):
        sides = [
            SortedRows(each.hashes, pa.record_batch({name: pa.array([b"x" * n for n in lengths])}))
            for name, each in zip(("A.img", "B.img"), sides, strict=True)
        ]
    call = PredicateCall("near", near, ("A.img", "B.img"))
    task = RingTask(1, (Condition("call", ("A.img", "B.img"), name="near"),), (None, None), functions={"near": call})
    pairs = sum(each.count for each in task.meet([RingSide((RunView(sides[0]),)), RingSide((), (sides[1],))]))
    assert pairs == len(lengths) ** 2
    assert max(given) <= (1 << 20) + 60 * 60 * 8  # and a few bytes a pair for where its values begin


def test_what_pairs_of_images_take_does_not_follow_their_number():
    pool, before = pa.proxy_memory_pool(pa.default_memory_pool()), pa.default_memory_pool()
    sides = [images(name, [5_000] * 250) for name in "AB"]
    call = PredicateCall("never", lambda left, _: pa.array(np.zeros(len(left), np.bool_)), ("A.img", "B.img"))
    task = RingTask(1, (Condition("call", ("A.img", "B.img"), name="never"),), (None, None), functions={"never": call})
    pa.set_memory_pool(pool)
    try:
        assert not list(task.meet([RingSide((RunView(sides[0]),)), RingSide((), (sides[1],))]))
    finally:
        pa.set_memory_pool(before)
    assert pool.max_memory() < 5 * predicate.ASKED_LIMIT_BYTES  # all 62,500 pairs are 625 MB


def test_results_are_written_out_by_the_bytes_of_their_own_rows():
    sides = [images(name, [*[1] * 199, 1 << 20]) for name in "AB"]
    task = RingTask(1, (), (None, None))
    sizes = [
        sum(column.nbytes for column in each.columns().values())
        for each in task.meet([RingSide((RunView(sides[0]),)), RingSide((), (sides[1],))])
    ]
    assert len(sizes) > 90
    assert max(sizes) < 5 << 20
