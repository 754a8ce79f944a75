"""The data of the benchmarks have the results that the suites expect."""

import pytest
from tests.lab.outcomes import results_by_duckdb

from watersmeet.lab.bench import burst, growth, restart, ring, windows
from watersmeet.lab.bench.contenders import EPOCHS
from watersmeet.lab.bench.outcome import Outcome
from watersmeet.lab.bench.suites import SUITES


@pytest.mark.parametrize("name", [name for name, suite in SUITES.items() if not suite.prepared_by])
def test_the_data_yield_what_the_suite_expects(name, tmp_path):
    suite = SUITES[name]
    results = results_by_duckdb(suite, slice(None), tmp_path)
    run = {
        contender: Outcome(contender, 1.0, results, (1.0,) * suite.quick.epochs, (suite.quick.rows,))
        for contender in suite.contenders
    }
    assert all(count.right for count in suite.judge(suite.quick, run)[1])


def test_the_data_of_a_restart_have_results_only_in_the_last_epoch_with_state_and_without(tmp_path):
    found = {name: results_by_duckdb(restart.SUITE, epochs, tmp_path / name) for name, epochs in EPOCHS.items()}
    assert found == {"all": 2 * 50, "but last": 0, "last": 50}


def test_every_epoch_of_growth_completes_as_many_results():
    size = growth.SUITE.quick
    tables = growth.tables(size)
    a, b = tables["A"], tables["B"]
    seen: set[int] = set()
    for epoch in range(size.epochs):
        assert sorted(a[epoch]["k"].to_pylist()) == sorted(b[epoch]["k"].to_pylist())
        assert not seen.intersection(a[epoch]["k"].to_pylist())
        seen |= set(a[epoch]["k"].to_pylist())
        assert seen.issuperset(tables["C"][epoch]["k"].to_pylist())


def test_the_last_epoch_of_a_burst_has_fifty_times_the_rows_of_the_one_before():
    tables = burst.tables(burst.SUITE.full)
    for epochs in tables.values():
        *small, last = [table.num_rows for table in epochs]
        assert set(small) == {last // 50}


@pytest.mark.parametrize("suite", [windows.INNER, windows.CHAIN], ids=["two", "three"])
def test_rows_of_windows_come_late_but_not_later_than_the_watermark_allows(suite):
    for tables in suite.tables(suite.quick).values():
        latest, late = None, 0
        for table in tables:
            times = table["ts"].cast("int64").to_numpy()
            if latest is not None:
                assert times.min() >= latest - windows.DELAY_S * 1_000_000
                late += int((times < latest).sum())
            latest = max(times.max(), latest or 0)
        assert late


def test_some_rows_of_windows_have_no_match_and_most_have_a_few(tmp_path):
    inner, left = (
        results_by_duckdb(suite, slice(None), tmp_path / suite.name) for suite in (windows.INNER, windows.LEFT)
    )
    size = windows.LEFT.quick
    rows = size.rows * (size.epochs - windows.LAST_EPOCHS)
    assert 0.1 * rows < left - inner < 0.5 * rows
    assert inner > rows


@pytest.mark.parametrize("suite", [ring.BAND_SUITE, ring.OVERLAP_SUITE], ids=["band", "overlap"])
def test_rows_of_rings_have_a_few_partners_each(suite, tmp_path):
    results = results_by_duckdb(suite, slice(None), tmp_path)
    rows = suite.quick.rows * suite.quick.epochs
    assert rows < results < 2 * ring.MATCHES * rows
