"""A policy that knows the stream to come: how much of the loss is for want of knowledge. For the lab only.

It spills by the same rule as `watersmeet.adapt.spilling.adaptive`, but where that estimates, this looks:

1. The run is continued on a copy of its state for H epochs of the true stream, without spills. Then again with all of
   one operator's state spilled, for each operator. Groups of one operator never meet, so the difference in final
   results traced to a group is exactly what would be lost if this group alone were spilled now, and the difference in
   intermediate bytes exactly what it would have caused.
2. Worth is what is lost, for the bytes that are live or are caused and go to groups that are usually kept.
3. The run is done for each of `HORIZONS`, and the best is taken, in hindsight.

This is no upper bound: it is greedy, one spill at a time, and ignores that spills act on each other. It is a very good
policy whose every number is true, down to single rows that happen to arrive; no policy without that knowledge was seen
to beat it by more than noise.
"""

from collections.abc import Sequence

import numpy as np

from watersmeet.adapt.spilling import Candidate, Pressure
from watersmeet.adapt.spilling.candidates import Pool, least_worth_first
from watersmeet.adapt.spilling.model import live_of
from watersmeet.adapt.spilling.policy import Choice, Choose
from watersmeet.adapt.statistics import Floats
from watersmeet.runners.counts import CountsRunner, Decide, Limits, Outcome, Workload, simulate
from watersmeet.runners.counts.operator import Operator, Results

HORIZONS = (3, 6, 12)


def clairvoyant(workload: Workload, limits: Limits, horizons: Sequence[int] = HORIZONS) -> Outcome:
    """The best run of all horizons."""
    runs = [simulate(workload, limits, foreseeing(horizon)) for horizon in horizons]
    return max(runs, key=lambda outcome: outcome.results)


def foreseeing(horizon: int) -> Decide:
    """Decide by what will happen within a horizon."""

    def decide(runner: CountsRunner) -> Choose:
        def choose(candidates: Sequence[Candidate], pressure: Pressure) -> Choice:
            begin = pressure.epoch + 1
            future = range(begin, min(begin + horizon, runner.workload.epochs))
            return least_lost_first(candidates, pressure, *consequences(runner, candidates, future))

        return choose

    return decide


def least_lost_first(candidates: Sequence[Candidate], pressure: Pressure, lost: Floats, caused: Floats) -> Choice:
    """Spill what loses least for the bytes that are live or would be caused."""
    pool = Pool.of(candidates)
    worth = lost[pool.place, pool.group] / (pool.live_bytes + caused[pool.place, pool.group])
    return least_worth_first(pool, worth, pressure)


def consequences(run: CountsRunner, candidates: Sequence[Candidate], future: range) -> tuple[Floats, Floats]:
    """What spilling a group loses in some epochs, and what it saves downstream, by level and group."""
    kept = [live_of(candidate).kept for candidate in candidates]
    present = [_present(*each) for each in zip(run.operators, candidates, strict=True)]
    with_all = _continued(present, future, kept, None)
    shape = (len(present), run.workload.groups)
    lost, caused = np.zeros(shape), np.zeros(shape)
    for level in range(len(present)):
        without = _continued(present, future, kept, level)
        lost[level] = with_all[0][level] - without[0][level]
        caused[level] = with_all[1][level] - without[1][level]
    return lost, caused


def _present(operator: Operator, candidate: Candidate) -> Operator:
    """An operator as it will be after the spills that are decided: other sites may have been asked just before."""
    twin, gone = operator.copy(), (operator.live_bytes > 0) & (candidate.statistics.size_bytes == 0)
    if gone.any():
        twin.spill(gone)
    return twin


def _continued(
    present: Sequence[Operator], epochs: range, kept: Sequence[Floats], spilled: int | None
) -> tuple[Floats, Floats]:
    """Final results, and intermediate bytes that stay, by level and group; one level may be spilled first."""
    operators = [operator.copy() for operator in present]
    shape = (len(operators), operators[0].groups)
    results, stored = np.zeros(shape), np.zeros(shape)
    if spilled is not None:
        operators[spilled].spill(np.ones(shape[1], dtype=bool))
    for epoch in epochs:
        completed = _step(operators, epoch)
        staying = [_staying(*each) for each in zip(completed[:-1], operators[1:], kept[1:], strict=True)]
        for level in range(shape[0]) if spilled is None else [spilled]:
            results[level] += operators[-1].traced(level, completed[-1])
            for above in range(level, shape[0] - 1):
                stored[level] += operators[above].traced(level, staying[above])
    return results, stored


def _step(operators: Sequence[Operator], epoch: int) -> list[Results]:
    completed: list[Results] = []
    for operator in operators:
        _, results = operator.take(epoch, completed[-1] if completed else None)
        completed.append(results)
    return completed


def _staying(below: Results, operator: Operator, kept: Floats) -> Results:
    """The bytes of results that go to groups that are usually kept."""
    return Results(below.paths, operator.row_bytes[-1] * below.counts * kept[operator.below_group[below.paths]])
