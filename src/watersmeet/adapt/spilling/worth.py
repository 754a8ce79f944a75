"""What groups are worth to keep for a while: steps 1 and 2 of `adaptive`."""

from collections.abc import Sequence

import numpy as np

from watersmeet.adapt.spilling.model import Facts, Live, forecast, prices
from watersmeet.adapt.statistics import Floats, exposure


def worths(facts: Sequence[Facts], live: Sequence[Live], horizon: float) -> list[Floats]:
    """For every operator and group, results lost within the horizon for a byte freed; endless where it holds none."""
    live = [state.within(horizon) for state in live]
    arrived, _ = forecast(facts, live, horizon)
    value, cost = prices(facts, live, arrived)
    return [_worth(*each) for each in zip(facts, live, arrived, value, cost, strict=True)]


def _worth(facts: Facts, live: Live, arrived: Live, value: float, cost: float) -> Floats:
    combinations = exposure(live.good + arrived.good) - exposure(live.good) - exposure(arrived.good)
    lost = facts.rate * combinations
    taken = live.size.sum(axis=0) + lost * cost * facts.burden
    brought = lost * value * facts.merit
    worth: Floats = np.divide(brought, taken, out=np.full(len(taken), np.inf), where=live.size.sum(axis=0) > 0)
    return worth
