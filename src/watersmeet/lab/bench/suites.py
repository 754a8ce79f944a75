"""All suites by name, in the order in which they run."""

from watersmeet.lab.bench import (
    burst,
    cluster,
    endless,
    fiveway,
    floor,
    growth,
    level,
    memory,
    restart,
    ring,
    sinks,
    skew,
    soak,
    threeway,
    tracing,
    windows,
)
from watersmeet.lab.bench.suite import Suite
from watersmeet.model.errors import OptionError, nearest

_ALL = (
    threeway.SUITE,
    growth.SUITE,
    floor.SUITE,
    fiveway.SUITE,
    memory.SUITE,
    tracing.SUITE,
    cluster.THREEWAY,
    cluster.FIVEWAY,
    sinks.SUITE,
    burst.SUITE,
    restart.SUITE,
    soak.SUITE,
    windows.INNER,
    windows.LEFT,
    windows.CHAIN,
    windows.COUNTED,
    endless.SUITE,
    endless.COST_SUITE,
    ring.BAND_SUITE,
    ring.OVERLAP_SUITE,
    *skew.SUITES,
    level.SUITE,
)
SUITES: dict[str, Suite] = {suite.name: suite for suite in _ALL}
SPILL = "spill"
"""The comparison of spill strategies: no suite, as nothing of it runs on Spark, and run only where it is named."""


def choose(names: list[str]) -> list[Suite]:
    """The suites of some names or families, all where none is given.

    >>> [suite.name for suite in choose([])][:6]
    ['threeway', 'growth', 'floor', 'fiveway', 'memory', 'tracing']
    >>> [suite.name for suite in choose(["cluster"])]
    ['cluster-threeway', 'cluster-fiveway']
    >>> choose(["treeway"])
    Traceback (most recent call last):
    watersmeet.model.errors.OptionError: ...there is no benchmark 'treeway'...id you mean 'threeway'?...
    """
    families = {suite.family for suite in SUITES.values() if suite.family}
    known = [*SUITES, *sorted(families), SPILL]
    for name in names:
        if name not in known:
            raise OptionError(f"there is no benchmark {name!r}", why="none has that name", how=nearest(name, known))
    return [suite for suite in SUITES.values() if not names or suite.name in names or suite.family in names]
