"""Conditions between event times that mean what SQL says, and of which the engine does not know how far they reach.

They decide which rows are joined, and bound no state: whoever wrote them may think that they do.
"""

from collections.abc import Iterator

from watersmeet.model.plan import Operator, Plan
from watersmeet.planning.describe import test_sql
from watersmeet.planning.expressions import conjuncts
from watersmeet.planning.names import Scope, readable
from watersmeet.planning.reach import closed, reach_of, untold


def unbounded(plan: Plan) -> Iterator[tuple[str, str]]:
    """Conditions that could bound how long rows of a stream are kept, and do not: each with the stream.

    Streams with a window are not meant, nor those of which another condition says how far they reach.
    """
    times = {each.name: each.time for each in plan.streams if each.time}
    endless = {each.name for each in plan.streams if each.window_us is None}
    promising = {each.name for each in plan.streams if each.delay_us is not None}
    scope = Scope(plan.streams, case_sensitive=True)
    conditions = [
        each for operator in plan.operators for text in _conditions(operator) for each in conjuncts(text, scope)
    ]
    known = closed(reach_of(conditions, times))
    for condition in conditions:
        for pair in untold(condition, times):
            if pair not in known and pair[0] in endless and pair[1] in promising:
                yield readable(condition.sql), pair[0]


def _conditions(operator: Operator) -> Iterator[str]:
    yield from operator.filters
    yield from operator.time_conditions
    yield from (test_sql(each, operator) for each in operator.tests)
