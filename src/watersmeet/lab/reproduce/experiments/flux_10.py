"""Flux, Figure 10: latency after the memory of one machine was halved."""

import numpy as np

from watersmeet.lab.reproduce.bench import Bench
from watersmeet.lab.reproduce.experiment import Outcome
from watersmeet.lab.reproduce.experiments.fluxes import MEMORY, STATIC, experiment, outcome, per_second
from watersmeet.lab.reproduce.experiments.shortage import short_of_memory
from watersmeet.lab.reproduce.figures import lines
from watersmeet.lab.reproduce.findings import Finding


def _measure(bench: Bench) -> Outcome:
    courses = short_of_memory(bench, "10")
    latency_us = {name: [each * 1000.0 for each in course.latency_ms] for name, course in courses.items()}
    static, moved = (float(np.mean(latency_us[name][-10:])) for name in (STATIC, MEMORY))
    first = latency_us[STATIC][0]
    findings = [
        Finding(
            "Without moves mean latency rises from 45 us by several orders of magnitude, to 2.4e5 us.",
            f"from {first:.0f} us to {static:.2g} us",
            static > 100 * first,
        ),
        Finding(
            "With moves it returns to that of processing in memory.",
            f"{moved:.0f} us at the end, {max(latency_us[MEMORY]):.2g} us at most",
            moved < 2 * first,
        ),
    ]
    series = {name: (range(len(each)), each) for name, each in latency_us.items()}
    figure = lines(series, "Half the memory on one machine", "seconds", "mean latency, us", log=True)
    return outcome(bench, findings, {"seconds": per_second(courses)}, figure)


EXPERIMENT = experiment("10", "Latency while memory is balanced", _measure)
