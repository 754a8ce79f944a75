"""Run the benchmarks: for every suite write the data once, run the contenders one after the other, judge."""

import platform
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import median

import msgspec

from watersmeet.lab.bench import restart
from watersmeet.lab.bench.contenders import WAYS, Contender
from watersmeet.lab.bench.data import write_streams
from watersmeet.lab.bench.measure import run_contender
from watersmeet.lab.bench.outcome import Outcome, Task
from watersmeet.lab.bench.report import Report, Section
from watersmeet.lab.bench.ring import FAMILY as RING
from watersmeet.lab.bench.suite import Size, Suite
from watersmeet.lab.bench.suites import SPILL, choose
from watersmeet.lab.bench.takeover import run_takeover
from watersmeet.lab.bench.text import show
from watersmeet.lab.extra import is_installed, require
from watersmeet.lab.ring.bench import run_sites
from watersmeet.lab.spill.run import run_spill
from watersmeet.model.errors import WatersmeetError

RUNS, SHORT_S = 3, 40.0
"""A run of few seconds is told by chance as much as by what it does: a quiet machine swings by a tenth."""

PACKAGES = ("watersmeet", "pyspark", "pyarrow", "duckdb")


def run_bench(names: list[str], quick: bool, progress: Callable[[str], None]) -> Report:  # noqa: FBT001 -- the seam
    """Run some suites, all where no name is given; ``quick`` takes tiny sizes, and judges only the counts."""
    suites = choose(names)
    _check_contenders(suites)
    spill = run_spill(quick, progress) if SPILL in names else None
    sections = [_run_suite(suite, suite.quick if quick else suite.full, progress) for suite in suites]
    if not names or RING in names:
        sections += run_sites(quick, progress)
    if not names or restart.SUITE.name in names:
        sections += run_takeover(quick, progress)
    if quick:
        sections = [section.without_targets() for section in sections]
    return Report(tuple(sections), _versions(), quick=quick, spill=spill)


@dataclass(frozen=True)
class _Contest:
    """A suite's contenders, run on data in a folder."""

    suite: Suite
    size: Size
    folder: Path
    progress: Callable[[str], None]

    def outcomes(self) -> dict[Contender, Outcome]:
        """Run all, one after the other; first the one that prepares something for the others."""
        first = self.suite.prepared_by
        prepared = {first: self._run_once(first, self._prepared)} if first else {}
        return prepared | {name: self._run(name) for name in self.suite.contenders}

    def _run(self, name: Contender) -> Outcome:
        """Run it; thrice where that is soon done and counts, and the run of median length stands for them.

        Of each epoch the median of all runs counts: a pause of the machine is in another epoch every time.
        """
        runs = [self._run_anew(name)]
        while len(runs) < RUNS and self.size is self.suite.full and runs[0].whole_s < SHORT_S:
            runs.append(self._run_anew(name))
        if len(runs) == 1:
            return runs[0]
        if len({outcome.results for outcome in runs}) > 1:
            found = ", ".join(f"{outcome.results:,}" for outcome in runs)
            raise WatersmeetError(
                f"{name} gave {found} results in {self.suite.name}",
                why="every run has the same data",
                how="this is a defect: please report it",
            )
        middle = sorted(runs, key=lambda outcome: outcome.whole_s)[len(runs) // 2]
        return msgspec.structs.replace(
            middle,
            epoch_ms=tuple(map(median, zip(*(outcome.epoch_ms for outcome in runs), strict=False))),
            busy_ms=tuple(map(median, zip(*(outcome.busy_ms for outcome in runs), strict=False))),
            runs_s=tuple(outcome.whole_s for outcome in runs),
        )

    def _run_anew(self, name: Contender) -> Outcome:
        with tempfile.TemporaryDirectory(prefix=name, dir=self.folder, ignore_cleanup_errors=True) as work:
            return self._run_once(name, Path(work))

    def _run_once(self, name: Contender, work: Path) -> Outcome:
        suite, size = self.suite, self.size
        self.progress(f"{suite.name}: {name} runs")
        budget = suite.budget_bytes(size) if suite.budget_bytes else None
        data, prepared = str(self.folder / "data"), str(self._prepared)
        outcome = run_contender(Task(suite.name, name, data, str(work), size.heap, budget, prepared))
        moved = f", {outcome.moves:,} groups moved" if outcome.moves else ""
        self.progress(f"{suite.name}: {name} took {show(outcome.whole_s, 's')} for {outcome.results:,} results{moved}")
        return outcome

    @property
    def _prepared(self) -> Path:
        return self.folder / "prepared"


def _run_suite(suite: Suite, size: Size, progress: Callable[[str], None]) -> Section:
    with tempfile.TemporaryDirectory(prefix="watersmeet-bench-", ignore_cleanup_errors=True) as folder:
        progress(f"{suite.name}: {suite.title(size)}")
        write_streams(Path(folder) / "data", suite.tables(size))
        outcomes = _Contest(suite, size, Path(folder), progress).outcomes()
    comparisons, counts = suite.judge(size, outcomes)
    return Section(suite.name, suite.title(size), tuple(outcomes.values()), tuple(comparisons), tuple(counts))


def _check_contenders(suites: list[Suite]) -> None:
    if any(WAYS[name].engine == "duckdb" for suite in suites for name in suite.contenders):
        require("duckdb", "the benchmarks compare with DuckDB")


def _versions() -> dict[str, str]:
    installed = {name: version(name) for name in PACKAGES if is_installed(name)}
    return {"python": platform.python_version(), **installed}
