"""How the outcomes of a benchmark are compared and told."""

import json

import pytest
from tests.lab.outcomes import outcomes

from watersmeet.lab.bench import threeway
from watersmeet.lab.bench.outcome import Outcome
from watersmeet.lab.bench.report import Comparison, Count, Report, Section, Target
from watersmeet.lab.bench.suite import gain, share


def report(comparisons: list[Comparison], counts: list[Count]) -> Report:
    section = Section("threeway", "three streams", tuple(outcomes().values()), tuple(comparisons), tuple(counts))
    return Report((section,), {"python": "3"})


def test_a_gain_says_how_many_times_less_ours_is():
    assert gain("time", 2, 10, "s", at_least=5).ratio == 5
    assert gain("time", 2, 10, "s", at_least=5).met
    assert not gain("time", 2, 9, "s", at_least=5).met


def test_a_share_says_what_part_of_theirs_ours_is():
    assert share("time", 5, 4, "s", at_most=1.25).ratio == 1.25
    assert share("time", 5, 4, "s", at_most=1.25).met
    assert not share("time", 5.1, 4, "s", at_most=1.25).met


def test_a_comparison_without_a_target_is_neither_met_nor_missed():
    assert gain("time", 2, 1, "s").met is None
    assert report([gain("time", 2, 1, "s")], []).ok


def test_nothing_to_divide_by_is_no_error():
    assert gain("time", 0, 1, "s", at_least=4).met
    assert not share("time", 1, 0, "s", at_most=4).met


@pytest.mark.parametrize(
    ("found", "expected", "right"),
    [
        ({"a": 3, "b": 3}, None, True),
        ({"a": 3, "b": 3}, 3, True),
        ({"a": 3, "b": 4}, None, False),
        ({"a": 3, "b": 3}, 4, False),
        ({}, None, False),
    ],
)
def test_counts_are_right_where_all_agree_and_are_as_expected(found, expected, right):
    assert Count("results", found, expected).right is right
    assert report([], [Count("results", found, expected)]).ok is right


def test_one_missing_result_is_found():
    lost = Outcome("watersmeet", 10.0, 150_000 * 6**3 - 1, (1000.0, 2000.0), state_bytes=100)
    comparisons, counts = threeway.judge(threeway.SUITE.full, outcomes(ours=lost))
    found = report(comparisons, counts)
    assert not found.ok
    assert "WRONG: watersmeet 32,399,999" in found.text()
    assert "expected 32,400,000" in found.text()


def test_the_report_shows_ratio_target_and_verdict():
    text = report([gain("whole run", 10, 50, "s", at_least=4)], [Count("results", {"a": 7, "b": 7})]).text()
    [line] = [line for line in text.splitlines() if "whole run " in line and "at least" in line]
    assert line.split() == ["whole", "run", "10.0", "s", "50.0", "s", "5.00", "at", "least", "4", "yes"]
    assert text.endswith("All targets were met, and all counts are right.")
    assert report([gain("whole run", 10, 30, "s", at_least=4)], []).text().endswith("were met, or counts differ.")


def test_the_report_as_json_has_ratios_and_verdicts():
    found = json.loads(report([gain("whole run", 10, 50, "s", at_least=4)], [Count("results", {"a": 7})]).to_json())
    assert found["ok"] is True
    [suite] = found["suites"]
    assert suite["comparisons"][0]["ratio"] == 5
    assert suite["comparisons"][0]["met"] is True
    assert suite["counts"][0]["right"] is True
    assert suite["outcomes"][0]["whole_s"] == 10


def test_sizes_that_are_too_small_to_judge_have_no_targets():
    section = report([gain("whole run", 10, 30, "s", at_least=4)], [Count("results", {"a": 7})]).sections[0]
    assert section.without_targets().ok
    assert not section.ok


def test_a_target_reads_like_a_sentence():
    assert str(Target(4, at_least=True)) == "at least 4"
    assert str(Target(2 / 3, at_least=False)) == "at most 0.667"


def test_results_that_never_reach_spark_are_not_taken_for_results_that_do():
    comparisons, _ = threeway.judge(threeway.SUITE.full, outcomes())
    ratios = {each.what: each.ratio for each in comparisons}
    assert ratios["whole run, Spark in-heap"] == 5
    assert ratios["whole run as rows, Spark in-heap"] == pytest.approx(50 / 15)
    assert "drops results where they are made" in report(comparisons, []).text()
