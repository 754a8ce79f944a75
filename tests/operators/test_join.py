"""The kernels, alone: every combination with a new row, once, however keys collide and batches are cut."""

import itertools
from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.examples import examples

from watersmeet.model.ids import OperatorId
from watersmeet.operators.join import probe as probes
from watersmeet.operators.join import task as joins
from watersmeet.operators.join.generations import Piece, parts
from watersmeet.operators.join.probe import RunView, Side
from watersmeet.operators.join.task import JoinTask
from watersmeet.operators.join.trace import counts_in, with_groups
from watersmeet.operators.kinds import TaskOptions, task_of
from watersmeet.operators.results import Results
from watersmeet.operators.spec import InputSpec, OperatorSpec
from watersmeet.state.rows import SortedRows, merge_rows, sort_rows

JOIN = OperatorId("join1")
KEYS = st.lists(st.integers(0, 5), max_size=5)


def piece(number, keys, first, *, collide):
    hashes = np.array([key % 2 if collide else key * 0x9E3779B97F4A7C15 % 2**64 for key in keys], np.uint64)
    ids = pa.array(range(first, first + len(keys)), pa.int64())
    return sort_rows(hashes, pa.record_batch({f"{number}.k": pa.array(keys, pa.int64()), f"{number}.id": ids}))


def numbers(batch):
    """Results as tuples of row numbers."""
    columns = batch.columns()
    return zip(*(columns[f"{n}.id"].to_pylist() for n in range(len(batch.rows))), strict=True)


def produced(epochs, *, collide, merge=(), **options):
    """All results of joining epoch by epoch, as tuples of row numbers."""
    width = len(epochs[0])
    names = tuple((f"{number}.k",) for number in range(width)) if collide else None
    join, runs, seen, got = JoinTask(8, names, **options), [[] for _ in range(width)], [0] * width, Counter()
    for epoch, inputs in enumerate(epochs):
        deltas = [piece(n, keys, seen[n], collide=collide) for n, keys in enumerate(inputs)]
        sides = [Side(tuple(map(RunView, runs[n])), deltas[n]) for n in range(width)]
        for batch in join.produce(sides):
            got.update(numbers(batch))
        for n, delta in enumerate(deltas):
            runs[n].append(delta)
            seen[n] += len(delta)
            if epoch in merge:
                runs[n] = [merge_rows(runs[n])]
    assert int(join.output.by_group.sum()) == got.total()
    return got


def combinations(epochs):
    rows = [[key for inputs in epochs for key in inputs[n]] for n in range(len(epochs[0]))]
    every = itertools.product(*(range(len(keys)) for keys in rows))
    return Counter(c for c in every if len({rows[n][row] for n, row in enumerate(c)}) == 1)


@st.composite
def epochs(draw):
    width = draw(st.integers(2, 4))
    return draw(st.lists(st.tuples(*[KEYS] * width), min_size=1, max_size=4))


@given(epochs=epochs(), collide=st.booleans(), merge=st.sets(st.integers(0, 3)), limit=st.sampled_from([1, 3, 1000]))
@settings(max_examples=examples(600), deadline=None)
def test_every_combination_comes_once(epochs, collide, merge, limit):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(joins, "BATCH_LIMIT_ROWS", limit)
        patch.setattr(joins, "MATCH_LIMIT_BYTES", limit * 40)
        assert produced(epochs, collide=collide, merge=merge) == combinations(epochs)


def test_a_kernel_that_never_joins_new_rows_with_new_rows_is_caught():
    pair = [([1, 2], [2, 3])]
    assert produced(pair, collide=False) == combinations(pair)
    assert produced(pair, collide=False, forget_pairs=True) != combinations(pair)


def test_a_row_that_matches_very_many_is_written_out_in_bounded_batches():
    many = piece(1, [1] * 300_000, 0, collide=False)
    one = piece(0, [1, 1], 0, collide=False)
    batches = list(JoinTask(8).produce([Side((), one), Side((RunView(many),), many.slice(0, 0))]))
    assert sum(batch.count for batch in batches) == 600_000
    assert max(batch.count for batch in batches) <= joins.BATCH_LIMIT_ROWS


def test_groups_of_a_run_that_do_not_count_are_not_probed():
    old, new = piece(1, [1, 2, 3], 0, collide=False), piece(0, [1, 2, 3], 0, collide=False)
    none = RunView(old, np.zeros(8, dtype=np.bool_))
    assert not list(JoinTask(8).produce([Side((), new), Side((none,), old.slice(0, 0))]))


def test_the_input_that_drops_most_keys_is_probed_first(monkeypatch):
    monkeypatch.setattr(probes, "SAMPLE_FROM", 10)
    keys = list(range(2000))
    big, selective = piece(1, keys, 0, collide=False), piece(2, [*range(5), *range(9000, 12000)], 0, collide=False)
    delta = piece(0, keys, 0, collide=False)
    sides = [Side((), delta), Side((RunView(big),), big.slice(0, 0)), Side((RunView(selective),), big.slice(0, 0))]
    assert probes._order(sides, np.unique(delta.hashes))[0] == 2  # noqa: SLF001


