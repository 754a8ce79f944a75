"""What the experiments of the paper on spilling have in common: settings and strategies."""

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
