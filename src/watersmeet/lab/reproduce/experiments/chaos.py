"""Not of the papers: whole runs under the shipped driver, in which all goes wrong that can (`lab.simulator.chaos`)."""

from watersmeet.lab.reproduce.bench import Bench
from watersmeet.lab.reproduce.experiment import Experiment, Outcome
from watersmeet.lab.reproduce.figures import bars
from watersmeet.lab.reproduce.findings import Finding
from watersmeet.lab.reproduce.tables import Table
from watersmeet.lab.simulator.chaos import Told, chaos

MANY, FEW, SAID_EVERY = 1000, 16, 100


def _measure(bench: Bench) -> Outcome:
    told, count = Told(), FEW if bench.quick else MANY
    for first in range(0, count, SAID_EVERY):
        told = chaos(range(first, min(first + SAID_EVERY, count)), bench.say, told)
        bench.say(f"chaos: {told.schedules} schedules, {told.drivers} drivers, {len(told.failures)} failures")
    sums = {"schedules": told.schedules, "epochs": told.epochs, "drivers": told.drivers, "results": told.results}
    counts = [("mishap", told.happened), ("adaptation", told.adapted), ("policy", told.policies)]
    rows = [(kind, name, number) for kind, some in counts for name, number in sorted(some.items())]
    table = Table(("what", "name", "times"), [*(("sum", *each) for each in sums.items()), *rows])
    panels = {"mishaps": dict(told.happened.most_common(12)), "adaptations": dict(told.adapted.most_common(12))}
    figure = bars({name: panel for name, panel in panels.items() if panel}, f"{told.schedules} schedules")
    finding = _finding(told)
    claims = [finding.unjudged() if bench.quick else finding]
    return Outcome(claims, {"schedules": table}, figure, exact=not told.failures)


def _finding(told: Told) -> Finding:
    claim = (
        "(ours) Whatever goes wrong, every result comes once, no row is lost, sites keep to their budget, and no "
        "garbage is left."
    )
    seen = (
        f"{told.schedules - len(told.failures)} of {told.schedules} schedules: {told.epochs:,} epochs by "
        f"{told.drivers:,} drivers, {told.results:,} results, in {told.seconds:.0f} s"
    )
    failed = f"; failed: seeds {', '.join(map(str, list(told.failures)[:10]))}" if told.failures else ""
    return Finding(claim, seen + failed, not told.failures)


EXPERIMENT = Experiment("chaos", "ours", "Whole runs in which all goes wrong that can", _measure, needs_spark=False)
