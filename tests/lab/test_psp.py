"""The experiments of PSP, and the parts of `bench ring` that need no Spark."""

import json

import numpy as np
import pytest

from watersmeet.lab.reproduce.experiments import EXPERIMENTS
from watersmeet.lab.reproduce.run import reproduce
from watersmeet.lab.ring.bench import run_sites
from watersmeet.lab.simulator.rings import RingWork, atr, ctr, psp

WORK = RingWork(seconds=20)
NAMES = [f"psp-8{letter}" for letter in "abcdefgh"]


def test_a_simulated_ring_holds_each_tuple_once_and_shares_its_work():
    few, many = psp(WORK, 2), psp(WORK, 8)
    assert few.held == many.held == pytest.approx(3 * WORK.rate * WORK.window_s, rel=0.1)
    assert many.response_s < few.response_s


def test_simulated_copies_are_held():
    once = psp(WORK, 8).held
    assert ctr(WORK, 8, 4).held == pytest.approx(4 * once)
    assert once < atr(WORK, 8, 50.0).held < atr(WORK, 8, 10.0).held < 3 * once


def test_a_single_node_is_the_same_by_all_schemes():
    quick = RingWork(seconds=20, selectivity=0.01)
    ring, aligned, coordinated = psp(quick, 1), atr(quick, 1, 50.0), ctr(quick, 1, 1)
    assert np.allclose(ring.took_s, coordinated.took_s)
    assert np.all(aligned.took_s <= ring.took_s + 1e-9)  # it hands nothing on


@pytest.mark.long
def test_the_experiments_run_and_leave_their_files(tmp_path):
    report = reproduce(None, {name: tmp_path / name for name in NAMES}, print, quick=True)
    assert [each.name for each in report.experiments] == NAMES
    for name in NAMES:
        told = json.loads((tmp_path / name / "report.json").read_text())
        assert told["exact"]
        assert EXPERIMENTS[name].source == told["source"]
        assert (tmp_path / name / f"{name}.svg").exists()


@pytest.mark.long
def test_all_sites_and_schemes_give_the_same_results():
    sections = run_sites(True, print)  # noqa: FBT003
    assert all(count.right for section in sections for count in section.counts)
    short, schemes = sections[1], sections[-1]
    assert all(each.met for each in short.comparisons if each.target), "rows do not follow the number of sites"
    counted = [each for each in schemes.comparisons if each.unit in ("rows", "pairs")]
    assert all(each.target for each in counted), "the paper's verdicts are judged"
    held = {each.what: each.ratio for each in schemes.comparisons}
    assert held["rows held, by ctr"] == pytest.approx(0.5)
    assert held["rows held, by atr"] < 0.6
    assert held["rows that sites look at, by atr"] > 1
