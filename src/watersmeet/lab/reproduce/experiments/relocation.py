"""Runs of Figures 14 to 16: load that alternates between two sites, and memory balancing with some thresholds."""

from collections.abc import Mapping, Sequence
from statistics import median

from watersmeet.lab.reproduce.bench import Bench
from watersmeet.lab.reproduce.experiment import Runs
from watersmeet.lab.reproduce.experiments.sites import ALTERNATING, NONE
from watersmeet.lab.reproduce.record import Record
from watersmeet.lab.reproduce.setting import UNLIMITED, Treatment

NEARLY_FREE = 1.1
"""Our reading of throughput that is almost the same."""

WARM = 3
"""So many epochs of a run do not count: workers start, and code is compiled."""

DIFFERENCES = {f"{theta:.0%} difference": Treatment(None, 0.3, "memory", theta, 3) for theta in (0.5, 0.9)}
SPANS = {f"every {15 * span} s": Treatment(None, 0.3, "memory", 0.9, span) for span in (1, 2, 3)}


def relocated(bench: Bench, treatments: Mapping[str, Treatment]) -> Runs:
    """The run in which nothing moves, and some in which groups do."""
    still = bench.run(ALTERNATING, UNLIMITED)
    return Runs(ALTERNATING, ALTERNATING.budget, still, {NONE: still, **bench.runs(ALTERNATING, treatments)})


def cost(made: Record) -> float | None:
    """How long epochs after a move took in proportion to the others of the run, by their medians; None without any.

    Runs follow each other on a machine that has other work at times, so epochs are compared with those of the same run.
    """
    after = {move.epoch for move in made.moves}
    times = list(enumerate(made.epoch_ms))[WARM:]
    moved = [time for number, time in times if number in after]
    others = [time for number, time in times if number not in after]
    return median(moved) / max(median(others), 1) if moved and others else None


def costs_told(runs: Runs) -> str:
    """What moves cost in each run."""
    found = {name: cost(made) for name, made in runs.treated.items() if made.moves}
    told = (f"{name} {value:.2f}" if value else f"{name} not known" for name, value in found.items())
    return f"by the clock, an epoch after a move took in proportion to others: {', '.join(told)}"


def is_nearly_free(runs: Runs) -> bool:
    """In no run did epochs after moves take much longer than others."""
    found = [cost(made) for made in runs.treated.values() if made.moves]
    return bool(found) and all(value is not None and value <= NEARLY_FREE for value in found)


def cumulative(runs: Runs) -> dict[str, tuple[Sequence[float], Sequence[float]]]:
    """Results so far by the clock: moves that cost anything would show here, as counts by epoch are the same."""
    return {name: (_clock(made), (0, *made.cumulative)) for name, made in runs.treated.items()}


def _clock(made: Record) -> list[float]:
    times = [0.0]
    for epoch_ms in (0, *made.epoch_ms[1:]):
        times.append(times[-1] + epoch_ms / 1000)
    return times[: len(made.output) + 1]
