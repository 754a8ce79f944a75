import json
import sys
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.cli.commands import watersmeet
from typer.testing import CliRunner

from watersmeet.cli import reproduce as command
from watersmeet.cli.main import app

EXPERIMENTS = {
    name: SimpleNamespace(name=name, source="A paper, Figure 1", title="What was measured") for name in ("one", "two")
}


@dataclass
class Report:
    ok: bool = True

    def text(self) -> str:
        return "claims"

    def to_builtins(self) -> dict[str, object]:
        return {"ok": self.ok}


@pytest.fixture
def carried_out(monkeypatch):
    """Stand in for the lab: notes what was to be carried out; the experiment 'two' is not exact."""
    calls = []
    lab = "watersmeet.lab.reproduce"
    choose = lambda names: [EXPERIMENTS[name] for name in names]  # noqa: E731
    monkeypatch.setitem(sys.modules, lab, SimpleNamespace())
    monkeypatch.setitem(sys.modules, f"{lab}.experiments", SimpleNamespace(EXPERIMENTS=EXPERIMENTS))
    monkeypatch.setitem(sys.modules, f"{lab}.run", SimpleNamespace(choose=choose))

    def run(folders, _, *, quick):
        calls.append((folders, quick))
        return Report(ok="two" not in folders)

    monkeypatch.setattr(command, "_run", run)
    return calls


def invoke(*arguments):
    return CliRunner().invoke(app, ["reproduce", *map(str, arguments)])


def test_the_experiments_are_listed(carried_out):
    done = invoke("--list")
    assert (done.exit_code, carried_out) == (0, [])
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["one", "two"]
    assert [each["name"] for each in json.loads(invoke("--list", "--output", "json").stdout)] == ["one", "two"]


@pytest.mark.parametrize(
    ("arguments", "folders"),
    [
        (["one"], {"one": Path("out/reproduce/one")}),
        (["one", "--out", "here"], {"one": Path("here")}),
        (["--all", "--out", "here"], {"one": Path("here/one"), "two": Path("here/two")}),
    ],
)
def test_every_experiment_has_a_folder(carried_out, arguments, folders):
    invoke(*arguments, "--quick")
    assert carried_out == [(folders, True)]


def test_a_run_that_is_not_exact_is_no_success(carried_out):
    one, two = invoke("one", "--output", "json"), invoke("two", "--output", "json")
    assert (one.exit_code, json.loads(one.stdout)) == (0, {"ok": True})
    assert (two.exit_code, json.loads(two.stdout)) == (1, {"ok": False})
    assert [quick for _, quick in carried_out] == [False, False]


def test_without_a_name_the_command_tells_how_to_give_one(carried_out):
    done = invoke()
    assert (done.exit_code, carried_out) == (1, [])
    assert "--list" in done.stderr


@pytest.mark.spark
@pytest.mark.slow
def test_an_experiment_is_carried_out_and_told_as_json(tmp_path):
    done = watersmeet("reproduce", "lazy-12", "--quick", "--out", tmp_path, "--output", "json")
    assert done.returncode == 0, done.stderr
    [told] = json.loads(done.stdout)["experiments"]
    assert told["exact"]
    assert sorted(Path(file).name for file in told["files"]) == sorted(file.name for file in tmp_path.iterdir())
    assert len(done.stderr.splitlines()) == 3
