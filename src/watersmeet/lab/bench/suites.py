"""All suites by name, in the order in which they run."""

from watersmeet.lab.bench import fiveway, floor, growth, threeway
from watersmeet.lab.bench.suite import Suite
from watersmeet.model.errors import WatersmeetError, nearest

SUITES: dict[str, Suite] = {suite.name: suite for suite in (threeway.SUITE, growth.SUITE, floor.SUITE, fiveway.SUITE)}


def choose(names: list[str]) -> list[Suite]:
    """The suites of some names, all where none is given.

    >>> [suite.name for suite in choose([])]
    ['threeway', 'growth', 'floor', 'fiveway']
    >>> choose(["treeway"])
    Traceback (most recent call last):
    watersmeet.model.errors.WatersmeetError: ...there is no benchmark 'treeway'...id you mean 'threeway'?...
    """
    for name in names:
        if name not in SUITES:
            raise WatersmeetError(
                f"there is no benchmark {name!r}",
                why=f"the names are {', '.join(SUITES)}",
                how=nearest(name, SUITES),
            )
    return [suite for name, suite in SUITES.items() if not names or name in names]
