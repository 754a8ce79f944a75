"""Flux, Figure 7: the same load on more and more machines."""

import numpy as np

from watersmeet.lab.reproduce.bench import Bench
from watersmeet.lab.reproduce.experiment import Outcome
from watersmeet.lab.reproduce.experiments.fluxes import (
    AUTO,
    FLUX,
    SEED,
    STATIC,
    at_end,
    experiment,
    outcome,
    run,
    scale,
)
from watersmeet.lab.reproduce.figures import lines
from watersmeet.lab.reproduce.findings import Finding
from watersmeet.lab.reproduce.tables import Table
from watersmeet.lab.simulator import Disturbance
from watersmeet.lab.simulator.traffic import LOADED, from_then_on

PARTS = (0.0, 1 / 32, 1 / 4, 1 / 2, 3 / 4, 1.0)


def _measure(bench: Bench) -> Outcome:
    size = scale(bench, 24.0)
    machines = [round(part * size.machines) for part in PARTS]
    found: dict[str, list[float]] = {STATIC: [], FLUX: [], AUTO: []}
    order = np.random.default_rng(SEED).permutation(size.machines).tolist()
    for name, throughput in found.items():
        for count in machines:
            course = from_then_on(1000.0, size.machines, order[:count], LOADED)
            throughput.append(at_end(run(size, name, Disturbance(size.machines, course))))
        bench.say(f"flux-07: {name}: {', '.join(f'{each:,.0f}' for each in throughput)} tuples a second")
    left = {name: np.array(each) / found[STATIC][0] for name, each in found.items()}
    ideal = np.array([1 - part * (1 - LOADED) for part in PARTS])
    findings = [
        Finding(
            "Without moves, throughput drops once a single machine is loaded, and stays there.",
            f"{left[STATIC][1]:.0%} with one, {left[STATIC][-1]:.0%} with all",
            bool(left[STATIC][1] < 1.25 * left[STATIC][-1]),
        ),
        Finding(
            "With load balancing it degrades linearly with the machines that are loaded.",
            ", ".join(f"{count}: {each:.0%}" for count, each in zip(machines, left[FLUX], strict=True)),
            bool(np.all(left[FLUX] > 0.8 * ideal)),
        ),
        Finding(
            "(ours) So it does by default.",
            ", ".join(f"{count}: {each:.0%}" for count, each in zip(machines, left[AUTO], strict=True)),
            bool(np.all(left[AUTO] > 0.8 * ideal)),
        ),
    ]
    table = Table(("machines", *found), [(count, *row) for count, *row in zip(machines, *found.values(), strict=True)])
    series = {name: (machines, each) for name, each in found.items()}
    figure = lines(series, "Graceful degradation", "machines with an external load", "tuples a second at the end")
    return outcome(bench, findings, {"machines": table}, figure)


EXPERIMENT = experiment("07", "Graceful degradation", _measure)
