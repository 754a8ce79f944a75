"""The benchmarks with skew: their data, and what is asked of their outcomes."""

import numpy as np
import pytest
from tests.lab.outcomes import results_by_duckdb, run_of, unmet

from watersmeet.api.options import DEFAULT_GROUPS
from watersmeet.lab.bench import level, skew
from watersmeet.lab.bench.run import run_bench
from watersmeet.lab.bench.suite import Size
from watersmeet.lab.bench.suites import choose
from watersmeet.lab.grouping import engine_group

SIZE = Size(epochs=4, rows=300_000, heap="1g")
BY_NAME = {suite.name.removeprefix("skew-"): suite for suite in skew.SUITES}


def shares(suite, epoch=0) -> np.ndarray:
    """The part of A's rows that each of the four sites has of an epoch."""
    groups = engine_group(suite.tables(SIZE)["A"][epoch]["k"].to_numpy(), DEFAULT_GROUPS)
    return np.bincount(groups * skew.SITES // DEFAULT_GROUPS, minlength=skew.SITES) / SIZE.rows


def test_all_suites_are_run_by_the_name_of_the_family():
    assert choose(["skew"]) == [*skew.SUITES, level.SUITE]


def test_rows_are_as_uneven_as_the_names_say():
    assert shares(BY_NAME["uniform"]).max() < 0.28
    assert shares(BY_NAME["80-20"])[0] == pytest.approx(0.8 + 0.2 / 4 / 4, abs=0.02)
    assert [shares(BY_NAME["rotating"], epoch).argmax() for epoch in range(4)] == [0, 1, 2, 3]
    assert shares(BY_NAME["bursts"], 2).max() < 0.28
    assert shares(BY_NAME["bursts"], 3)[0] > 0.7
    keys = BY_NAME["zipf"].tables(SIZE)["A"][0]["k"].to_numpy()
    first, second = (np.mean(keys == key) for key in (0, 1))
    assert first / second == pytest.approx(2**1.2, rel=0.15)


@pytest.mark.parametrize("suite", skew.SUITES, ids=BY_NAME)
def test_the_number_of_results_is_known(suite, tmp_path):
    assert results_by_duckdb(suite, slice(None), tmp_path) == skew.results_of(suite.quick)


def outcomes(ours_ms, still_ms, rows=(30, 10, 0, 0), spark_s=100.0, whole_s=(20.0, 30.0)):
    """Two epochs of two contenders of ours and one of Spark's; the first epoch does not count."""
    results, sites = skew.results_of(SIZE), {"site_rows": (rows,) * 2}
    made = run_of("watersmeet", whole_s[0], results, (9.0, 9.0), site_ms=((9.0,) * 4, ours_ms), **sites)
    made |= run_of("watersmeet-still", whole_s[1], results, (9.0, 9.0), site_ms=((9.0,) * 4, still_ms), **sites)
    return made | run_of("spark", spark_s, results, (9.0, 9.0))


def test_moves_must_pay_where_a_site_has_twice_its_share():
    good = outcomes((4.0, 4.0, 4.0, 4.0), (6.0, 3.0, 3.0, 3.0))
    comparisons, [count] = skew.judge(SIZE, good)
    assert (unmet(comparisons), count.right) == ([], True)
    assert comparisons[0].ratio == 1.5
    poor = outcomes((4.1, 4.0, 4.0, 4.0), (6.0, 3.0, 3.0, 3.0), whole_s=(20.0, 29.0))
    assert unmet(skew.judge(SIZE, poor)[0]) == ["slowest site, without moves", "whole run, without moves"]
    level = outcomes((4.1,) * 4, (6.0,) * 4, rows=(10, 10, 10, 8))
    assert all(each.target is None for each in skew.judge(SIZE, level)[0])
    assert all(each.target for each in skew.judge(SIZE, level, slow={0: 3.0})[0][:4:3])


def test_sparks_own_join_must_take_five_times_as_long():
    made = outcomes((4.0,) * 4, (4.0,) * 4, spark_s=99.0)
    assert unmet(skew.judge_spark(SIZE, made)[0]) == ["whole run, Spark in-heap"]
    assert unmet(skew.judge_spark(SIZE, outcomes((4.0,) * 4, (4.0,) * 4))[0]) == []


def test_watching_must_not_cost_anything_where_all_is_uniform():
    assert unmet(skew.judge_uniform(SIZE, outcomes((4.1,) * 4, (4.0,) * 4, whole_s=(30.9, 30.0)))[0]) == []
    slower = outcomes((4.2,) * 4, (4.0,) * 4, whole_s=(31.0, 30.0))
    assert unmet(skew.judge_uniform(SIZE, slower)[0]) == ["slowest site, without moves", "whole run, without moves"]


def from_one_site(epoch_ms, late, results=5):
    """A run of twelve epochs whose groups move in the fourth and the fifth."""
    rows = ((20, 0),) * 4 + ((12, 8),) * 7 + (late,)
    told = {"site_rows": rows, "move_epochs": (3, 4), "epoch_results": (results,) * 12}
    return run_of("watersmeet-one-site", 9.0, level.results_of(LEVEL_SIZE), epoch_ms, **told)


LEVEL_SIZE = Size(epochs=12, rows=100, heap="1g")
EVEN = (900.0, 100.0, 100.0, 100.0, 130.0, 130.0, *(60.0,) * 6)


def test_sites_must_be_level_soon_without_a_long_epoch_or_a_silent_one():
    comparisons, counts = level.judge(LEVEL_SIZE, from_one_site(EVEN, (11, 9)))
    assert unmet(comparisons) == []
    assert all(count.right for count in counts)
    slow = from_one_site((*EVEN[:5], 131.0, *EVEN[6:]), (13, 7))
    assert [each.split(",")[0] for each in unmet(level.judge(LEVEL_SIZE, slow)[0])] == [
        "rows at the busier site 10 epochs later",
        "longest epoch with moves",
    ]
    silent = level.judge(LEVEL_SIZE, from_one_site(EVEN, (11, 9), results=0))[1]
    assert [count.right for count in silent] == [True, False]


def test_the_number_of_results_from_one_site_is_known(tmp_path):
    assert results_by_duckdb(level.SUITE, slice(None), tmp_path) == level.results_of(level.SUITE.quick)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ["skew-80-20", "skew-slow"])
def test_all_contenders_agree(name):
    found = run_bench([name], quick=True, progress=print)
    assert found.ok, found.text()
    by_name = {outcome.contender: outcome for outcome in found.sections[0].outcomes}
    assert by_name["watersmeet-still"].moves == 0
    assert {len(times) for times in by_name["watersmeet"].site_ms} == {skew.SITES}
