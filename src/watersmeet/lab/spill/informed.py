"""A policy that knows all there is to know of the present, and nothing of the future. For the lab only.

It knows every live row, and the distributions that the streams are drawn from at the moment; but neither which rows
will come, nor when the distributions will change, nor when the run will end. It decides by the clairvoyant's rule, on
futures that it draws itself, and by their mean. As with the clairvoyant, the best of its horizons is taken in
hindsight. `adaptive` has to learn from counts what this is told, so this is about as far as learning could get.
"""

from collections.abc import Sequence

import numpy as np

from watersmeet.adapt.spilling import Candidate, Pressure
from watersmeet.adapt.spilling.policy import Choice, Choose
from watersmeet.lab.spill.clairvoyant import consequences, least_lost_first
from watersmeet.lab.spill.futures import Futures
from watersmeet.lab.spill.settings import Setting, Size
from watersmeet.runners.counts import CountsRunner, Decide, Limits, Outcome, simulate

HORIZONS = (3, 6)
FUTURES = Futures(count=4, epochs=max(HORIZONS))


def informed(setting: Setting, size: Size, seed: int, limits: Limits) -> Outcome:
    """The best run of all horizons."""
    workload = setting.workload(size, seed, FUTURES)
    runs = [simulate(workload, limits, _imagining(setting, size, horizon), size.epochs) for horizon in HORIZONS]
    return max(runs, key=lambda outcome: outcome.results)


def _imagining(setting: Setting, size: Size, horizon: int) -> Decide:
    """Decide by what might happen within a horizon."""

    def decide(runner: CountsRunner) -> Choose:
        def choose(candidates: Sequence[Candidate], pressure: Pressure) -> Choice:
            phase = setting.phase_at(pressure.epoch, size)
            spans = [FUTURES.span(size.epochs, phase, number, horizon) for number in range(FUTURES.count)]
            lost, caused = np.mean([consequences(runner, candidates, span) for span in spans], axis=0)
            return least_lost_first(candidates, pressure, lost, caused)

        return choose

    return decide
