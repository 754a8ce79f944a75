"""Flux, Figure 6: an external load on one machine, from the first second on."""

from watersmeet.lab.reproduce.bench import Bench
from watersmeet.lab.reproduce.experiment import Outcome
from watersmeet.lab.reproduce.experiments.fluxes import (
    ABOUT_HALF,
    AUTO,
    BACK,
    FLUX,
    NEARLY_ALL,
    STATIC,
    at_end,
    experiment,
    outcome,
    per_second,
    run,
    scale,
)
from watersmeet.lab.reproduce.figures import lines
from watersmeet.lab.reproduce.findings import Finding
from watersmeet.lab.simulator import Disturbance
from watersmeet.lab.simulator.traffic import LOADED, from_then_on

UNLOADED = "unloaded"
SECONDS = (4, 15)
"""What passes for about nine."""


def _measure(bench: Bench) -> Outcome:
    size = scale(bench, 24.0)
    loaded = Disturbance(size.machines, from_then_on(1000.0, size.machines, [0], LOADED))
    courses = {UNLOADED: run(size, STATIC, Disturbance(size.machines))}
    for name in (STATIC, FLUX, AUTO):
        courses[name] = run(size, name, loaded)
        bench.say(f"flux-06: {name}: {at_end(courses[name]):,.0f} tuples a second at the end")
    best = at_end(courses[UNLOADED])
    felt = next((s for s, count in enumerate(courses[FLUX].tuples) if count < BACK * best), 0)
    took = {name: _seconds_until_level(courses[name].tuples, felt, best) for name in (FLUX, AUTO)}
    parts = {name: at_end(course) / best for name, course in courses.items()}
    findings = [
        Finding(
            "Without moves, one loaded machine holds all of them up for good.",
            f"{parts[STATIC]:.0%} of the unloaded throughput at the end",
            parts[STATIC] < ABOUT_HALF[1],
        ),
        Finding(
            "Load balancing is steady again about 9 seconds after it has felt the load.",
            f"felt in second {felt}, {took[FLUX]} seconds until {BACK:.0%}; {parts[FLUX]:.0%} at the end, "
            f"{sum(count for _, count, _, _ in courses[FLUX].moves)} partitions moved, 32 in the paper",
            parts[FLUX] > NEARLY_ALL and SECONDS[0] <= took[FLUX] <= SECONDS[1],
        ),
        Finding(
            "(ours) The default policy gets there as well.",
            f"{took[AUTO]} seconds until {BACK:.0%}; {parts[AUTO]:.0%} at the end, "
            f"in {_times(courses[AUTO].moves)} decisions",
            parts[AUTO] > 0.95 * parts[FLUX],
        ),
    ]
    series = {name: (range(len(course.tuples)), course.tuples) for name, course in courses.items()}
    figure = lines(series, "An external load on one machine", "seconds", "tuples a second")
    return outcome(bench, findings, {"seconds": per_second(courses)}, figure)


def _seconds_until_level(tuples: list[float], felt: int, best: float) -> int:
    low = [second for second, count in enumerate(tuples) if second >= felt and count < BACK * best]
    return low[-1] + 1 - felt if low else 0


def _times(moves: list[tuple[float, int, int, int]]) -> int:
    return len({at_ms for at_ms, *_ in moves})


EXPERIMENT = experiment("06", "Balancing load after one machine is disturbed", _measure)
