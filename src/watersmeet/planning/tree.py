"""The tree of joins: which inputs are joined together, and on what.

The tree the user wrote stays: what is nested is joined first. A join on one equivalence class is one operator. A join
on several is planned as a tree of operators, greedily, on its *items*, which are at first its inputs:

1. A class covers the items that have a term in it. Every cover of two or more items is a candidate.
2. The keys of a candidate are all classes that cover all of it. Take the candidate with the most keys, of those the
   largest, of those the first in query order, and make it one item.
3. A class that is no key but has terms in several of the joined items becomes a filter on the result.
4. Repeat until one item is left. Items that no class connects are refused.

Invariant: in the rows of an item, all its terms of a class are equal. `links` establish it where an input brings terms
that only the equalities of this join equate, as two columns of one stream.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from watersmeet.model.errors import QueryError
from watersmeet.model.query import FilterNode, JoinNode, Node, StreamNode
from watersmeet.planning.classes import TermClass, join_equality, links, merged
from watersmeet.planning.expressions import Conjunct, conjuncts
from watersmeet.planning.keys import KeyTypes
from watersmeet.planning.names import Scope
from watersmeet.planning.unconnected import unconnected

_INPUTS_MIN = 2


class Branch(msgspec.Struct, frozen=True):
    """A stream, or a join of branches on the classes that are its keys."""

    streams: tuple[str, ...]
    inputs: tuple["Branch", ...] = ()
    keys: tuple[TermClass, ...] = ()


class Grown(NamedTuple):
    """A branch, the classes whose terms are equal in its rows, and the filters that still need a place."""

    branch: Branch
    classes: tuple[TermClass, ...] = ()
    filters: tuple[Conjunct, ...] = ()


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
        return below._replace(filters=(*below.filters, *conditions))
    return _join(node, scope, types)


def _join(node: JoinNode, scope: Scope, types: KeyTypes) -> Grown:
    below = [grow(each, scope, types) for each in node.inputs]
    if len(below) < _INPUTS_MIN:
        raise _too_few(below)
    scope = scope.within(stream for each in below for stream in each.branch.streams)
    conditions = conjuncts(node.on, scope)
    classes = _classes(below, conditions, types)
    branch, late = _combined([each.branch for each in below], classes, scope)
    early = [link for each in below for link in _links_inside(each, classes)]
    mere = [condition for condition in conditions if join_equality(condition) is None]
    inherited = [condition for each in below for condition in each.filters]
    return Grown(branch, classes, (*inherited, *mere, *early, *late))


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


def _combined(items: list[Branch], classes: Sequence[TermClass], scope: Scope) -> tuple[Branch, list[Conjunct]]:
    filters: list[Conjunct] = []
    while len(items) > 1:
        chosen = _choice(items, classes)
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
