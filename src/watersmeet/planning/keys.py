"""Keys: what each input of an operator is hashed on, and how equality is made sure of.

1. All terms of a class get the type they share (`KeyTypes.shared`); a term of another type is cast to it.
2. -0.0 becomes 0.0, so that equal keys have equal hashes. (Inside structs, Spark's hash and the kernels see to that.)
3. Where an operator has one key of at most 64 bits, equal hashes mean equal keys: the hash decides, and nothing else is
   kept. Otherwise every input keeps the value of each key as well: in the column itself where the key is a column, else
   in a computed column ``#<operator>.<key>``.
"""

from collections.abc import Callable, Collection, Sequence

import pyarrow as pa

from watersmeet.model.errors import TypeMismatchError, UnsupportedError
from watersmeet.model.ids import OperatorId
from watersmeet.model.plan import Column, Key
from watersmeet.planning.classes import TermClass, stream_of
from watersmeet.planning.expressions import Expression
from watersmeet.planning.names import COMPUTED, readable
from watersmeet.planning.types import (
    canonical,
    cast,
    common,
    ddl,
    integer_digits,
    is_float,
    is_integer,
    is_told_by_hash,
    may_be_key,
    with_one_zero,
)

TypeOf = Callable[[str, str], pa.DataType]
"""Tells the type of a SQL expression over the columns of a stream: ``type_of(sql, stream)``."""


class KeyTypes:
    """The types of terms: of columns by the schema, of other expressions by asking ``type_of``, once each."""

    def __init__(self, type_of: TypeOf | None = None) -> None:
        self._type_of = type_of
        self._asked: dict[str, pa.DataType] = {}

    def of(self, term: Expression) -> pa.DataType:
        """The canonical type of a term that may be a key."""
        type_ = term.type if term.type is not None else self._ask(term)
        if not may_be_key(type_):
            raise _no_key(term, type_)
        return type_

    def shared(self, terms: Sequence[Expression]) -> pa.DataType:
        """The type in which all the terms are compared."""
        first, *others = terms
        shared = self.of(first)
        for term in others:
            wider = common(shared, self.of(term))
            if wider is None:
                raise _mismatch(first, shared, term, self.of(term))
            shared = wider
        return shared

    def _ask(self, term: Expression) -> pa.DataType:
        if self._type_of is None:
            raise UnsupportedError(
                f"the type of {readable(term.sql)} is not known",
                why="it is an expression, and there is no Spark session to ask",
                how="plan with type_of, or compute the expression as a column of the stream",
            )
        if term.sql not in self._asked:
            self._asked[term.sql] = canonical(self._type_of(term.sql, stream_of(term)))
        return self._asked[term.sql]


def hash_decides(classes: Sequence[TermClass], types: KeyTypes) -> bool:
    """Whether rows with equal hashes have equal keys."""
    return len(classes) == 1 and is_told_by_hash(types.shared(classes[0].terms))


def keys_of(
    streams: Collection[str],
    classes: Sequence[TermClass],
    operator: OperatorId,
    types: KeyTypes,
    *,
    promised: bool = False,
) -> tuple[Key, ...]:
    """The key of the input that brings those streams, one component for each class.

    Where values are ``promised`` not to come any more, every input keeps those of its key, to be compared with these.
    """
    is_kept = promised or not hash_decides(classes, types)
    keys = []
    for index, each in enumerate(classes):
        type_ = types.shared(each.terms)
        term = _serving(each.of(streams), type_, types)
        column = _home(term, type_, types, f"{COMPUTED}{operator}.{index}") if is_kept else None
        sql = with_one_zero(cast(term.sql, types.of(term), type_), type_)
        keys.append(Key(sql, type_, column, term.column if promised else None))
    return tuple(keys)


def _serving(terms: Sequence[Expression], type_: pa.DataType, types: KeyTypes) -> Expression:
    """Any of the terms would do, as they are equal; one that is a column of the right type costs nothing."""
    return next((term for term in terms if _is_its_own_home(term, type_, types)), terms[0])


def _home(term: Expression, type_: pa.DataType, types: KeyTypes, computed: str) -> Column:
    if term.column and _is_its_own_home(term, type_, types):
        return term.column
    return Column(stream_of(term), computed)


def _is_its_own_home(term: Expression, type_: pa.DataType, types: KeyTypes) -> bool:
    return term.column is not None and types.of(term) == type_ and not is_float(type_)


def _no_key(term: Expression, type_: pa.DataType) -> UnsupportedError:
    name = readable(term.sql)
    if pa.types.is_struct(type_):
        return UnsupportedError(
            f"{name} of type {ddl(type_)} cannot be joined on",
            why="a struct can be a key only where its fields are",
            how=f"compare the fields one by one, as in {name}.{type_.field(0).name}" if len(type_) else "drop it",
        )
    return UnsupportedError(
        f"{name} of type {ddl(type_)} cannot be joined on",
        why="keys are integers, decimals, float, double, string, binary, boolean, date, timestamps, or structs and "
        "arrays of these",
        how=f"join on a value of such a type that is made of it, as in to_json({name})",
    )


def _mismatch(left: Expression, ours: pa.DataType, right: Expression, theirs: pa.DataType) -> TypeMismatchError:
    names = readable(left.sql), readable(right.sql)
    return TypeMismatchError(
        f"{names[0]} is {ddl(ours)} and {names[1]} is {ddl(theirs)}",
        why="the two types are not compared exactly",
        how=_remedy(names, ours, theirs),
    )


def _remedy(names: tuple[str, str], ours: pa.DataType, theirs: pa.DataType) -> str:
    left, right = names
    if pa.types.is_struct(ours) or pa.types.is_struct(theirs):
        return "compare their fields one by one"
    if pa.types.is_decimal(ours) and pa.types.is_decimal(theirs):
        narrow = f"DECIMAL(38, {min(ours.scale, theirs.scale)})"
        return f"cast both sides, as in CAST({left} AS {narrow}) = CAST({right} AS {narrow})"
    if pa.types.is_decimal(ours) != pa.types.is_decimal(theirs) and (is_integer(ours) or is_integer(theirs)):
        whole, name = (ours, left) if is_integer(ours) else (theirs, right)
        digits, other = integer_digits(whole), theirs if is_integer(ours) else ours
        if common(pa.decimal128(digits, 0), other) is None:
            both = f"DECIMAL(38, {38 - digits})"
            return f"cast both sides, as in CAST({left} AS {both}) = CAST({right} AS {both})"
        wide = f"CAST({name} AS DECIMAL({digits}, 0))"
        return f"cast the whole number, as in {f'{wide} = {right}' if name == left else f'{left} = {wide}'}"
    if ours == pa.string():
        return f"cast one side, as in {left} = CAST({right} AS STRING)"
    return f"cast one side, as in CAST({left} AS {ddl(theirs).upper()}) = {right}"
