import itertools
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from watersmeet.lab import generator
from watersmeet.lab.generator import JoinColumn, five_way, generate, modulo, spread_ratios, three_way


def rng(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.parametrize(("tuple_range", "ratio"), [(30_000, 1), (30_000, 3), (6_000, 2), (50, 5)])
def test_a_value_appears_exactly_r_times_in_every_k_tuples(tuple_range, ratio):
    chunks = JoinColumn(tuple_range, [ratio]).chunks(rng(), tuple_range // 10)
    for _ in range(3):
        drawn = np.concatenate(list(itertools.islice(chunks, 10)))
        values, times = np.unique(drawn, return_counts=True)
        assert set(times.tolist()) == {ratio}
        assert len(values) == tuple_range // ratio


def test_a_partition_has_its_own_ratio_and_the_same_share_of_the_tuples():
    column = JoinColumn(30_000, (4, 2, 1))
    for drawn in itertools.islice(column.ranges(rng()), 3):
        values, times = np.unique(drawn, return_counts=True)
        assert np.array_equal(times, np.resize([4, 2, 1], 300)[values % 300])
        share = np.bincount(drawn % 300, minlength=300)
        assert share.min() >= 96
        assert share.max() <= 104
        assert len(drawn) == column.range_rows == pytest.approx(30_000, abs=2)


def test_a_broken_ratio_is_rounded_up_or_down_with_itself_as_the_mean():
    column = JoinColumn(3_000, [1.25], partitions=10)
    ranges = list(itertools.islice(column.ranges(rng()), 200))
    counts = np.array([np.bincount(drawn, minlength=column.values.max() + 1)[column.values] for drawn in ranges])
    assert set(np.unique(counts)) == {1, 2}
    assert counts.mean(axis=0) == pytest.approx(1.25, abs=0.15)
    assert {len(drawn) for drawn in ranges} == {3_000}


def test_a_ratio_below_one_leaves_values_out_of_some_ranges():
    drawn = next(JoinColumn(1_000, [0.5], partitions=10).ranges(rng()))
    assert len(drawn) == len(np.unique(drawn)) == 1_000
    assert drawn.max() >= 1_000


def test_the_order_within_a_range_is_random():
    first, second = itertools.islice(JoinColumn(3_000, [3]).ranges(rng()), 2)
    assert np.array_equal(np.sort(first), np.sort(second))
    assert not np.array_equal(first, second)
    assert abs(np.corrcoef(first, np.arange(len(first)))[0, 1]) < 0.1


def test_pieces_of_any_length_make_the_same_sequence():
    column = JoinColumn(100, [2], partitions=10)
    pieces = [
        np.concatenate(list(itertools.islice(column.chunks(rng(), rows), 700 // rows))) for rows in (1, 7, 100, 350)
    ]
    assert all(np.array_equal(pieces[0], piece) for piece in pieces)


def test_values_lie_in_the_partitions_that_another_function_gives():
    def hashed(values, partitions):
        return (values * 2_654_435_761 % 2**32) % partitions

    column = JoinColumn(3_000, (3, 1), partitions=30, partition_of=hashed)
    values, times = np.unique(next(column.ranges(rng())), return_counts=True)
    assert np.array_equal(times, np.resize([3, 1], 30)[hashed(values, 30)])
    assert len(np.unique(hashed(values, 30))) == 30


def test_a_function_that_never_uses_a_partition_is_found_out(monkeypatch):
    monkeypatch.setattr(generator, "CANDIDATES_MAX", 10_000)
    column = JoinColumn(100, [1], partitions=10, partition_of=lambda values, _: values % 9)
    with pytest.raises(ValueError, match="short of values among the first 10000 integers"):
        next(column.ranges(rng()))


@pytest.mark.parametrize("ratios", [[], [0], [2, -1]])
def test_ratios_must_be_above_zero(ratios):
    with pytest.raises(ValueError, match="all above 0"):
        JoinColumn(100, ratios)


def test_a_range_must_hold_a_value_as_often_as_its_ratio_says():
    with pytest.raises(ValueError, match="cannot hold a value 3 times"):
        JoinColumn(2, [3])


def test_spread_ratios_keep_their_mean():
    ratios = spread_ratios(3, 0.5, seed=4)
    assert np.mean(ratios) == pytest.approx(3)
    assert (min(ratios), max(ratios)) == pytest.approx((1.5, 4.5))
    assert list(ratios) != sorted(ratios)
    assert set(spread_ratios(2, 0)) == {2.0}
    with pytest.raises(ValueError, match="below 1"):
        spread_ratios(2, 1)


def concatenated(tables: list[pa.Table], column: str) -> list[int]:
    return pa.concat_tables(tables)[column].to_pylist()


def test_the_five_streams_join_as_often_as_their_ratios_say():
    streams = five_way(seed=5, epochs=6, rows_per_epoch=500, tuple_range=3_000, ratios=(3, 2, 1))
    columns = {"A": "a1", "B": "b1", "C": "c1"}
    first, second, third = (Counter(concatenated(streams[name], column)) for name, column in columns.items())
    assert set(first.values()) == set(second.values()) == set(third.values()) == {3}
    assert first.keys() == second.keys() == third.keys()
    assert sum(first[key] * second[key] * third[key] for key in first) == 3_000 * 9
    for (left, c2), (right, d1), ratio in [(("C", "c2"), ("D", "d1"), 2), (("D", "d2"), ("E", "e1"), 1)]:
        one, other = Counter(concatenated(streams[left], c2)), Counter(concatenated(streams[right], d1))
        assert one == other
        assert set(one.values()) == {ratio}


def test_the_second_range_of_a_three_way_join_yields_four_times_as_many_results_per_tuple():
    streams = three_way(seed=5, epochs=2, rows_per_epoch=3_000, tuple_range=3_000, ratio=2)
    results = []
    for epochs in (1, 2):
        counts = [Counter(concatenated(streams[name][:epochs], f"{name.lower()}1")) for name in "ABC"]
        results.append(sum(counts[0][key] * counts[1][key] * counts[2][key] for key in counts[0]))
    assert results == [3_000 * 4, 2 * 3_000 * 16]


def test_the_same_seed_gives_the_same_tables_and_another_one_others():
    make = {"epochs": 3, "rows_per_epoch": 400, "tuple_range": 900, "spread": 0.5}
    one, again, other = five_way(seed=1, **make), five_way(seed=1, **make), five_way(seed=2, **make)
    assert one == again
    assert one["A"] != other["A"]


def test_streams_of_one_join_draw_independently():
    streams = five_way(seed=1, epochs=1, rows_per_epoch=900, tuple_range=900)
    assert concatenated(streams["A"], "a1") != concatenated(streams["B"], "b1")


def test_every_epoch_has_its_rows_and_columns():
    streams = five_way(seed=1, epochs=3, rows_per_epoch=70, tuple_range=900, payload_bytes=20)
    assert list(streams) == ["A", "B", "C", "D", "E"]
    for name, tables in streams.items():
        lower = name.lower()
        assert [table.num_rows for table in tables] == [70, 70, 70]
        fields = [(f"{lower}1", pa.int64()), (f"{lower}2", pa.int64()), ("payload", pa.string())]
        assert all(table.schema == pa.schema(fields) for table in tables)
        assert all(table.validate(full=True) is None for table in tables)
        assert concatenated(tables, "payload") == [f"{row:020}" for row in range(210)]
    assert concatenated(streams["A"], "a2") == list(range(210))


def test_epochs_without_rows_and_no_epochs_at_all_can_be_made():
    assert five_way(seed=1, epochs=2, rows_per_epoch=0, tuple_range=30)["A"][1].num_rows == 0
    assert five_way(seed=1, epochs=0, rows_per_epoch=5, tuple_range=30)["E"] == []


def test_epochs_are_made_one_at_a_time():
    shapes = {"A": {"a1": JoinColumn(100, [1], partitions=5, partition_of=modulo)}}
    endless = generate(shapes, seed=1, epochs=10**12, rows_per_epoch=10)
    assert [next(endless)["A"].num_rows for _ in range(3)] == [10, 10, 10]
