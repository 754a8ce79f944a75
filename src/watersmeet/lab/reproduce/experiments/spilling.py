"""What the experiments of the paper on spilling have in common: settings, strategies, and the claims on throughput."""

from collections.abc import Callable, Sequence

from watersmeet.lab.reproduce.bench import Bench
from watersmeet.lab.reproduce.experiment import Outcome, Runs, compare
from watersmeet.lab.reproduce.figures import output_over_time
from watersmeet.lab.reproduce.findings import FAR_AHEAD, Finding, ahead, shares
from watersmeet.lab.reproduce.fiveway import FiveWay
from watersmeet.lab.reproduce.setting import Treatment

PENALTY, GLOBAL, LOCAL, BOTTOM_UP = "global output with penalty", "global output", "local output", "bottom-up"
OURS = "adaptive (ours)"
STRATEGIES = {
    PENALTY: Treatment("global-output-with-penalty"),
    GLOBAL: Treatment("global-output"),
    LOCAL: Treatment("local-output"),
    BOTTOM_UP: Treatment("bottom-up"),
    OURS: Treatment("adaptive"),
}

RATIOS_311 = FiveWay((3, 1, 1), budget=3_100_000)
RATIOS_133 = FiveWay((1, 3, 3), budget=930_000)
RATIOS_323 = FiveWay((3, 2, 3), budget=4_850_000)
"""An eighth of what an unlimited run holds in the end: global output then spills about 13 times, as in the paper."""
FAN_OUT_311 = FiveWay((3, 1, 1), budget=2_360_000, fan_out=4)
"""A fifth of what an unlimited run holds in the end. Fan-out and budget were looked for in the simulator, as a place
where the penalty is ahead: that it can be is shown, not that it is as a rule."""


def run_time_results(setting: FiveWay, title: str) -> Callable[[Bench], Outcome]:
    """Figures 16, 19 and 20."""
    return compare(setting, STRATEGIES, _throughput, lambda runs: output_over_time(runs, runs.treated, title))


def _throughput(runs: Runs) -> Sequence[Finding]:
    results = {name: made.results for name, made in runs.treated.items()}
    least_global = min(results[PENALTY], results[GLOBAL])
    return [
        Finding(
            "Global output with penalty gives more results at run time than global output.",
            shares(runs.only(PENALTY, GLOBAL)),
            ahead(results[PENALTY], results[GLOBAL]),
        ),
        Finding(
            "Both global strategies give many more than local output.",
            shares(runs.only(PENALTY, GLOBAL, LOCAL)),
            ahead(least_global, results[LOCAL], FAR_AHEAD),
        ),
        Finding(
            "Both global strategies give many more than bottom-up.",
            shares(runs.only(PENALTY, GLOBAL, BOTTOM_UP)),
            ahead(least_global, results[BOTTOM_UP], FAR_AHEAD),
        ),
    ]
