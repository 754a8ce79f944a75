"""Functions of the user's in a condition: they are called by names of ours, which no function of Spark's has."""

import re

from msgspec.structs import replace

from watersmeet.model.query import AggregateNode, FilterNode, JoinNode, Node

PREFIX = "wm_predicate_"
_NAMED = re.compile(rf"(?<![`.\w]){PREFIX}\w+(?=\()", re.IGNORECASE)


def numbered(node: Node) -> tuple[Node, dict[str, str]]:
    """A query whose functions are numbered as they come in it, and what they were called before, by their new names.

    So the same query has the same names, whatever else was written before it.
    """
    old: dict[str, str] = {}
    return _numbered(node, old), {new: name for name, new in old.items()}


def _numbered(node: Node, known: dict[str, str]) -> Node:
    if isinstance(node, JoinNode):
        inputs = tuple(_numbered(each, known) for each in node.inputs)
        return replace(node, inputs=inputs, on=_renamed(node.on, known))
    if isinstance(node, FilterNode):
        below = _numbered(node.input, known)
        return replace(node, input=below, condition=_renamed(node.condition, known))
    return replace(node, input=_numbered(node.input, known)) if isinstance(node, AggregateNode) else node


def _renamed(sql: str, known: dict[str, str]) -> str:
    def name(found: re.Match[str]) -> str:
        old = found.group(0).lower()
        return known.setdefault(old, predicate_name(len(known) + 1, function_name(old)))

    return _NAMED.sub(name, sql)


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


def as_written(sql: str) -> str:
    """A condition with functions under the names that the user knows.

    >>> as_written("WM_PREDICATE_1_NEAR(A.x, B.x) OR A.y = B.y")
    'near(A.x, B.x) OR A.y = B.y'
    """
    return _NAMED.sub(lambda found: function_name(found.group(0).lower()), sql)


def functions_in(sql: str) -> list[str]:
    """The functions of the user's that a condition calls, under the names that the user knows.

    >>> functions_in("wm_predicate_1_near(A.x, B.x)")
    ['near']
    """
    return [function_name(found.lower()) for found in _NAMED.findall(sql)]


def is_predicate(name: str) -> bool:
    """Whether a function is the user's."""
    return name.lower().startswith(PREFIX)


def has_predicate(sql: str) -> bool:
    """Whether a condition calls a function of the user's.

    >>> has_predicate("wm_predicate_1_near(A.x, B.x)"), has_predicate("A.x = 'wm_predicate_'")
    (True, False)
    """
    return _NAMED.search(sql) is not None
