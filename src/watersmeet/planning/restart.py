"""A changed query on an old checkpoint: which changes the state can serve, and the plan it then goes on with.

State holds what the old query kept. A query that asks for less can go on with it: fewer columns, another name or
expression for a column, and conditions that let fewer rows pass. The plan stays the old one; conditions that are new
are evaluated on the results. So all results from then on are those that the new query wants, also of rows that came
before; results that were given before stay as they are.

Of an outer, semi or anti join, conditions below decide which rows come out alone: they cannot be made up for on the
results. And where conditions between event times let rows go, others would ask for rows that are gone.
"""

from collections.abc import Iterable, Sequence

import msgspec
from sqlglot import exp

from watersmeet.model.plan import Column, Input, Operator, Plan, Stream
from watersmeet.planning.expressions import columns_read, parsed
from watersmeet.planning.lives import reach_of_input
from watersmeet.planning.names import Scope

_ABOVE, _BELOW = (exp.GT, exp.GTE), (exp.LT, exp.LTE)


def continued(old: Plan, new: Plan) -> Plan | None:
    """The plan with which a query goes on with another one's state; None where the state cannot serve it."""
    if [_times(stream) for stream in old.streams] != [_times(stream) for stream in new.streams]:
        return None
    if [_shape(operator) for operator in old.operators] != [_shape(operator) for operator in new.operators]:
        return None
    if not _keeps(old, new) or not _reaches(old, new):
        return None
    filters_of = zip(_filters(old), _filters(new), strict=True)
    placed = [(before, after) for before, after in filters_of if before != after]
    if not all(_implied(before, after) for before, after in placed) or (placed and old.root.how != "inner"):
        return None
    added = [text for before, after in placed for text in after if text not in before]
    filters = tuple(dict.fromkeys([*new.root.filters, *added]))
    operators = [_reaching(before, after) for before, after in zip(old.operators, new.operators, strict=True)]
    operators[-1] = msgspec.structs.replace(operators[-1], filters=filters)
    is_there = _read(filters, new) | set(new.root.output) <= set(old.root.output)
    return msgspec.structs.replace(old, operators=tuple(operators)) if is_there else None


def _reaching(old: Operator, new: Operator) -> Operator:
    """The old operator with the conditions between times that the new one has, and none that lead past its rows."""
    inputs = tuple(
        msgspec.structs.replace(before, reach=after.reach) for before, after in zip(old.inputs, new.inputs, strict=True)
    )
    led = {test.name for test in new.tests if test.leads}
    tests = tuple(test for test in old.tests if not test.leads or test.name in led)
    return msgspec.structs.replace(old, inputs=inputs, tests=tests, time_conditions=new.time_conditions)


def _times(stream: Stream) -> object:
    """Rows that a longer window would join may be gone already, and so may those that promises let go."""
    return stream.name, stream.time, stream.window_us, stream.delay_us, stream.punctuated, stream.unique


def _shape(operator: Operator) -> object:
    inputs = [(each.name, each.operator, [(key.sql, key.type) for key in each.keys]) for each in operator.inputs]
    led = _led(operator)
    computed = [tuple(pair for pair in each.computed if pair[0].name not in led) for each in operator.inputs]
    tests = [test for test in operator.tests if not test.leads]
    does = operator.how, tests, operator.aggregates, operator.renamed, operator.final, operator.mode
    latest = operator.history, operator.order, operator.sliding
    return operator.id, operator.kind, does, latest, operator.hash_decides, inputs, computed


def _led(operator: Operator) -> set[str]:
    """The columns that only lead to rows: a plan without them asks Spark of more pairs, and gives the same."""
    read = [
        {name for test in operator.tests if test.leads == leads for name in test.columns} for leads in (True, False)
    ]
    return read[0] - read[1]


def _keeps(old: Plan, new: Plan) -> bool:
    """Whether the old query kept all that the new one would, in the same types."""
    pairs = zip(_inputs(old), _inputs(new), strict=True)
    led = {name for operator in new.operators for name in _led(operator)}
    wanted = [(before, [column for column in after.state if column.name not in led]) for before, after in pairs]
    return all(
        set(after) <= set(before.state) and all(old.types[column] == new.types[column] for column in after)
        for before, after in wanted
    )


def _reaches(old: Plan, new: Plan) -> bool:
    """Whether the new query joins no rows with each other that the old one did not wait for.

    In an outer join, rows that came with a match would come alone once more.
    """
    if old.root.how != "inner":
        return [reach_of_input(each) for each in _inputs(old)] == [reach_of_input(each) for each in _inputs(new)]
    pairs = (
        (reach_of_input(before), reach_of_input(after))
        for before, after in zip(_inputs(old), _inputs(new), strict=True)
    )
    return all(name in after and after[name] <= later for before, after in pairs for name, later in before.items())


def _filters(plan: Plan) -> list[tuple[str, ...]]:
    """The conditions below the root."""
    return [stream.filters for stream in plan.streams] + [operator.filters for operator in plan.operators[:-1]]


def _inputs(plan: Plan) -> list[Input]:
    return [each for operator in plan.operators for each in operator.inputs]


def _read(texts: Iterable[str], plan: Plan) -> set[Column]:
    scope = Scope(plan.streams, case_sensitive=True)
    return {column for text in texts for column in columns_read(text, scope)}


def _implied(old: Sequence[str], new: Sequence[str]) -> bool:
    """Whether rows that pass the new conditions have passed the old ones."""
    return all(text in new or any(_implies(each, text) for each in new) for text in old)


def _implies(stricter: str, text: str) -> bool:
    """Whether a comparison of a column with a number says more than another.

    >>> _implies("`A`.`x` > 5", "`A`.`x` > 3"), _implies("`A`.`x` > 3", "`A`.`x` > 5")
    (True, False)
    >>> _implies("`A`.`x` IN (1, 2)", "`A`.`x` IN (1, 2, 3)"), _implies("`A`.`x` = 4", "`A`.`x` >= 4")
    (True, True)
    """
    new, old = parsed(stricter, exp.Condition), parsed(text, exp.Condition)
    if not isinstance(new.this, exp.Column) or new.this != old.this:
        return False
    if isinstance(new, exp.In | exp.EQ) and isinstance(old, exp.In):
        return set(_values(new)) <= set(_values(old)) and bool(_values(new))
    bounds = _numbers(new), _numbers(old)
    if not bounds[0] or len(bounds[1]) != 1:
        return False
    limit = bounds[1][0]
    if isinstance(old, _ABOVE) and isinstance(new, (*_ABOVE, exp.EQ, exp.In)):
        is_open = isinstance(old, exp.GT) and not isinstance(new, exp.GT)
        return min(bounds[0]) > limit if is_open else min(bounds[0]) >= limit
    if isinstance(old, _BELOW) and isinstance(new, (*_BELOW, exp.EQ, exp.In)):
        is_open = isinstance(old, exp.LT) and not isinstance(new, exp.LT)
        return max(bounds[0]) < limit if is_open else max(bounds[0]) <= limit
    return False


def _values(tree: exp.Expr) -> list[exp.Expr]:
    values = tree.expressions if isinstance(tree, exp.In) else [tree.expression]
    return values if all(isinstance(value, exp.Literal) for value in values) else []


def _numbers(tree: exp.Expr) -> list[float]:
    values = tree.expressions if isinstance(tree, exp.In) else [tree.args.get("expression")]
    plain = [value for value in values if isinstance(value, exp.Literal) and not value.is_string]
    return [float(value.this) for value in plain] if len(plain) == len(values) else []
