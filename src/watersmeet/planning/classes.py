"""Equivalence classes: which terms are equal in every row of a join.

A *term* is a column, or an expression over columns of one stream. An equality of terms of two streams joins them; by
transitivity ``A.x = B.y AND B.y = C.z`` makes one class of three terms, which one operator can join on. Classes only
ever grow: a join inherits those of its inputs and adds its own equalities.
"""

from collections.abc import Collection, Iterable

import msgspec

from watersmeet.planning.expressions import Conjunct, Expression

Equality = tuple[Expression, Expression]


class TermClass(msgspec.Struct, frozen=True):
    """Terms that are equal, in the order they were met."""

    terms: tuple[Expression, ...]

    def of(self, streams: Collection[str]) -> tuple[Expression, ...]:
        """The terms that read one of the streams."""
        return tuple(term for term in self.terms if stream_of(term) in streams)


def stream_of(term: Expression) -> str:
    """The one stream a term reads."""
    (stream,) = term.streams
    return stream


def join_equality(conjunct: Conjunct) -> Equality | None:
    """The two terms where a conjunct equates expressions of two streams; None where it is a mere filter.

    A COLLATE makes texts equal that have different hashes, so such an equality does not join.
    """
    if conjunct.sides is None or not conjunct.repeatable or conjunct.collated:
        return None
    left, right = conjunct.sides
    joins = len(left.streams) == len(right.streams) == 1 and left.streams != right.streams
    return (left, right) if joins else None


def merged(classes: Iterable[TermClass], equalities: Iterable[Equality]) -> tuple[TermClass, ...]:
    """The classes after more equalities; a class stands where the first of its parts stood."""
    grown = list(classes)
    for equality in equalities:
        touched = [each for each in grown if any(term in each.terms for term in equality)]
        terms = [term for each in touched for term in each.terms]
        place = grown.index(touched[0]) if touched else len(grown)
        grown = [each for each in grown if each not in touched]
        grown.insert(place, TermClass(tuple(dict.fromkeys([*terms, *equality]))))
    return tuple(grown)


def links(terms: Iterable[Expression], known: Iterable[TermClass] = ()) -> tuple[Conjunct, ...]:
    """The filters that make terms equal which are not in the same one of the classes known to hold already."""
    classes = tuple(known)
    representatives: dict[Expression, Expression] = {}
    for term in terms:
        home = next((each.terms[0] for each in classes if term in each.terms), term)
        representatives.setdefault(home, term)
    chosen = tuple(representatives.values())
    return tuple(_equal(chosen[0], other) for other in chosen[1:])


def _equal(left: Expression, right: Expression) -> Conjunct:
    return Conjunct(f"{left.sql} = {right.sql}", left.columns | right.columns)
