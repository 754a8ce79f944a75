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
from watersmeet.cli.epochs import Epoch, OperatorEpoch, Stop
from watersmeet.cli.main import app

PNG = b"\x89PNG"
ROWS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=4)


@pytest.mark.spark
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
    monkeypatch.setattr(command, "_run", lambda *_: (record_of(results), Stop()))
    done = CliRunner().invoke(app, ["demo", "--picture", str(tmp_path / "demo.png")])
    assert (done.exit_code, words in done.output) == (exit_code, True)


def test_without_a_library_for_pictures_the_demo_says_so_first_and_draws_none(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr(command, "_run", lambda *_: (record_of(30), Stop()))
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


def _no_runs():
    return SimpleNamespace(read=lambda _: SimpleNamespace(sites=1, runs={}))
