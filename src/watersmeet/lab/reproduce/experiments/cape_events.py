"""CAPE, 3.4 and 3.5: events call components. The disk join works in pauses of the input; purging has a threshold."""

from collections.abc import Mapping
from statistics import mean

from matplotlib.figure import Figure

from watersmeet.lab.reproduce.bench import Bench
from watersmeet.lab.reproduce.experiment import Experiment, Outcome
from watersmeet.lab.reproduce.figures import lines
from watersmeet.lab.reproduce.findings import Finding, ahead
from watersmeet.lab.reproduce.pauses import Paused, Pauses
from watersmeet.lab.reproduce.punctuated import Punctuated
from watersmeet.lab.reproduce.record import Record
from watersmeet.lab.reproduce.setting import Treatment
from watersmeet.lab.reproduce.tables import Table
from watersmeet.lab.reproduce.threeway import ThreeWay

BURSTY = ThreeWay((3.0,), budget=400_000)
SPILLING = Treatment("adaptive")
PAUSES, QUICK_PAUSES = Pauses(bursts=4, pause_s=8.0), Pauses(bursts=2, pause_s=3.0)
CALLED, NOT_CALLED = "disk join in pauses", "disk join at the end"
PUNCTUATED = Punctuated(windows=False, punctuations=True)
THRESHOLDS = (0.0, 0.1, 0.5, 0.9)


def _measure(bench: Bench) -> Outcome:
    pauses = QUICK_PAUSES if bench.quick else PAUSES
    paused = {name: bench.paused(BURSTY, SPILLING, pauses, joins_disk=name == CALLED) for name in (CALLED, NOT_CALLED)}
    purged = {at: bench.run(PUNCTUATED, Treatment(purge_at=at)) for at in THRESHOLDS}
    claims = [judge_pauses(paused), judge_thresholds(purged)]
    claims = [finding.unjudged() if bench.quick else finding for finding in claims]
    exact = judge_results(paused, purged)
    tables = {"pauses": _pauses_table(paused), "thresholds": _thresholds_table(purged)}
    return Outcome([*claims, exact], tables, _figure(paused), exact=bool(exact.held))


def judge_pauses(paused: Mapping[str, Paused]) -> Finding:
    """Output goes on while there is no input."""
    came = {name: made.in_pauses for name, made in paused.items()}
    return Finding(
        "Called when the stream is empty, the disk join keeps output going; without it none comes in a pause.",
        f"results in pauses: {', '.join(f'{name} {count:,}' for name, count in came.items())}",
        came[CALLED] > 0 == came[NOT_CALLED],
    )


def judge_thresholds(purged: Mapping[float, Record]) -> Finding:
    """Purging eagerly against lazily."""
    state = {at: mean(made.state_rows) for at, made in purged.items()}
    busy = {at: sum(made.busy_ms) for at, made in purged.items()}
    least, most = min(purged), max(purged)
    told = ", ".join(f"{at:.0%}: {state[at]:,.0f} rows, {busy[at]:,} ms" for at in purged)
    return Finding(
        "A low purge threshold holds less state, and a high one needs less work.",
        f"mean state and work of the sites at {told}",
        ahead(state[most], state[least]) and ahead(busy[least], busy[most]),
    )


def judge_results(paused: Mapping[str, Paused], purged: Mapping[float, Record]) -> Finding:
    """Events decide when results come, and never which."""
    prints = {made.fingerprint for made in paused.values()}
    first, *others = purged.values()
    is_counted = all(made.total == made.fingerprint.rows for made in paused.values())
    is_right = len(prints) == 1 and is_counted and all(made.equals(first) for made in others)
    totals = f"{next(iter(paused.values())).total:,} results with pauses, {first.total:,} with punctuations"
    return Finding("Events change no result.", totals if is_right else f"they differ: {totals}", is_right)


def _pauses_table(paused: Mapping[str, Paused]) -> Table:
    rows = [
        (name, number, burst.taken_in, burst.pause_over)
        for name, made in paused.items()
        for number, burst in enumerate(made.bursts, start=1)
    ]
    return Table(("run", "burst", "results_taken_in", "results_after_pause"), rows)


def _thresholds_table(purged: Mapping[float, Record]) -> Table:
    rows = [(at, mean(made.state_rows), max(made.state_rows), sum(made.busy_ms)) for at, made in purged.items()]
    return Table(("threshold", "mean_state_rows", "most_state_rows", "busy_ms"), rows)


def _figure(paused: Mapping[str, Paused]) -> Figure:
    series: dict[str, tuple[list[float], list[float]]] = {}
    for name, made in paused.items():
        places = [place for number in range(len(made.bursts)) for place in (number + 0.5, number + 1.0)]
        counts = [float(n) for each in made.bursts for n in (each.taken_in, each.pause_over)]
        series[name] = ([0.0, *places], [0.0, *counts])
    return lines(
        series, "Results of bursts, and of the pauses after them", "bursts with their pauses", "results so far"
    )


EXPERIMENT = Experiment("cape-events", "CAPE, 3.4 and 3.5", "Bursts with pauses, and thresholds of purging", _measure)
