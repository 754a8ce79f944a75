import json
import sys
from itertools import product
from types import SimpleNamespace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cli.commands import NO_JAVA, succeed, succeed_json
from typer.testing import CliRunner

from watersmeet.cli.demo import command
from watersmeet.cli.demo.exact import results_after_each_epoch
from watersmeet.cli.demo.query import Sizes
from watersmeet.cli.demo.record import Record
from watersmeet.cli.epochs import Cleanup, Epoch, OperatorEpoch, Stop
from watersmeet.cli.main import app

PNG = b"\x89PNG"
ROWS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=4)


@pytest.mark.spark
@pytest.mark.processes
def test_the_demo_is_exact_and_leaves_a_picture_and_a_checkpoint(tmp_path):
    picture = tmp_path / "new" / "demo.png"
    arguments = ("--epochs", 2, "--rows", 100, "--seed", 7, "--sites", 2, "--picture", picture)
    told = succeed_json("demo", *arguments, env={"TMPDIR": str(tmp_path)})
    assert told["exact"]
    assert told["results"] == told["expectedResults"] > 0
    assert (told["rowsIn"], len(told["epochs"]), len(told["sites"])) == (2 * 5 * 100, 2, 2)
    assert [operator["operator"] for operator in told["epochs"][-1]["operators"]] == ["join1", "join2", "join3"]
    assert picture.read_bytes().startswith(PNG)
    assert f"version 2 of {told['checkpoint']}" in succeed("state", told["checkpoint"], env=NO_JAVA)


@settings(deadline=None)
@given(st.lists(st.tuples(*[ROWS] * 5), min_size=1, max_size=3))
def test_the_count_without_joining_counts_what_a_join_would_give(epochs):
    streams = {name: [table(name, epoch[place]) for epoch in epochs] for place, name in enumerate("ABCDE")}
    beginnings = (epochs[: last + 1] for last in range(len(epochs)))
    assert results_after_each_epoch(streams) == [number_joined(beginning) for beginning in beginnings]


def number_joined(epochs) -> int:
    streams = ([row for epoch in epochs for row in epoch[place]] for place in range(5))
    return sum(a[0] == b[0] == c[0] and c[1] == d[0] and d[1] == e[0] for a, b, c, d, e in product(*streams))


def table(name, rows) -> pa.Table:
    return pa.table({f"{name.lower()}{i + 1}": pa.array([row[i] for row in rows], pa.int64()) for i in (0, 1)})


@pytest.mark.parametrize(("results", "exit_code", "words"), [(30, 0, "✓ exact"), (29, 1, "✗ wrong since epoch 0")])
def test_a_number_of_results_that_is_not_exact_is_no_success(tmp_path, monkeypatch, results, exit_code, words):
    monkeypatch.setattr(command, "_run", lambda *_, **__: (record_of(results), Stop()))
    done = CliRunner().invoke(app, ["demo", "--picture", str(tmp_path / "demo.png")])
    assert (done.exit_code, words in done.output) == (exit_code, True)


def test_without_a_library_for_pictures_the_demo_says_so_first_and_draws_none(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr(command, "_run", lambda *_, **__: (record_of(30), Stop()))
    arguments = ["demo", "--picture", str(tmp_path / "demo.png")]
    text, values = (CliRunner().invoke(app, [*arguments, "--output", output]) for output in ("text", "json"))
    assert (text.exit_code, values.exit_code) == (0, 0)
    first = "there will be no picture, as matplotlib is not installed; for one, run: pip install 'watersmeet[lab]'"
    assert text.stdout.splitlines()[0] == first
    assert "demo.png" not in text.stdout
    assert (values.stderr.strip(), json.loads(values.stdout)["picture"]) == (first, None)
    assert not list(tmp_path.iterdir())


def record_of(results) -> Record:
    """One epoch with some results, where there must be 30."""
    record = Record(Sizes(1, 10, 1), "ck", [30], _no_runs())
    operator = OperatorEpoch("join1", 50, results, 50, 4000)
    record.add(Epoch(0, 1, 50, results, 1000, 50, 4000, (operator,), (10,), {"run": 900}))
    return record


def test_results_of_parked_groups_come_late_and_are_counted():
    def epoch(number, results, parked=0, cleanup=None):
        operator = OperatorEpoch("join1", 50, results, 50, 4000)
        told = {"parked_groups": parked, "cleanup": cleanup}
        return Epoch(number, number, 50, results, 1000, 50, 4000, (operator,), (10,), {"run": 900}, **told)

    record = Record(Sizes(2, 10, 1), "ck", [30, 50], _no_runs())
    record.add(epoch(0, 20, parked=1))
    assert (record.wrong, record.exact) == ([], False)
    record.add(epoch(1, 20, parked=1))
    record.add(epoch(2, 10, cleanup=Cleanup("join1", 1, 10, 100, 0)))
    assert (record.results, record.wrong, record.exact) == (50, [], True)


def _no_runs():
    return SimpleNamespace(read=lambda _: SimpleNamespace(sites=1, runs={}, operators={}))


def placed(*routing) -> SimpleNamespace:
    """A manifest of one operator without rows."""
    return SimpleNamespace(sites=2, runs={}, operators={"join1": SimpleNamespace(routing=routing)})


def skewed_record() -> Record:
    """Four epochs; all groups are on the first site until the second epoch ends, and the slowest site is told."""
    manifests = [placed(0, 0, 0, 0), placed(0, 1, 0, 1), placed(0, 1, 0, 1), placed(0, 1, 0, 1)]
    record = Record(Sizes(4, 10, 1), "ck", [5] * 4, SimpleNamespace(read=manifests.__getitem__), is_skewed=True)
    for number, busy_ms in enumerate([(90, 0), (80, 0), (60, 20), (30, 30)]):
        operator = OperatorEpoch("join1", 50, 0, 50, 4000)
        results = 5 if number == 0 else 0
        record.add(Epoch(number, number, 50, results, 1000, 50, 4000, (operator,), busy_ms, {"run": 900}))
    return record


def test_what_moves_is_told_with_how_uneven_sites_were(tmp_path, monkeypatch):
    record = skewed_record()
    assert (record.placed[0], record.placed[-1], record.moved) == ((4, 0), (2, 2), [0, 2, 0, 0])
    assert record.unevenness == [2.0, 2.0, 1.5, 1.0]
    assert record.unevenness_by_moves == (2.0, 1.25)
    monkeypatch.setattr(command, "_run", lambda *_, **__: (record, Stop()))
    done = CliRunner().invoke(app, ["demo", "--skew", "--picture", str(tmp_path / "demo.png")])
    assert done.exit_code == 0, done.output
    assert "2 groups, after epoch 1" in done.output
    assert (tmp_path / "demo.png").read_bytes().startswith(PNG)


def test_one_site_cannot_be_skewed():
    done = CliRunner().invoke(app, ["demo", "--skew", "--sites", "1"])
    assert done.exit_code == 1
    assert "--sites is 1" in done.output


@pytest.mark.spark
@pytest.mark.slow
def test_the_skewed_demo_is_exact_and_starts_on_one_site(tmp_path):
    arguments = ("--skew", "--epochs", 5, "--rows", 2000, "--picture", tmp_path / "demo.png")
    told = succeed_json("demo", *arguments, env={"TMPDIR": str(tmp_path)})
    assert told["exact"]
    assert told["groupsBySite"][0] == [900, 0]
    assert all(sum(placed) == 900 for placed in told["groupsBySite"])
