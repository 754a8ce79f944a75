"""Flux, Figure 8: four fifths of the tuples for a fifth of the keys, and how long statistics are collected."""

import numpy as np

from watersmeet.lab.reproduce.bench import Bench
from watersmeet.lab.reproduce.experiment import Outcome
from watersmeet.lab.reproduce.experiments.fluxes import (
    AUTO,
    FLUX,
    PARTITIONS_A_MACHINE,
    SEED,
    STATIC,
    experiment,
    outcome,
    run,
    scale,
)
from watersmeet.lab.reproduce.figures import lines
from watersmeet.lab.reproduce.findings import Finding
from watersmeet.lab.reproduce.tables import Table
from watersmeet.lab.simulator import Disturbance, Traffic

DELTAS_MS = (10.0, 50.0, 150.0, 250.0, 500.0)


def _measure(bench: Bench) -> Outcome:
    size = scale(bench, 20.0)
    traffic = Traffic.skewed(size.machines * PARTITIONS_A_MACHINE, np.random.default_rng(SEED))
    still = Disturbance(size.machines)
    static = run(size, STATIC, still, traffic).mean_per_second
    auto = run(size, AUTO, still, traffic)
    bench.say(f"flux-08: static {static:,.0f}, auto {auto.mean_per_second:,.0f} tuples a second")
    courses = [run(size, FLUX, still, traffic, delta) for delta in DELTAS_MS]
    found = [course.mean_per_second for course in courses]
    bench.say(f"flux-08: flux: {', '.join(f'{each:,.0f}' for each in found)} tuples a second")
    findings = [
        Finding(
            "With short collection phases moves do more harm than good.",
            f"{found[0] / static:.0%} of the static throughput with {DELTAS_MS[0]:.0f} ms, "
            f"{len(courses[0].moves)} moves",
            found[0] < static,
        ),
        Finding(
            "From about 250 ms on they beat a static distribution.",
            f"{found[3] / static:.0%} with {DELTAS_MS[3]:.0f} ms, {len(courses[3].moves)} moves",
            found[3] > static,
        ),
        Finding(
            "(ours) The default policy beats it without being told anything.",
            f"{auto.mean_per_second / static:.0%}, {len(auto.moves)} moves",
            auto.mean_per_second > static,
        ),
    ]
    rows = [(delta, each, len(course.moves)) for delta, each, course in zip(DELTAS_MS, found, courses, strict=True)]
    table = Table(("delta_min_ms", "tuples_a_second", "moves"), rows)
    level = [static] * len(DELTAS_MS), [auto.mean_per_second] * len(DELTAS_MS)
    series = {FLUX: (DELTAS_MS, found), STATIC: (DELTAS_MS, level[0]), AUTO: (DELTAS_MS, level[1])}
    figure = lines(series, "80/20 skew", "shortest collection phase, ms", "tuples a second")
    return outcome(bench, findings, {"deltas": table}, figure)


EXPERIMENT = experiment("08", "The length of the collection phase under 80/20 skew", _measure)
