"""CAPE, 3.5: punctuations keep the state of a join nearly constant; with windows they make it smaller still."""

from collections.abc import Mapping, Sequence
from statistics import mean

from watersmeet.lab.reproduce.bench import Bench
from watersmeet.lab.reproduce.experiment import Experiment, Outcome
from watersmeet.lab.reproduce.figures import state_over_time
from watersmeet.lab.reproduce.findings import Finding, ahead
from watersmeet.lab.reproduce.punctuated import Punctuated
from watersmeet.lab.reproduce.record import Record
from watersmeet.lab.reproduce.tables import Table, output_table

NEITHER, WINDOWS, PUNCTUATIONS, BOTH = "neither", "windows", "punctuations", "both"
SETTINGS = {
    NEITHER: Punctuated(windows=False, punctuations=False),
    WINDOWS: Punctuated(windows=True, punctuations=False),
    PUNCTUATIONS: Punctuated(windows=False, punctuations=True),
    BOTH: Punctuated(windows=True, punctuations=True),
}
ALIKE = ((NEITHER, PUNCTUATIONS), (WINDOWS, BOTH))
"""Windows decide what is joined; punctuations do not."""
CONSTANT = 1.25
"""Our reading of "nearly constant": the last third of a run has at most so many times the state of the third before."""


def _measure(bench: Bench) -> Outcome:
    records = {name: bench.unlimited(setting) for name, setting in SETTINGS.items()}
    tables = {"runs": _runs_table(records), "output": output_table(records), "state": _state_table(records)}
    claims = [finding.unjudged() if bench.quick else finding for finding in _judge(records)]
    exact = _exactness(records)
    figure = state_over_time(records, SETTINGS[BOTH].minutes, "State of a join: windows, punctuations, both")
    return Outcome([*claims, exact], tables, figure, exact=bool(exact.held))


def _judge(records: Mapping[str, Record]) -> Sequence[Finding]:
    growth = {name: _late_state(made) / max(1.0, _middle_state(made)) for name, made in records.items()}
    state = {name: _late_state(made) for name, made in records.items()}
    rate = {name: made.results / max(1, sum(made.busy_ms)) for name, made in records.items()}
    return [
        Finding(
            "With punctuations the state is nearly constant; without any constraint it grows.",
            f"from the second to the last third of the run it grew {_told(growth, '{:.2f} times')}",
            growth[PUNCTUATIONS] <= CONSTANT < growth[NEITHER],
        ),
        Finding(
            "With windows and punctuations the state is smaller than with windows alone.",
            f"rows in the last third, on average: {_told(state, '{:,.0f}')}",
            ahead(state[WINDOWS], state[BOTH]),
        ),
        Finding(
            "As state shrinks the output rate rises: with punctuations above none, with both above windows alone.",
            f"results for a millisecond of work at the sites: {_told(rate, '{:,.1f}')}",
            all(ahead(rate[more], rate[less]) for less, more in ALIKE),
        ),
    ]


def _exactness(records: Mapping[str, Record]) -> Finding:
    wrong = [more for less, more in ALIKE if not records[more].equals(records[less])]
    totals = ", ".join(f"{records[less].total:,} with {less} and with {more}" for less, more in ALIKE)
    claim = "Punctuations change no result."
    return Finding(claim, f"other results with {' and '.join(wrong)}" if wrong else totals, not wrong)


def _late_state(made: Record) -> float:
    return mean(made.state_rows[-_third(made) :])


def _middle_state(made: Record) -> float:
    return mean(made.state_rows[-2 * _third(made) : -_third(made)])


def _third(made: Record) -> int:
    return len(made.state_rows) // 3


def _told(numbers: Mapping[str, float], form: str) -> str:
    return ", ".join(f"{name} {form.format(number)}" for name, number in numbers.items())


def _runs_table(records: Mapping[str, Record]) -> Table:
    columns = ("run", "results", "most_state_rows", "last_state_rows", "busy_ms")
    rows = [
        (name, made.total, max(made.state_rows), made.state_rows[-1], sum(made.busy_ms))
        for name, made in records.items()
    ]
    return Table(columns, rows)


def _state_table(records: Mapping[str, Record]) -> Table:
    rows = enumerate(zip(*(made.state_rows for made in records.values()), strict=True), start=1)
    return Table(("epoch", *records), [(epoch, *counts) for epoch, counts in rows])


EXPERIMENT = Experiment(
    "cape-punct", "CAPE, 3.5", "State and output rate of a join with windows, punctuations and both", _measure
)
