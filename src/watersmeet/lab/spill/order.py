"""Where the papers' order of strategies holds: penalty above global output above local output (Spill 6.2).

Their penalty pays where groups differ in how many intermediate results they need for a final one (Spill, Figure 10). So
every second of Join1's groups fans out: its values come t times as often, which makes t * t times the results of a join
of three. All but one in t * t of these match nothing at Join2, so that all groups still yield as much for their size.
Everything else is equal.
"""

from collections.abc import Sequence
from itertools import pairwise

import msgspec

from watersmeet.lab.spill.settings import RATIOS, FanOut, Setting, Size
from watersmeet.lab.spill.trial import try_out

STRATEGIES = ("global-output-with-penalty", "global-output", "local-output")
CLEARLY = 1.01
"""Less than one in a hundred is no order."""


class Order(msgspec.Struct, frozen=True):
    """Shares of the unlimited results."""

    setting: str
    budget: float
    penalty: float
    global_output: float
    local_output: float

    @property
    def holds(self) -> bool:
        """Whether each is clearly above the next."""
        return self.penalty > CLEARLY * self.global_output and self.global_output > CLEARLY * self.local_output

    @property
    def found(self) -> str:
        """The order that was found instead, with = where there is none."""
        shares = {"penalty": self.penalty, "global": self.global_output, "local": self.local_output}
        names = sorted(shares, key=lambda name: -shares[name])
        signs = [" > " if shares[one] > CLEARLY * shares[two] else " = " for one, two in pairwise(names)]
        return "".join(name + sign for name, sign in zip(names, [*signs, ""], strict=True))


def order_of(setting: Setting, budget: float, size: Size, seeds: Sequence[int]) -> Order:
    """Try out the papers' three strategies."""
    scores = try_out(setting, budget, size, seeds, STRATEGIES).scores
    times = setting.fan_out.times if setting.fan_out else 1
    return Order(f"{setting.name}, x{times:g}", budget, *(scores[name].results for name in STRATEGIES))


def _fans_out(times: float) -> FanOut:
    return FanOut(times, dropped=1 - 1 / times**2)


ORDER_SETTINGS = tuple(Setting("fan-out", ratios, _fans_out(times)) for ratios in RATIOS for times in (1, 2, 4, 8))
