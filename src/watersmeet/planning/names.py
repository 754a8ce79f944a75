"""Names: which column a reference such as ``A.x.y`` means.

1. The first part names a stream, the second a field of its schema, further parts fields nested in that one.
2. Upper and lower case are the same unless the query is case sensitive; what comes out is spelled as the schema has it.
3. A name that is not there is refused with the nearest one that is.

A `Scope` holds the streams a piece of SQL may speak of: those below the join or filter it was written for.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa

from watersmeet.model.errors import DuplicateNameError, QueryError, UnknownNameError, UnsupportedError, nearest
from watersmeet.model.plan import Column, Stream, quoted
from watersmeet.model.query import StreamNode
from watersmeet.planning.types import canonical, ddl

Source = StreamNode | Stream

COMPUTED = "#"
"""The first letter of computed columns, which no field of a stream may have."""


class Reference(NamedTuple):
    """A resolved name: the column, the fields nested in it, and the type at the end where the schema tells it."""

    column: Column
    nested: tuple[str, ...]
    type: pa.DataType | None

    @property
    def parts(self) -> tuple[str, ...]:
        """The whole path, canonically spelled."""
        return (*self.column, *self.nested)


class Scope:
    """The streams a piece of SQL may name, in query order.

    >>> scope = Scope([StreamNode("A", pa.schema([("Price", pa.int32())]))])
    >>> scope.reference(["a", "price"]).column
    Column(stream='A', field='Price')
    """

    def __init__(self, streams: Iterable[Source], *, case_sensitive: bool = False) -> None:
        self.streams = tuple(streams)
        self.case_sensitive = case_sensitive
        self.types = {
            Column(stream.name, field.name): canonical(field.type) for stream in self.streams for field in stream.schema
        }
        self._place = {column: place for place, column in enumerate(self.types)}

    def within(self, names: Iterable[str]) -> "Scope":
        """The part of the scope that has only the streams of those names."""
        kept = frozenset(names)
        return Scope((stream for stream in self.streams if stream.name in kept), case_sensitive=self.case_sensitive)

    def extended(self, computed: Mapping[Column, pa.DataType]) -> "Scope":
        """The same with columns that are computed, which no SQL names."""
        scope = Scope(self.streams, case_sensitive=self.case_sensitive)
        scope.types = {**self.types, **computed}
        scope._place = {column: place for place, column in enumerate(scope.types)}
        return scope

    def columns(self) -> tuple[Column, ...]:
        """Every column of every stream: streams in query order, fields in schema order."""
        return tuple(self.types)

    def columns_of(self, stream: str) -> frozenset[Column]:
        """Every column of the stream of that exact name."""
        return frozenset(column for column in self.types if column.stream == stream)

    def ordered(self, columns: Iterable[Column]) -> tuple[Column, ...]:
        """The columns without repetition, in the order of `columns`, computed ones last."""
        return tuple(sorted(set(columns), key=lambda column: (self._place.get(column, len(self._place)), column)))

    def fold(self, name: str) -> str:
        """The name such that equal names are equal texts."""
        return name if self.case_sensitive else name.lower()

    def stream(self, name: str) -> Source | None:
        """The stream a name means, or None."""
        found = self._match(name, [stream.name for stream in self.streams])
        return next((stream for stream in self.streams if stream.name == found), None)

    def reference(self, parts: Sequence[str]) -> Reference:
        """The column that a dotted name means."""
        stream = self.stream(parts[0])
        if stream is None:
            raise self._unknown_stream(parts)
        if len(parts) == 1:
            raise _not_a_column(stream)
        field = self._match(parts[1], stream.schema.names)
        if field is None:
            raise _unknown_field(parts[:2], [f"{stream.name}.{known}" for known in stream.schema.names])
        return self._nested(Column(stream.name, field), stream.schema.field(field).type, parts[2:])

    def _nested(self, column: Column, at: pa.DataType | None, names: Sequence[str]) -> Reference:
        path: tuple[str, ...] = ()
        for name in names:
            path = (*path, self._step((*column, *path), at, name))
            at = _member(at, path[-1])
        return Reference(column, path, None if at is None else canonical(at))

    def _step(self, parents: Sequence[str], at: pa.DataType | None, name: str) -> str:
        if at is None or pa.types.is_map(at):
            return name
        while _is_list(at):
            at = at.value_type
        if not pa.types.is_struct(at):
            raise _not_a_struct(parents, at, name)
        known = [field.name for field in at]
        found = self._match(name, known)
        if found is None:
            raise _unknown_field((*parents, name), [spelled((*parents, other)) for other in known])
        return found

    def _match(self, name: str, known: Sequence[str]) -> str | None:
        matches = [other for other in known if self.fold(other) == self.fold(name)]
        if len(matches) > 1:
            raise QueryError(
                f"the name {name} is ambiguous",
                why=f"without regard to case it can mean {' or '.join(matches)}",
                how="set spark.sql.caseSensitive to true or rename one of them",
            )
        return matches[0] if matches else None

    def _unknown_stream(self, parts: Sequence[str]) -> UnknownNameError:
        owners = [stream.name for stream in self.streams if self._match(parts[0], stream.schema.names)]
        if owners:
            return UnknownNameError(
                f"{spelled(parts)} does not say which stream it belongs to",
                why="a joined row has one struct of columns for each stream",
                how="write " + " or ".join(spelled((owner, *parts)) for owner in owners),
            )
        names = [stream.name for stream in self.streams]
        if len(parts) == 1:
            return _unknown_field(parts, [column.name for column in self.columns()])
        return UnknownNameError(
            f"there is no stream {parts[0]}, which {spelled(parts)} names",
            why=f"the streams joined here are {', '.join(names)}",
            how=f"check the spelling ({nearest(parts[0], names)})",
        )


def spelled(parts: Sequence[str]) -> str:
    """A name as a user would write it, with backquotes only where they are needed.

    >>> print(spelled(["A", "x"]), spelled(["A", "unit price"]))
    A.x A.`unit price`
    """
    return ".".join(part if re.fullmatch(r"[A-Za-z_]\w*", part) else quoted(part) for part in parts)


def readable(sql: str) -> str:
    """Canonical SQL without the backquotes that are not needed.

    >>> readable("`A`.`x` > `A`.`unit price`")
    'A.x > A.`unit price`'
    """
    return re.sub(r"(?<!`)`([A-Za-z_]\w*)`(?!`)", r"\1", sql)


def check_names(streams: Sequence[Source], *, case_sensitive: bool) -> None:
    """Refuse streams that share a name, and fields no column can be named after."""
    seen: dict[str, str] = {}
    for stream in streams:
        folded = stream.name if case_sensitive else stream.name.lower()
        if folded in seen:
            raise _twice(seen[folded], stream.name)
        seen[folded] = stream.name
        _check_fields(stream)


def _check_fields(stream: Source) -> None:
    names = stream.schema.names
    for name in names:
        if name.startswith(COMPUTED):
            raise UnsupportedError(
                f"stream {stream.name} has a column {name}",
                why=f"names that begin with {COMPUTED} are kept for computed keys",
                how="rename the column with withColumnRenamed",
            )
        if names.count(name) > 1:
            raise DuplicateNameError(
                f"stream {stream.name} has {names.count(name)} columns named {name}",
                why="a column is known by its name alone",
                how="rename all but one of them",
            )


def _is_list(at: pa.DataType) -> bool:
    return bool(pa.types.is_list(at) or pa.types.is_large_list(at) or pa.types.is_fixed_size_list(at))


def _member(at: pa.DataType | None, name: str) -> pa.DataType | None:
    """The type of a struct's field; None past arrays and maps, where only Spark knows."""
    return at.field(name).type if at is not None and pa.types.is_struct(at) else None


