"""Runs of Figures 14 to 16: load that alternates between two sites, and memory balancing with some thresholds."""

from collections.abc import Mapping, Sequence

from watersmeet.lab.reproduce.bench import Bench
from watersmeet.lab.reproduce.experiment import Runs
from watersmeet.lab.reproduce.experiments.sites import ALTERNATING, NONE, seconds
from watersmeet.lab.reproduce.record import Record
from watersmeet.lab.reproduce.setting import UNLIMITED, Treatment

NEARLY_FREE = 1.1
"""Our reading of throughput that is almost the same."""

DIFFERENCES = {f"{theta:.0%} difference": Treatment(None, 0.3, "memory", theta, 3) for theta in (0.5, 0.9)}
SPANS = {f"every {15 * span} s": Treatment(None, 0.3, "memory", 0.9, span) for span in (1, 2, 3)}


def relocated(bench: Bench, treatments: Mapping[str, Treatment]) -> Runs:
    """The run in which nothing moves, and some in which groups do."""
    still = bench.run(ALTERNATING, UNLIMITED)
    return Runs(ALTERNATING, ALTERNATING.budget, still, {NONE: still, **bench.runs(ALTERNATING, treatments)})


def times_told(runs: Runs) -> str:
    """How long each run took by the clock, and how often groups moved."""
    told = (f"{name} {seconds(made):.1f} s with {made.decisions} moves" for name, made in runs.treated.items())
    return f"epochs after the first, by the clock: {', '.join(told)}"


def is_nearly_free(runs: Runs) -> bool:
    """No run with moves took much longer than that without."""
    still = seconds(runs[NONE])
    return all(seconds(made) <= NEARLY_FREE * still for made in runs.treated.values())


def cumulative(runs: Runs) -> dict[str, tuple[Sequence[float], Sequence[float]]]:
    """Results so far by the clock: moves that cost anything would show here, as counts by epoch are the same."""
    return {name: (_clock(made), (0, *made.cumulative)) for name, made in runs.treated.items()}


def _clock(made: Record) -> list[float]:
    times = [0.0]
    for epoch_ms in (0, *made.epoch_ms[1:]):
        times.append(times[-1] + epoch_ms / 1000)
    return times[: len(made.output) + 1]
