"""All strategies by name, and the one question the engine and the simulator ask."""

from collections.abc import Sequence

from watersmeet.adapt.spilling.adaptive import adaptive
from watersmeet.adapt.spilling.baselines import bottom_up, by_lot, lru
from watersmeet.adapt.spilling.candidates import Candidate, Pool, Pressure, Strategy, least_worth_first
from watersmeet.adapt.spilling.productivity import global_output, global_output_with_penalty, local_output
from watersmeet.model.errors import OptionError, nearest
from watersmeet.model.ids import OperatorId

STRATEGIES: dict[str, Strategy] = {
    "adaptive": adaptive,
    "global-output-with-penalty": global_output_with_penalty,
    "global-output": global_output,
    "local-output": local_output,
    "bottom-up": bottom_up,
    "lru": lru,
    "random": by_lot,
}
DEFAULT_STRATEGY = "adaptive"


def choose(strategy: str, candidates: Sequence[Candidate], pressure: Pressure) -> dict[OperatorId, tuple[int, ...]]:
    """The groups to spill, by operator.

    >>> import numpy as np
    >>> from watersmeet.adapt.statistics import Observation, Statistics
    >>> nothing = np.zeros(2)
    >>> seen = Observation(np.array([40.0, 40.0]), np.array([1.0, 9.0]), np.array([1.0, 9.0]), nothing)
    >>> join1 = Candidate(OperatorId("join1"), 0, None, seen.arrived_bytes, Statistics.cold(2).after(seen, epoch=1))
    >>> choose("local-output", [join1], Pressure(budget_bytes=70, live_bytes=80, fraction=0.3, epoch=1))
    {'join1': (0,)}
    """
    if strategy not in STRATEGIES:
        raise OptionError(
            f"there is no spill strategy {strategy!r}",
            why=f"the names are {', '.join(STRATEGIES)}",
            how=nearest(strategy, STRATEGIES),
        )
    pool = Pool.of(candidates)
    if len(pool.group) == 0:
        return {candidate.operator: () for candidate in candidates}
    return least_worth_first(pool, STRATEGIES[strategy](pool, pressure), pressure)
