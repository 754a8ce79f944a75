"""Flux, Figure 9: throughput after the memory of one machine was halved."""

from watersmeet.lab.reproduce.bench import Bench
from watersmeet.lab.reproduce.experiment import Outcome
from watersmeet.lab.reproduce.experiments.fluxes import BACK, MEMORY, STATIC, at_end, experiment, outcome, per_second
from watersmeet.lab.reproduce.experiments.shortage import short_of_memory
from watersmeet.lab.reproduce.figures import lines
from watersmeet.lab.reproduce.findings import Finding

DOWN, SECONDS = 0.5, 36


def _measure(bench: Bench) -> Outcome:
    courses = short_of_memory(bench, "09")
    before = courses[STATIC].tuples[0]
    moved, static = (at_end(courses[name], 10) / before for name in (MEMORY, STATIC))
    last = max((second for second, count in enumerate(courses[MEMORY].tuples) if count < BACK * before), default=0)
    findings = [
        Finding(
            "Without moves throughput stays down, at 23 % in the paper.", f"{static:.0%} of what it was", static < DOWN
        ),
        Finding(
            "With moves it is back to what it was after 36 seconds.",
            f"{moved:.0%} at the end, below {BACK:.0%} until second {last}, {len(courses[MEMORY].moves)} moves",
            moved > BACK and last <= SECONDS,
        ),
    ]
    series = {name: (range(len(course.tuples)), course.tuples) for name, course in courses.items()}
    figure = lines(series, "Half the memory on one machine", "seconds", "tuples a second")
    return outcome(bench, findings, {"seconds": per_second(courses)}, figure)


EXPERIMENT = experiment("09", "Throughput while memory is balanced", _measure)
