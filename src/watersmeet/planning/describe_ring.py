"""A ring in words: its rounds, how rows are spread, and how the rows are found that its conditions ask for."""

from collections.abc import Callable, Iterator

import pyarrow as pa

from watersmeet.model.plan import Operator, Plan, Test

Told = Callable[[Test, Operator], str]

DIGITS_IN_LONG = 18
_COMPARED = ("eq", "lt", "le", "gt", "ge")


def ring_lines(operator: Operator, plan: Plan, told: Told) -> Iterator[str]:
    """What a ring does, a line for each condition."""
    rings = [each.id for each in plan.operators if each.kind == "ring"]
    spread = ", ".join(key.sql for source in operator.inputs for key in source.keys)
    yield f"round {rings.index(operator.id) + 1} of {len(rings)}: new rows go to all sites, each is stored at one"
    yield f"rows are spread over sites by {spread}"
    if operator.is_windowed:
        yield "on lives that overlap, found by binary search"
    yield from (f"on {text}, found by binary search" for text in operator.time_conditions)
    for test in sorted(operator.tests, key=lambda each: not is_found(each, plan)):
        how = "found by binary search" if is_found(test, plan) else "asked of the pairs that are left"
        yield f"on {told(test, operator)}, {how}"
    yield from (f"where {text}, asked of the results by Spark" for text in operator.filters)


def is_found(test: Test, plan: Plan) -> bool:
    """Whether the rows that pass a test lie together in an order (`watersmeet.operators.ring.ranges`)."""
    names = [each for each in test.arguments if isinstance(each, str)]
    types = [kind for column, kind in plan.columns if column.name in names]
    is_ordered = all(_is_sorted(kind) for kind in types)
    if test.function == "within":
        return test.high is not None or isinstance(test.low, int)
    if test.function == "starts_with":
        return True
    if test.function == "or":
        return all(_is_branch_found(each, plan) for each in test.arguments if isinstance(each, Test))
    return test.function in _COMPARED and len(names) == len(test.arguments) and is_ordered


def _is_branch_found(test: Test, plan: Plan) -> bool:
    parts = [each for each in test.arguments if isinstance(each, Test)] if test.function == "and" else [test]
    return any(is_found(each, plan) for each in parts)


def within(test: Test, left: str, right: str) -> str:
    """A difference within limits, as SQL.

    >>> within(Test("within", ("A.x", "B.y"), -4, 4), "A.x", "B.y")
    'A.x - B.y BETWEEN -4 AND 4'
    """
    difference = f"{left} - {right}"
    if test.low is not None and test.high is not None and not test.excluded:
        return f"{difference} BETWEEN {test.low} AND {test.high}"
    more, less = (">", "<") if test.excluded else (">=", "<=")
    above = [f"{difference} {more} {test.low}"] if test.low is not None else []
    below = [f"{difference} {less} {test.high}"] if test.high is not None else []
    return " AND ".join([*above, *below])


def _is_sorted(kind: pa.DataType) -> bool:
    whole = pa.types.is_integer(kind) or pa.types.is_timestamp(kind) or pa.types.is_date32(kind)
    is_short = pa.types.is_decimal(kind) and kind.precision <= DIGITS_IN_LONG
    is_text = pa.types.is_string(kind) or pa.types.is_binary(kind)
    return bool(whole or is_short or is_text or pa.types.is_floating(kind))
