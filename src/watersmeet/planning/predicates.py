"""Functions of the user's in a condition: they are called by names of ours, which no function of Spark's has."""

import re

PREFIX = "wm_predicate_"
_CALL = re.compile(rf"(?:^|[^`.\w]){PREFIX}\w+\(", re.IGNORECASE)


def predicate_name(number: int, function: str) -> str:
    """What a function is called in conditions and plans; the same query gives it the same name.

    >>> predicate_name(1, "<lambda>"), is_predicate(predicate_name(2, "near"))
    ('wm_predicate_1_lambda', True)
    """
    return f"{PREFIX}{number}_{re.sub(r'[^a-z0-9_]', '', function.lower())}"


def function_name(name: str) -> str:
    """What the user calls a function.

    >>> function_name(predicate_name(12, "near"))
    'near'
    """
    return name.removeprefix(PREFIX).split("_", 1)[-1]


def is_predicate(name: str) -> bool:
    """Whether a function is the user's."""
    return name.lower().startswith(PREFIX)


def has_predicate(sql: str) -> bool:
    """Whether a condition calls a function of the user's.

    >>> has_predicate("wm_predicate_1_near(A.x, B.x)"), has_predicate("A.x = 'wm_predicate_'")
    (True, False)
    """
    return _CALL.search(sql) is not None
