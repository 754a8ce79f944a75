"""The tree of joins: which inputs are joined together, and on what.

The tree the user wrote stays: what is nested is joined first. A join on one equivalence class is one operator. A join
on several is planned as a tree of operators, greedily, on its *items*, which are at first its inputs:

1. A class covers the items that have a term in it. Every cover of two or more items is a candidate.
2. The keys of a candidate are all classes that cover all of it. Take the candidate with the most keys, of those the
   largest, of those the first in query order, and make it one item.
3. A class that is no key but has terms in several of the joined items becomes a filter on the result.
4. Repeat until one item is left. Of items that no class connects, the first two that a condition speaks of are
   joined as a *ring*, without a key: every row meets all rows of the other (`watersmeet.planning.ring`).
5. Items that no condition connects are refused.

Invariant: in the rows of an item, all its terms of a class are equal. `links` establish it where an input brings terms
that only the equalities of this join equate, as two columns of one stream.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from watersmeet.model.errors import QueryError, UnsupportedError
from watersmeet.model.query import AggregateNode, FilterNode, How, JoinNode, Node, StreamNode
from watersmeet.planning.classes import Equality, TermClass, join_equality, links, merged, stream_of
from watersmeet.planning.expressions import Conjunct, conjuncts
from watersmeet.planning.keys import KeyTypes
from watersmeet.planning.names import Scope
from watersmeet.planning.unconnected import unconnected

_INPUTS_MIN = 2


class Branch(msgspec.Struct, frozen=True):
    """A stream, or a join of branches on the classes that are its keys; ``tests`` are what else an outer join is on.

    A join without keys is a ring.
    """

    streams: tuple[str, ...]
    inputs: tuple["Branch", ...] = ()
    keys: tuple[TermClass, ...] = ()
    how: How = "inner"
    tests: tuple[Conjunct, ...] = ()

    @property
    def is_ring(self) -> bool:
        """Whether it is a join without keys."""
        return bool(self.inputs) and not self.keys


class Grown(NamedTuple):
    """A branch, the classes whose terms are equal in its rows, and the filters that still need a place.

    Filters that come ``after`` an outer join are evaluated on its results, and nowhere below.
    """

    branch: Branch
    classes: tuple[TermClass, ...] = ()
    filters: tuple[Conjunct, ...] = ()
    after: tuple[Conjunct, ...] = ()


def streams_of(node: Node) -> tuple[StreamNode, ...]:
    """The streams of a query, in query order."""
    if isinstance(node, StreamNode):
        return (node,)
    inputs = node.inputs if isinstance(node, JoinNode) else (node.input,)
    return tuple(stream for each in inputs for stream in streams_of(each))


def grow(node: Node, scope: Scope, types: KeyTypes) -> Grown:
    """The tree of joins for a logical tree."""
    if isinstance(node, StreamNode):
        return Grown(Branch((node.name,)))
    if isinstance(node, FilterNode):
        below = grow(node.input, scope, types)
        conditions = conjuncts(node.condition, scope.within(below.branch.streams))
        if below.branch.how != "inner":
            return below._replace(after=(*below.after, *conditions))
        return below._replace(filters=(*below.filters, *conditions))
    if isinstance(node, AggregateNode):
        raise UnsupportedError(
            "an aggregate is joined", why="it is the last step of a query", how="join first, and aggregate the results"
        )
    return _join(node, scope, types) if node.how == "inner" else _outer(node, scope, types)


def _join(node: JoinNode, scope: Scope, types: KeyTypes) -> Grown:
    below = [grow(each, scope, types) for each in node.inputs]
    if len(below) < _INPUTS_MIN:
        raise _too_few(below)
    _refuse_outer(below)
    scope = scope.within(stream for each in below for stream in each.branch.streams)
    conditions = conjuncts(node.on, scope)
    classes = _classes(below, conditions, types)
    mere = [condition for condition in conditions if join_equality(condition) is None]
    branch, late = _combined([each.branch for each in below], classes, mere, scope)
    early = [link for each in below for link in _links_inside(each, classes)]
    inherited = [condition for each in below for condition in each.filters]
    return Grown(branch, classes, (*inherited, *mere, *early, *late))


def _outer(node: JoinNode, scope: Scope, types: KeyTypes) -> Grown:
    """An outer, semi or anti join of two relations: its condition decides on matches, and drops nothing.

    What concerns the rows of a side alone that come out only if they match is a filter on that side.
    """
    below = [grow(each, scope, types) for each in node.inputs]
    if len(below) != _INPUTS_MIN:
        raise QueryError(
            f"a join of {len(below)} relations is {node.how!r}",
            why="which rows have no match is a question to two sides",
            how="join all but the last with inner joins first, as in a.join(b, ...).join(c, ..., how='left')",
        )
    _refuse_outer(below)
    sides = [frozenset(each.branch.streams) for each in below]
    scope = scope.within(stream for side in sides for stream in side)
    conditions = conjuncts(node.on, scope)
    equalities = [pair for each in conditions if (pair := _between(each, sides)) is not None]
    keys = tuple(TermClass(tuple(sorted(pair, key=lambda term: stream_of(term) in sides[1]))) for pair in equalities)
    for key in keys:
        types.shared(key.terms)
    if not keys:
        raise unconnected([each.branch.streams for each in below], scope, node.how)
    rest = [each for each in conditions if _between(each, sides) is None]
    optional = {"left": (1,), "right": (0,), "semi": (1,), "anti": (1,)}.get(node.how, ())
    sunk = [
        each for each in rest if each.repeatable and any(each.columns and each.streams <= sides[n] for n in optional)
    ]
    tests = tuple(each for each in rest if each not in sunk)
    streams = tuple(stream for each in below for stream in each.branch.streams)
    branch = Branch(streams, tuple(each.branch for each in below), keys, node.how, tests)
    return Grown(branch, (), (*(each for grown in below for each in grown.filters), *sunk))


def _between(condition: Conjunct, sides: Sequence[frozenset[str]]) -> Equality | None:
    """The terms of an equality between the two sides."""
    equality = join_equality(condition)
    is_across = equality is not None and (stream_of(equality[0]) in sides[0]) != (stream_of(equality[1]) in sides[0])
    return equality if is_across else None


def _refuse_outer(below: Sequence[Grown]) -> None:
    outer = next((each.branch for each in below if each.branch.how != "inner"), None)
    if outer is not None:
        raise UnsupportedError(
            f"{'an' if outer.how == 'anti' else 'a'} {outer.how} join of {', '.join(outer.streams)} is joined with "
            f"something else",
            why="an outer, semi or anti join is the last join of a query",
            how="join the other relations first, with inner joins, and this one last",
        )


def _classes(below: Sequence[Grown], conditions: Sequence[Conjunct], types: KeyTypes) -> tuple[TermClass, ...]:
    equalities = [equality for condition in conditions if (equality := join_equality(condition))]
    for equality in equalities:
        types.shared(equality)
    classes = merged((known for each in below for known in each.classes), equalities)
    for each in classes:
        types.shared(each.terms)
    return classes


def _links_inside(grown: Grown, classes: Sequence[TermClass]) -> list[Conjunct]:
    return [link for each in classes for link in links(each.of(grown.branch.streams), grown.classes)]


def _combined(
    items: list[Branch], classes: Sequence[TermClass], conditions: Sequence[Conjunct], scope: Scope
) -> tuple[Branch, list[Conjunct]]:
    filters: list[Conjunct] = []
    while len(items) > 1:
        chosen = _choice(items, classes) or _ring(items, conditions)
        if not chosen:
            raise unconnected([item.streams for item in items], scope)
        inputs = tuple(items[place] for place in chosen)
        keys = [each for each in classes if set(chosen) <= set(_cover(each, items))]
        filters += _links_between(inputs, [each for each in classes if each not in keys])
        items[chosen[0]] = _joined(inputs, keys)
        items = [item for place, item in enumerate(items) if place not in chosen[1:]]
    return items[0], filters


def _joined(inputs: tuple[Branch, ...], keys: Sequence[TermClass]) -> Branch:
    streams = tuple(stream for each in inputs for stream in each.streams)
    return Branch(streams, inputs, tuple(TermClass(each.of(streams)) for each in keys))


def _choice(items: Sequence[Branch], classes: Sequence[TermClass]) -> tuple[int, ...]:
    """The places of the items to join next; none where no class covers two."""
    covers = [_cover(each, items) for each in classes]
    candidates = {cover for cover in covers if len(cover) >= _INPUTS_MIN}

    def rank(candidate: tuple[int, ...]) -> tuple[int, int, tuple[int, ...]]:
        keys = sum(set(candidate) <= set(cover) for cover in covers)
        return (-keys, -len(candidate), candidate)

    return min(candidates, key=rank, default=())


def _ring(items: Sequence[Branch], conditions: Sequence[Conjunct]) -> tuple[int, ...]:
    """The places of two items that a condition speaks of, and of as few others as possible.

    If none does, it is a cross join, where that was said: by conditions on each, or by one on no stream, as TRUE. Else
    there are none: somebody has forgotten a condition.
    """
    read = [tuple(n for n, item in enumerate(items) if each.streams & set(item.streams)) for each in conditions]
    best = min((places for places in read if len(places) >= _INPUTS_MIN), key=len, default=())
    if best:
        return best[:_INPUTS_MIN]
    named = range(len(items)) if () in read else sorted({place for places in read for place in places})
    return tuple(named[:_INPUTS_MIN]) if len(named) >= _INPUTS_MIN else ()


def _cover(each: TermClass, items: Sequence[Branch]) -> tuple[int, ...]:
    return tuple(place for place, item in enumerate(items) if each.of(item.streams))


def _links_between(inputs: Sequence[Branch], classes: Sequence[TermClass]) -> list[Conjunct]:
    """One link for each further input with terms of a class; inside an input they are equal already."""
    firsts = [[terms[0] for item in inputs if (terms := each.of(item.streams))] for each in classes]
    return [link for terms in firsts for link in links(terms)]


def _too_few(below: Sequence[Grown]) -> QueryError:
    names = ", ".join(stream for each in below for stream in each.branch.streams) or "nothing"
    return QueryError(
        f"a join has {len(below)} input ({names})", why="it takes two or more", how="name the relations to join it with"
    )
