"""The measured costs of a query's conditions, as text."""

from collections.abc import Iterator, Mapping

from watersmeet.model.ids import OperatorId
from watersmeet.model.plan import Plan
from watersmeet.operators.costs import Cost, Costs
from watersmeet.planning.describe import sql_of_test
from watersmeet.planning.names import readable

TestCosts = Mapping[OperatorId, tuple[Cost, ...]]
"""The costs of tests, by operator."""

WHOLE_FROM = 10.0
"""From so many per cent on, whole ones are told."""


def cost_lines(plan: Plan, costs: TestCosts) -> Iterator[str]:
    """The tests of each operator in the order of evaluation, with their time and selectivity."""
    for operator in (each for each in plan.operators if any(cost.asked for cost in costs.get(each.id, ()))):
        yield f"conditions of {operator.id}, in the order in which pairs are asked"
        known = Costs.of(operator.tests, costs[operator.id])
        told = ((test, known.known[test]) for test in known.ordered(list(dict.fromkeys(operator.tests))))
        yield from (f"    {readable(sql_of_test(test, operator))}: {_shown(cost)}" for test, cost in told if cost.asked)


def _shown(cost: Cost) -> str:
    """The time of a test and the share of pairs that pass.

    >>> _shown(Cost(1000, 31, 2e-3))
    '2000 ns a pair, 3.1 % pass'
    >>> _shown(Cost(1000, 1000, 2e-3))
    '2000 ns a pair, 100 % pass'
    """
    share = cost.selectivity * 100
    told = f"{share:.0f}" if share >= WHOLE_FROM else f"{share:.2g}"
    return f"{cost.pair_s * 1e9:.0f} ns a pair, {told} % pass"
