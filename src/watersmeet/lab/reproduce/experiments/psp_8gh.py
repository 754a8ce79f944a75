"""PSP, Figures 8(g) and 8(h): tuples come twice as fast from the middle on, with and without adaptation."""

from dataclasses import replace

import numpy as np

from watersmeet.lab.reproduce.bench import Bench
from watersmeet.lab.reproduce.experiment import Outcome
from watersmeet.lab.reproduce.experiments.psp import experiment, outcome, work
from watersmeet.lab.reproduce.figures import lines
from watersmeet.lab.reproduce.findings import Finding
from watersmeet.lab.simulator.rings import RingCourse, adapted

LATER, MOST = 100.0, 20
LEVEL = 5.0
"""Our reading of "stable": the last tenth takes at most so many times as long as the tenth before the change.

Windows hold twice as many tuples then, so every tuple has four times as many pairs to look at."""


def _course(bench: Bench, *, adapts: bool) -> RingCourse:
    given = work(bench, 0.1)
    longer = replace(given, seconds=given.seconds * (1 if bench.quick else 4))
    return adapted(longer, LATER, MOST, adapts=adapts)


def _parts(course: RingCourse) -> tuple[float, float]:
    """Response times just before the change, and at the end."""
    end = course.came_s[-1]
    before = (course.came_s > 0.4 * end) & (course.came_s < 0.5 * end)
    return float(course.took_s[before].mean()), float(course.took_s[course.came_s > 0.9 * end].mean())


def _measure(bench: Bench, *, adapts: bool) -> Outcome:
    course = _course(bench, adapts=adapts)
    before, after = _parts(course)
    seen = f"{before * 1e3:,.1f} ms before the rate doubles, {after * 1e3:,.1f} ms at the end"
    claim = "With adaptation, response time stays level." if adapts else "Without adaptation, it climbs."
    findings = [Finding(claim, seen, after <= LEVEL * before if adapts else after > LEVEL * before)]
    if not adapts:
        other = _parts(_course(bench, adapts=True))[1]
        seen = f"{other * 1e3:,.1f} ms with, {after * 1e3:,.1f} ms without"
        findings.append(Finding("At the end it is longer than with adaptation.", seen, after > 1.1 * other))
    name = "with adaptation" if adapts else "without adaptation"
    moments = np.linspace(0, course.came_s[-1], 61)
    places = np.clip(np.searchsorted(course.came_s, moments), 1, len(course.came_s))
    means = [float(part.mean()) if len(part) else 0.0 for part in np.split(course.took_s, places)[1:-1]]
    figure = lines(
        {name: (moments[1:].tolist(), means)}, f"PSP {name}", "seconds", "response time in seconds", log=True
    )
    return outcome(bench, findings, {name: {MOST: course}}, figure, None)


EXPERIMENTS = (
    experiment("g", "A rate that doubles, with adaptation", lambda bench: _measure(bench, adapts=True)),
    experiment("h", "A rate that doubles, without adaptation", lambda bench: _measure(bench, adapts=False)),
)
