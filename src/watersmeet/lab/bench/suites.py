"""All suites by name, in the order in which they run."""

from watersmeet.lab.bench import fiveway, floor, growth, memory, threeway, tracing
from watersmeet.lab.bench.suite import Suite
from watersmeet.model.errors import WatersmeetError, nearest

SUITES: dict[str, Suite] = {each.SUITE.name: each.SUITE for each in (threeway, growth, floor, fiveway, memory, tracing)}


SPILL = "spill"
"""The comparison of spill strategies: no suite, as nothing of it runs on Spark, and run only where it is named."""


def choose(names: list[str]) -> list[Suite]:
    """The suites of some names, all where none is given.

    >>> [suite.name for suite in choose([])]
    ['threeway', 'growth', 'floor', 'fiveway', 'memory', 'tracing']
    >>> choose(["treeway"])
    Traceback (most recent call last):
    watersmeet.model.errors.WatersmeetError: ...there is no benchmark 'treeway'...id you mean 'threeway'?...
    """
    for name in names:
        if name not in {*SUITES, SPILL}:
            raise WatersmeetError(
                f"there is no benchmark {name!r}",
                why=f"the names are {', '.join([*SUITES, SPILL])}",
                how=nearest(name, [*SUITES, SPILL]),
            )
    return [suite for name, suite in SUITES.items() if not names or name in names]
