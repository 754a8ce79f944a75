"""Strategies that know nothing of results: by place in the plan, by recency, by lot."""

from watersmeet.adapt.spilling.candidates import Pool, Pressure, Worth, draw


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
