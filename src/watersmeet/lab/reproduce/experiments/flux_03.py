"""Flux, Figure 3: a load goes round the machines, half a second each, with skew buffers of many sizes."""

import numpy as np

from watersmeet.lab.reproduce.bench import Bench
from watersmeet.lab.reproduce.experiment import Outcome
from watersmeet.lab.reproduce.experiments.fluxes import (
    ABOUT_HALF,
    NEARLY_ALL,
    SEED,
    experiment,
    outcome,
    scale,
)
from watersmeet.lab.reproduce.figures import lines
from watersmeet.lab.reproduce.findings import Finding
from watersmeet.lab.reproduce.tables import Table
from watersmeet.lab.simulator import Cluster, Disturbance, Hardware, Traffic, simulate
from watersmeet.lab.simulator.traffic import LOADED, in_turn

BUFFERS = (0, 64, 256, 1024, 2048, 4096)
EACH_MS, SLICE_MS = 500.0, 2.0


def _measure(bench: Bench) -> Outcome:
    size = scale(bench, 16.0)
    disturbance = Disturbance(size.machines, in_turn(EACH_MS, size.machines, LOADED))
    found: dict[str, list[float]] = {"Flux": [], "Exchange": []}
    for name, throughput in found.items():
        for buffer in BUFFERS:
            hardware, rng = Hardware(machines=size.machines), np.random.default_rng(SEED)
            space = float(buffer * size.machines)
            cluster = Cluster(hardware, Traffic.even(4 * size.machines), rng, space, is_exchange=name == "Exchange")
            throughput.append(simulate(cluster, size.seconds, disturbance, slice_ms=SLICE_MS).mean_per_second)
        bench.say(f"flux-03: {name}: {', '.join(f'{each:,.0f}' for each in throughput)} tuples a second")
    peak = Hardware(machines=size.machines).peak_per_second
    flux, exchange = (np.array(each) / peak for each in found.values())
    middle = BUFFERS.index(1024)
    findings = [
        Finding(
            "Without a buffer, throughput drops to about half although one machine is loaded at a time.",
            f"{flux[0]:.0%} of the unloaded throughput",
            bool(ABOUT_HALF[0] < flux[0] < ABOUT_HALF[1]),
        ),
        Finding(
            "As the buffer grows, Flux approaches the throughput of the unloaded case.",
            f"{flux[-1]:.0%} with {BUFFERS[-1]:,} tuples a producer",
            bool(flux[-1] > NEARLY_ALL),
        ),
        Finding(
            "It quickly beats Exchange with as much room in its queues.",
            f"{flux[middle]:.0%} against {exchange[middle]:.0%} with {BUFFERS[middle]:,} tuples",
            bool(flux[middle] > 1.1 * exchange[middle]),
        ),
    ]
    columns = ("buffer_tuples", *found)
    table = Table(columns, [(buffer, *row) for buffer, *row in zip(BUFFERS, *found.values(), strict=True)])
    series = {name: (BUFFERS, each) for name, each in found.items()}
    figure = lines(series, "A load that goes round", "tuples a producer can buffer", "tuples a second")
    return outcome(bench, findings, {"buffers": table}, figure)


EXPERIMENT = experiment("03", "Short-term imbalance and the size of the skew buffer", _measure)
