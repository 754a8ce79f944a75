"""All strategies by name, and the one question the engine and the simulator ask.

Some know nothing of results: they go by place in the plan, by recency, or by lot. Those of the papers go by
*productivity*: results per byte, of the live generation, counted since it began (Spill 3.2).

| strategy | P_output | divided by |
|---|---|---|
| local output (3.2.1) | results of the operator itself | P_size |
| global output (3.2.2) | results of the query, traced back | P_size |
| global output with penalty (3.2.3) | results of the query, traced back | P_size + P_inter |

P_inter are the bytes of intermediate results that the group caused and that were stored downstream.
"""

from collections.abc import Sequence

from watersmeet.adapt.spilling.adaptive import adaptive
from watersmeet.adapt.spilling.candidates import Candidate, Pool, Pressure, Strategy, Worth, draw, least_worth_first
from watersmeet.model.errors import OptionError, nearest
from watersmeet.model.ids import OperatorId


def bottom_up(pool: Pool, pressure: Pressure) -> Worth:
    """Random groups of the operators furthest from the root, then of the next ones (Spill 3.1.1)."""
    levels: Worth = pool.gather(lambda each: each.live_bytes * 0.0 + each.level)
    return levels + draw(pool, pressure)


def lru(pool: Pool, _: Pressure) -> Worth:
    """The group that was used least recently; an epoch's uses are equal, and decided by lot."""
    return pool.gather(lambda each: each.statistics.last_use)


def by_lot(pool: Pool, pressure: Pressure) -> Worth:
    """Any group."""
    return draw(pool, pressure)


def local_output(pool: Pool, _: Pressure) -> Worth:
    """P_output / P_size with the operator's own output."""
    return pool.gather(lambda each: each.statistics.local_output) / pool.live_bytes


def global_output(pool: Pool, _: Pressure) -> Worth:
    """P_output / P_size with the query's output."""
    return pool.gather(lambda each: each.statistics.global_output) / pool.live_bytes


def global_output_with_penalty(pool: Pool, _: Pressure) -> Worth:
    """P_output / (P_size + P_inter) with the query's output."""
    caused = pool.gather(lambda each: each.statistics.inter_bytes)
    return pool.gather(lambda each: each.statistics.global_output) / (pool.live_bytes + caused)


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
            why="none has that name",
            how=nearest(strategy, STRATEGIES),
        )
    pool = Pool.of(candidates)
    if len(pool.group) == 0:
        return {candidate.operator: () for candidate in candidates}
    return least_worth_first(pool, STRATEGIES[strategy](pool, pressure), pressure)
