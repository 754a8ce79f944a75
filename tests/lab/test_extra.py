"""The lab is an extra: what only it needs is loaded by nothing else, and missed with a sentence."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from watersmeet.cli.main import app
from watersmeet.lab.bench.run import run_bench
from watersmeet.model.errors import WatersmeetError

ROOT = Path(__file__).parents[2]
ONLY_LAB = {"matplotlib", "duckdb"}
PICTURE = "watersmeet.cli.demo.picture"
LOAD = "import importlib, sys; [importlib.import_module(name) for name in sys.argv[1:]]; print(*sys.modules)"


def modules_loaded_by(*names) -> set[str]:
    done = subprocess.run([sys.executable, "-c", LOAD, *names], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def all_modules() -> set[str]:
    files = (path.relative_to(ROOT / "src").with_suffix("") for path in (ROOT / "src" / "watersmeet").rglob("*.py"))
    return {".".join(file.parts).removesuffix(".__init__") for file in files}


@pytest.mark.processes
def test_the_driver_and_the_workers_never_load_what_only_the_lab_needs():
    others = {name for name in all_modules() if not name.startswith(("watersmeet.lab", PICTURE))}
    assert not modules_loaded_by(*others) & ONLY_LAB
    assert "matplotlib" in modules_loaded_by(PICTURE)


def test_a_plain_import_loads_neither_spark_nor_what_only_the_lab_needs():
    assert not modules_loaded_by("watersmeet") & {"pyspark", *ONLY_LAB}


def test_what_only_the_lab_needs_is_installed_with_its_extra_alone():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = {line.split(">")[0] for line in project["optional-dependencies"]["lab"]}
    assert names == ONLY_LAB
    assert not names & {line.split(">")[0] for line in project["dependencies"]}


@pytest.mark.parametrize("arguments", [["spill-16"], ["--list"]])
def test_experiments_are_refused_before_they_begin_where_nothing_can_draw(monkeypatch, arguments):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr("watersmeet.cli.reproduce._run", lambda *_, **__: pytest.fail("it has begun"))
    done = CliRunner().invoke(app, ["reproduce", *arguments])
    assert done.exit_code == 1
    assert "matplotlib is not installed" in done.stderr
    assert "pip install 'watersmeet[lab]'" in done.stderr


def test_a_benchmark_against_duckdb_is_refused_where_it_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(WatersmeetError, match=r"compare with DuckDB: duckdb is not installed.*watersmeet\[lab\]"):
        run_bench(["threeway"], quick=True, progress=lambda _: pytest.fail("it has begun"))
