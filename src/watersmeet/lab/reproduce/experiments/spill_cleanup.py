"""Spill 6.2: what the cleanup costs. The lower in the tree a strategy spills, the more has to be made again above.

The time is this machine's. The rows made and the bytes read are the same on all.
"""

from collections.abc import Sequence

from matplotlib.figure import Figure

from watersmeet.lab.reproduce.experiment import Experiment, Runs, compare
from watersmeet.lab.reproduce.experiments.spilling import BOTTOM_UP, GLOBAL, PENALTY, RATIOS_311, STRATEGIES
from watersmeet.lab.reproduce.figures import bars
from watersmeet.lab.reproduce.findings import FAR_AHEAD, Finding, ahead


def _judge(runs: Runs) -> Sequence[Finding]:
    seconds = {name: made.cleanup.time_ms / 1000 for name, made in runs.treated.items()}
    rows = {name: made.cleanup.results + made.cleanup.inner_rows for name, made in runs.treated.items()}
    others = [name for name in runs.treated if name != BOTTOM_UP]
    return [
        Finding(
            "Bottom-up takes by far the longest to clean up.",
            ", ".join(f"{name} {time_s:.1f} s" for name, time_s in seconds.items()),
            ahead(seconds[BOTTOM_UP], max(seconds[name] for name in others), FAR_AHEAD),
        ),
        Finding(
            "For bottom-up's cleanup most rows have to be made, on all levels.",
            ", ".join(f"{name} {count:,}" for name, count in rows.items()),
            ahead(rows[BOTTOM_UP], max(rows[name] for name in others)),
        ),
        Finding(
            "With these ratios the cleanup after global output with penalty takes longer than after global output "
            "(495,741 ms against 305,997 ms).",
            f"{seconds[PENALTY]:.1f} s against {seconds[GLOBAL]:.1f} s",
            ahead(seconds[PENALTY], seconds[GLOBAL]),
        ),
    ]


def _draw(runs: Runs) -> Figure:
    cleanups = {name: made.cleanup for name, made in runs.treated.items()}
    panels: dict[str, dict[str, float]] = {
        "seconds": {name: each.time_ms / 1000 for name, each in cleanups.items()},
        "missing results": {name: each.results for name, each in cleanups.items()},
        "intermediate rows made": {name: each.inner_rows for name, each in cleanups.items()},
    }
    return bars(panels, "Cleanup, join ratios 3,1,1")


EXPERIMENT = Experiment(
    "spill-cleanup",
    "Spill 6.2",
    "What the cleanup costs after each strategy, join ratios 3,1,1",
    compare(RATIOS_311, STRATEGIES, _judge, _draw),
)
