from dataclasses import replace

import numpy as np
import pytest

from watersmeet.adapt.statistics import AGEING, NEVER, SETTLED_EPOCHS, Observation, Statistics, exposure
from watersmeet.state.stored import from_json, to_json
from watersmeet.state.vectors import Vector


def observation(arrived, local=None, final=None, inter=None, by_input=None):
    given = (arrived, local, final, inter)
    counts = (np.array(values or [0.0] * len(arrived), dtype=np.float64) for values in given)
    return Observation(*counts, None if by_input is None else np.array(by_input, dtype=np.float64))


def test_a_cold_operator_knows_nothing():
    cold = Statistics.cold(3, inputs=2)
    assert cold.size_bytes.tolist() == [0, 0, 0]
    assert cold.last_use.tolist() == [NEVER] * 3
    assert cold.since_spill.tolist() == [np.inf] * 3


def test_counts_of_a_generation_add_up():
    known = Statistics.cold(2).after(observation([10, 0], [1, 0], [2, 0], [3, 0]), epoch=0)
    known = known.after(observation([30, 5], [4, 0], [5, 0], [6, 0]), epoch=1)
    assert known.size_bytes.tolist() == [40, 5]
    assert known.local_output.tolist() == [5, 0]
    assert known.global_output.tolist() == [7, 0]
    assert known.inter_bytes.tolist() == [9, 0]


def test_a_group_is_used_where_rows_arrive_or_results_are_made():
    known = Statistics.cold(3).after(
        Observation(np.array([8.0, 0, 0]), np.array([0, 2.0, 0]), np.zeros(3), np.zeros(3)), epoch=4
    )
    assert known.last_use.tolist() == [4, 4, NEVER]


def test_a_spill_ends_the_generation_and_keeps_what_the_group_is_like():
    known = Statistics.cold(2).after(observation([10, 10], [4, 4], [2, 2], [3, 3]), epoch=0)
    spilled = known.without(np.array([True, False]))
    assert spilled.size_bytes.tolist() == [0, 10]
    assert spilled.local_output.tolist() == [0, 4]
    assert spilled.global_output.tolist() == [0, 2]
    assert spilled.inter_bytes.tolist() == [0, 3]
    assert spilled.since_spill.tolist() == [0, np.inf]
    assert spilled.aged_local.tolist() == known.aged_local.tolist()
    assert spilled.aged_exposure.tolist() == known.aged_exposure.tolist()


def test_results_for_an_exposure_do_not_depend_on_what_was_spilled():
    """Every fourth pair of KiB makes a result; the group is spilled in between, and yields the same."""
    known = Statistics.cold(1, inputs=2)
    live = 0
    for epoch in range(8):
        pairs = (live + 1) ** 2 - live**2
        seen = observation([2048.0], [pairs / 4], [0.0], [0.0], [[1024.0], [1024.0]])
        known, live = known.after(seen, epoch), live + 1
        if epoch == 4:
            known, live = known.without(np.array([True])), 0
    assert (known.aged_local / known.aged_exposure)[0] == pytest.approx(0.25)


def test_what_was_long_ago_counts_less():
    hot_then_cold = Statistics.cold(1).after(observation([1], [100], [0], [0]), epoch=0)
    for epoch in range(1, 30):
        hot_then_cold = hot_then_cold.after(observation([1], [0], [0], [0]), epoch)
    assert hot_then_cold.local_output[0] == 100
    assert hot_then_cold.aged_local[0] == pytest.approx(100 * AGEING**29)


def test_arrivals_are_a_mean_from_the_first_epoch_on():
    known = Statistics.cold(1, inputs=2)
    for epoch in range(5):
        known = known.after(observation([40], [0], [0], [0], [[30], [10]]), epoch)
        assert known.arrival_by_input.ravel().tolist() == pytest.approx([30, 10])


def test_results_of_a_generation_that_was_spilled_are_not_credited_to_the_next():
    """After a spill, its intermediate results live on downstream and go on yielding."""
    known = Statistics.cold(1).after(observation([10], [5], [5], [0]), epoch=0).without(np.array([True]))
    late = observation([10], [1], [50], [0])
    for epoch in range(SETTLED_EPOCHS + 1):
        known = known.after(late, epoch)
    assert known.settled_global[0] / known.settled_local[0] == pytest.approx(1)
    assert known.global_output[0] == 50 * (SETTLED_EPOCHS + 1)
    assert known.after(late, 20).settled_global[0] > 50


def test_statistics_survive_the_manifest():
    rng = np.random.default_rng(1)
    known = Statistics.cold(4, inputs=3)
    for epoch in range(3):
        seen = Observation(*(rng.random(4) * 1e6 for _ in range(4)), rng.random((3, 4)) * 1e6)
        known = known.after(seen, epoch)
    known = known.without(np.array([True, False, False, True]))
    read = Statistics.restored(from_json(to_json(known.stored()), dict[str, Vector]), groups=4)
    assert read.inputs == 3
    for name, values in vars(known).items():
        np.testing.assert_allclose(getattr(read, name), values, rtol=1e-6)


def test_stored_numbers_are_short():
    known = Statistics.cold(1000).after(observation([1 / 3 * 1e9] * 1000, [2 / 3] * 1000), epoch=0)
    stored = known.stored()
    assert stored["aged_local"].array.dtype == np.float32
    assert stored["aged_local"].array.tolist() == pytest.approx([2 / 3] * 1000)
    rng = np.random.default_rng(1)
    drawn = Observation(*(rng.random(1000) * 1e9 for _ in range(4)))
    sizes = [len(each.text) for each in Statistics.cold(1000).after(drawn, epoch=0).stored().values()]
    assert max(sizes) < 2 * 1000 * 6, "four bytes a number, and a third for the text"


def test_statistics_of_another_number_of_groups_start_cold():
    stored = Statistics.cold(2).after(observation([1, 1]), epoch=0).stored()
    assert Statistics.restored(stored, groups=3).size_bytes.tolist() == [0, 0, 0]


def test_numbers_of_epochs_are_stored_as_they_are():
    seen = Observation(np.array([80.0]), np.array([3.0]), np.array([2.0]), np.array([9.0]))
    known = replace(Statistics.cold(1), epochs=np.array([123456.0])).after(seen, epoch=123456)
    known = known.without(np.array([True]))
    again = Statistics.restored(known.stored(), groups=1)
    assert (again.last_use[0], again.spilled[0], again.epochs[0]) == (123456.0, 123457.0, 123457.0)


def test_numbers_beyond_all_measure_are_stored_as_numbers():
    rows = np.full((64, 2), 1e8)
    seen = Observation(rows.sum(axis=0), np.array([1e300, 1e-320]), np.array([np.inf, 0.0]), np.zeros(2), rows)
    known = Statistics.cold(2, inputs=64).after(seen, epoch=1).after(seen, epoch=2)
    assert all(np.isfinite(values.array).all() for values in known.stored().values())
    assert np.isfinite(exposure(rows)).all()