def _not_a_column(stream: Source) -> QueryError:
    example = spelled((stream.name, stream.schema.names[0])) if stream.schema.names else f"{stream.name}.x"
    return QueryError(
        f"{stream.name} is a stream, not a column",
        why="conditions are about columns",
        how=f"name one of its columns, such as {example}",
    )


def _not_a_struct(parents: Sequence[str], at: pa.DataType, name: str) -> UnknownNameError:
    return UnknownNameError(
        f"{spelled(parents)} has no field {name}",
        why=f"it is no struct but {ddl(canonical(at))}",
        how=f"write {spelled(parents)}",
    )


def _unknown_field(parts: Sequence[str], known: Sequence[str]) -> UnknownNameError:
    return UnknownNameError(
        f"there is no column {spelled(parts)}",
        why="no stream joined here has it" if len(parts) == 1 else f"{spelled(parts[:-1])} has no field {parts[-1]}",
        how=f"check the spelling ({nearest(spelled(parts), known)})",
    )


def _twice(first: str, second: str) -> DuplicateNameError:
    both = f"the name {first}" if first == second else f"the names {first} and {second}, which differ only in case"
    return DuplicateNameError(
        f"two inputs of the query have {both}",
        why="columns are identified by their stream's name, and a stream is joined at most once",
        how=f'register the DataFrame a second time for a self-join, as in flow.stream("{second}2", df)',
    )
