"""From the tree of joins to operators: names, levels, keys, and a place for every filter.

- A filter goes to the lowest place that has all its streams: a stream or an operator. One that has no streams, or whose
  value changes from one evaluation to the next (``rand() < 0.1``), is evaluated once, at the root.
- The root's level is the height of the tree, and a child is one level below its parent. Operators are numbered in the
  order they run: by level, then in query order. Below a ring there is always a level, which tells all of its sites what
  has come to each.
"""

from collections.abc import Iterable, Iterator
from itertools import count

from watersmeet.model.ids import InputName, OperatorId
from watersmeet.model.plan import Input, Operator
from watersmeet.planning.expressions import Conjunct
from watersmeet.planning.keys import KeyTypes, hash_decides, keys_of
from watersmeet.planning.tree import Branch

Placed = dict[tuple[str, ...], tuple[str, ...]]
"""The filters of each branch, known by its streams."""


def place(filters: Iterable[Conjunct], root: Branch, after: Iterable[Conjunct] = ()) -> Placed:
    """Every filter once, at the lowest branch that can evaluate it; those that come ``after`` all joins at the root."""
    placed: Placed = {}
    for condition, home in [
        *((each, _home(each, root).streams) for each in filters),
        *((each, root.streams) for each in after),
    ]:
        texts = placed.get(home, ())
        if condition.sql not in texts or not condition.repeatable:
            placed[home] = (*texts, condition.sql)
    return placed


def operators_of(root: Branch, placed: Placed, types: KeyTypes, *, promised: bool = False) -> tuple[Operator, ...]:
    """The operators bottom-up, still without the columns they keep and hand on."""
    joins = sorted(_joins(root, _height(root) - 1), key=lambda pair: pair[1])
    names = dict(zip((branch.streams for branch, _ in joins), _names(taken=root.streams), strict=False))
    return tuple(_operator(branch, level, names, placed, types, promised=promised) for branch, level in joins)


def _home(condition: Conjunct, branch: Branch) -> Branch:
    if not condition.columns or not condition.repeatable:
        return branch
    below = next((each for each in branch.inputs if condition.streams <= set(each.streams)), None)
    return _home(condition, below) if below else branch


def _height(branch: Branch) -> int:
    below = max(map(_height, branch.inputs)) if branch.inputs else -1
    return 1 + (max(1, below) if branch.is_ring else below)


def _joins(branch: Branch, level: int) -> Iterator[tuple[Branch, int]]:
    if branch.inputs:
        for each in branch.inputs:
            yield from _joins(each, level - 1)
        yield branch, level


def _names(taken: Iterable[str]) -> Iterator[OperatorId]:
    """join1, join2, ... without those that are a stream's name."""
    reserved = {name.lower() for name in taken}
    return (OperatorId(name) for name in map("join{}".format, count(1)) if name not in reserved)


def _operator(
    branch: Branch,
    level: int,
    names: dict[tuple[str, ...], OperatorId],
    placed: Placed,
    types: KeyTypes,
    *,
    promised: bool,
) -> Operator:
    name = names[branch.streams]
    inputs = []
    for each in branch.inputs:
        below = names.get(each.streams)
        keys = keys_of(each.streams, branch.keys, name, types, promised=promised)
        inputs.append(Input(InputName(below or each.streams[0]), keys, state=(), operator=below))
    decides = hash_decides(branch.keys, types)
    kind = "ring" if branch.is_ring else "join" if branch.how == "inner" else "outer"
    return Operator(name, level, tuple(inputs), (), placed.get(branch.streams, ()), decides, kind, how=branch.how)