def missing(generations, *, collide, split=1 << 30):
    """What is left over when every generation was joined by itself, as tuples of row numbers."""
    width = len(generations[0])
    names = tuple((f"{number}.k",) for number in range(width)) if collide else None
    seen, inputs = [0] * width, [[] for _ in range(width)]
    for number, keys_by_input in enumerate(generations):
        for n, keys in enumerate(keys_by_input):
            half = len(keys) // 2
            for part in (keys[:half], keys[half:]):
                inputs[n].append(Piece(number, piece(n, part, seen[n], collide=collide)))
                seen[n] += len(part)
    join, got = JoinTask(8, names), Counter()
    for batch in join.clean(inputs, split):
        got.update(numbers(batch))
    assert int(join.output.by_group.sum()) == got.total()
    return got


def across(generations):
    """All combinations but those of one generation."""
    rows = [[g for g, inputs in enumerate(generations) for _ in inputs[n]] for n in range(len(generations[0]))]
    return Counter(c for c in combinations(generations) if len({rows[n][row] for n, row in enumerate(c)}) > 1)


@given(generations=epochs(), collide=st.booleans(), split=st.sampled_from([1, 100, 1 << 30]))
@settings(max_examples=examples(500), deadline=None)
def test_cleanup_gives_every_result_across_generations_once(generations, collide, split):
    assert missing(generations, collide=collide, split=split) == across(generations)


def test_cleanup_is_exact_where_keys_differ_in_how_many_generations_they_have():
    generations = [
        [[k for k in range(12) if g % (k + 1) == 0], [k for k in range(12) if g % (12 - k) == 0]] for g in range(20)
    ]
    assert missing(generations, collide=False) == across(generations)
    assert missing(generations, collide=True, split=1) == across(generations)


def test_one_key_in_many_generations_does_not_make_the_tables_of_all_others_high():
    """A table of counts has about as many entries as there are rows, however the generations are spread."""
    cold, hot, many = 20_000, -1, 400
    inputs = [
        [Piece(g, piece(n, [hot, *(range(cold) if g < 2 else ())], 0, collide=False)) for g in range(many)]
        for n in range(2)
    ]
    found = list(parts(inputs, 1 << 30))
    assert sum(len(part.keys) for part in found) == cold + 1
    rows = sum(len(each.rows) for each in inputs[0])
    assert sum(each.counts.size for part in found for each in part.inputs) <= 2 * 2 * rows


@given(epochs=epochs())
@settings(max_examples=examples(300), deadline=None)
def test_results_are_traced_to_the_groups_their_rows_came_through(epochs):
    keys = [key for inputs in epochs for key in inputs[0]]
    rows = piece(0, keys, 0, collide=False)
    tagged = SortedRows(rows.hashes, with_groups(rows.rows, "#below.group", np.arange(len(rows)) % 8))
    others = [piece(n, [k for inputs in epochs for k in inputs[n]], 0, collide=False) for n in range(1, len(epochs[0]))]
    join, counted = JoinTask(8, group_column="#own.group", traced=("#below.group",)), Counter()
    for batch in join.produce([Side((), tagged), *(Side((), other) for other in others)]):
        columns = pa.record_batch(batch.columns())
        counted.update({g: int(n) for g, n in enumerate(counts_in(columns, "#below.group", 8)) if n})
        assert "#own.group" in columns.schema.names
    assert Counter({g: int(n) for g, n in enumerate(join.output.traced["#below.group"]) if n}) == counted


def test_results_are_columns_of_the_rows_they_are_made_of():
    rows = (pa.record_batch({"A.x": [10, None, 30]}), pa.record_batch({"B.y": ["a", "b"]}))
    results = Results(rows, (np.array([2, 0, 1]), np.array([1, 1, 0])))
    columns = {name: column.to_pylist() for name, column in results.columns().items()}
    assert columns == {"A.x": [30, 10, None], "B.y": ["b", "b", "a"]}


def test_an_operator_has_the_task_of_its_kind():
    inputs = tuple(InputSpec(n, JOIN, name, 0, pa.schema({}), (f"{name}.k",)) for n, name in enumerate("AB"))
    spec = OperatorSpec(JOIN, inputs, hash_decides=False, output_tag=None, group_column="#g", traced=("#t",))
    task = task_of(spec, TaskOptions(8, forget_pairs=True))
    assert isinstance(task, JoinTask)
    assert (task.groups, task.key_columns, task.forget_pairs) == (8, (("A.k",), ("B.k",)), True)
    assert (task.group_column, list(task.output.traced)) == ("#g", ["#t"])
    assert task_of(replace(spec, hash_decides=True), TaskOptions(8)).key_columns is None
    with pytest.raises(KeyError, match="no such kind"):
        task_of(replace(spec, kind="no such kind"), TaskOptions(8))
