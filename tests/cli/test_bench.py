import json
import sys
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from watersmeet.cli.main import app


@dataclass
class Report:
    ok: bool

    def text(self) -> str:
        return "a table"

    def to_json(self) -> str:
        return json.dumps({"ok": self.ok})


@pytest.fixture
def run_bench(monkeypatch):
    """Stand in for the lab: notes how it was called; the benchmark 'slow' misses its figure."""
    calls = []

    def run(names, quick, progress):
        calls.append((names, quick))
        progress("working")
        return Report(ok="slow" not in names)

    monkeypatch.setitem(sys.modules, "watersmeet.lab.bench", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "watersmeet.lab.bench.run", SimpleNamespace(run_bench=run))
    return calls


def test_names_and_sizes_reach_the_lab(run_bench, tmp_path):
    done = CliRunner().invoke(app, ["bench", "one", "two", "--quick", "--json", str(tmp_path / "new" / "report.json")])
    assert done.exit_code == 0
    assert run_bench == [(["one", "two"], True)]
    assert done.stdout == "working\na table\n"
    assert json.loads((tmp_path / "new" / "report.json").read_text()) == {"ok": True}


def test_json_is_alone_on_stdout_and_a_missed_figure_is_no_success(run_bench):
    done = CliRunner().invoke(app, ["bench", "slow", "--output", "json"])
    assert (done.exit_code, json.loads(done.stdout), done.stderr) == (1, {"ok": False}, "working\n")
    assert run_bench == [(["slow"], False)]
