"""Views: the columns a relation shows, and what a name means in it.

A relation's conditions are kept in terms of the streams' own columns. What `select`, `withColumn` or `alias` make of
them is a *view*: a list of columns, each with the SQL it stands for. SQL that speaks of a view is rewritten at once, so
a view on a view is flat, and the planner never meets one.

A *named* view (a stream, or what has an alias) is one struct column of a joined row; the columns of one without a name
stand in the row by themselves. A name is looked for in this order:

1. a column of the view, or a named view in it: ``x``, ``A.x``, ``A``;
2. the view's own name: ``V.x``;
3. where a column came from: ``A.x`` after ``select("A.x")``;
4. a column of a named view, if only one has it, or if they were joined on it: ``x``.
"""

from collections.abc import Callable, Iterator, Sequence

import msgspec
from sqlglot import exp

from watersmeet.model.errors import QueryError, UnknownNameError, nearest
from watersmeet.model.plan import Column, quoted
from watersmeet.model.query import How, StreamNode
from watersmeet.planning import dialect
from watersmeet.planning.expressions import is_bound, parsed, path_of
from watersmeet.planning.names import spelled


class Output(msgspec.Struct, frozen=True):
    """A column: its name, the canonical SQL it stands for, and the stream's column where it is just that."""

    name: str
    sql: str
    origin: Column | None = None

    def called(self, name: str) -> "Output":
        """The column under another name."""
        return msgspec.structs.replace(self, name=name)


class View(msgspec.Struct, frozen=True):
    """The columns of a relation.

    ``stream`` is set where it is a whole stream, and ``shared`` holds the names its members were joined on. ``how``
    they were joined tells which of two columns that share a name is never missing.
    """

    members: tuple["Output | View", ...]
    name: str | None = None
    stream: str | None = None
    shared: frozenset[str] = frozenset()
    how: How = "inner"
    case_sensitive: bool = False

    @property
    def sql(self) -> str:
        """The view as one struct."""
        if self.stream:
            return quoted(self.stream)
        fields = (f"'{dialect.escaped(each.name or '')}', {each.sql}" for each in self.members)
        return f"NAMED_STRUCT({', '.join(fields)})"

    @property
    def outputs(self) -> tuple[Output, ...]:
        """The columns as a sink gets them: a named view inside is one struct."""
        return tuple(each if isinstance(each, Output) else Output(each.name or "", each.sql) for each in self.members)

    @property
    def is_plain(self) -> bool:
        """Whether it shows the joined rows as they are: one struct for each stream, under the stream's name."""
        return all(isinstance(each, View) and each.stream == each.name for each in self.members)

    def called(self, name: str) -> "View":
        """The view under another name."""
        return msgspec.structs.replace(self, name=name)

    def fold(self, name: str) -> str:
        """The name such that equal names are equal texts."""
        return name if self.case_sensitive else name.lower()

    def opened(self) -> list["View"]:
        """The named views in it, and its other columns by the stream they came from: as Spark has them in a join."""
        if self.name:
            return [self]
        by_stream: dict[str | None, list[Output]] = {}
        for each in self.members:
            if isinstance(each, Output):
                is_its_own = each.origin is not None and each.origin.field == each.name
                by_stream.setdefault(each.origin.stream if each.origin and is_its_own else None, []).append(each)
        loose = [View(tuple(columns), stream) for stream, columns in by_stream.items()]
        return [*(each for each in self.members if isinstance(each, View)), *loose]

    def find(self, parts: Sequence[str]) -> tuple["Output | View", tuple[str, ...]]:
        """What a dotted name means, and the fields nested in it that are left of the name."""
        for search in (self._by_member, self._by_name, self._by_origin, self._by_column):
            if found := search(tuple(parts)):
                return self._only(parts, found)
        raise self._unknown(parts)

    def rewritten(self, sql: str) -> str:
        """SQL that speaks of this view, in terms of the streams' columns."""
        return dialect.write(self.replaced(parsed(sql, exp.Condition)))

    def replaced(self, tree: exp.Expr) -> exp.Expr:
        """An expression with every name replaced by what it means."""
        for column in [each for each in tree.find_all(exp.Column) if not is_bound(each, self.fold)]:
            identifiers, top = path_of(column)
            found, nested = self.find([identifier.name for identifier in identifiers])
            new = _parts(found.sql, nested)
            if top is tree:
                return new
            top.replace(new)
        return tree

    def _by_member(self, parts: tuple[str, ...]) -> "list[Found]":
        found: list[Found] = []
        for each in self.members:
            if each.name is None or self.fold(each.name) != self.fold(parts[0]):
                continue
            if isinstance(each, View) and len(parts) > 1:
                found += each._by_member(parts[1:])  # noqa: SLF001
            else:
                found.append((each, parts[1:]))
        return found

    def _by_name(self, parts: tuple[str, ...]) -> "list[Found]":
        is_own = self.name is not None and self.fold(self.name) == self.fold(parts[0])
        if is_own and len(parts) == 1:
            return [(self, ())]
        return self._by_member(parts[1:]) or self._by_column(parts[1:]) if is_own else []

    def _by_origin(self, parts: tuple[str, ...]) -> "list[Found]":
        wanted = [self.fold(part) for part in parts[:2]]
        columns = [each for each in self.members if isinstance(each, Output) and each.origin]
        found = [each for each in columns if [self.fold(part) for part in each.origin or ()] == wanted]
        return [(each, parts[2:]) for each in found[:1]]

    def _by_column(self, parts: tuple[str, ...]) -> "list[Found]":
        views = [each for each in self.members if isinstance(each, View)]
        return [found for each in views for found in each._by_member(parts) or each._by_column(parts)]  # noqa: SLF001

    def _only(self, parts: Sequence[str], found: "list[Found]") -> "Found":
        if len(found) > 1 and self.fold(parts[0]) not in self.shared:
            owners = [each.name for each in self.members if isinstance(each, View) and each._by_member(tuple(parts))]  # noqa: SLF001
            named = " or ".join(spelled((owner or "", *parts)) for owner in owners)
            raise QueryError(
                f"the name {spelled(parts)} is ambiguous",
                why=f"{len(found)} columns have it",
                how=f"write {named}" if named else "rename all but one of them with withColumnRenamed or AS",
            )
        if len(found) > 1 and self.how == "full":
            either = f"COALESCE({', '.join(each.sql for each, _ in found)})"
            return Output(found[0][0].name or "", either), found[0][1]
        return found[-1] if self.how == "right" else found[0]

    def _unknown(self, parts: Sequence[str]) -> UnknownNameError:
        known = list(self.names())
        inside = next((each for each in self.members if self.fold(each.name or "") == self.fold(parts[0])), None)
        views = [each.name for each in self.members if isinstance(each, View) and each.name]
        if isinstance(inside, View) and len(parts) > 1:
            why = f"{inside.name} has no field {parts[1]}"
            known = [f"{inside.name}.{name}" for name in inside.names()]
        elif len(parts) > 1 and views:
            why = f"there is no stream {parts[0]}; the streams joined here are {', '.join(views)}"
        else:
            why = "no stream joined here has it" if views else "the relation does not have it"
        return UnknownNameError(
            f"there is no column {spelled(parts)}",
            why=why,
            how=f"check the spelling ({nearest(spelled(parts), known)})",
        )

    def names(self) -> Iterator[str]:
        """Every name that can be written, with the named view it is in."""
        for each in self.members:
            if isinstance(each, Output):
                yield spelled([each.name])
            else:
                yield from (f"{spelled([each.name or ''])}.{name}" for name in each.names())


Found = tuple[Output | View, tuple[str, ...]]


def stream_view(stream: StreamNode, *, case_sensitive: bool) -> View:
    """All columns of a stream."""
    columns = [Column(stream.name, name) for name in stream.schema.names]
    members = tuple(Output(column.field, column.sql, column) for column in columns)
    return View(members, stream.name, stream.name, case_sensitive=case_sensitive)


def joined_view(views: Sequence[View], shared: Sequence[str] = (), how: How = "inner") -> View:
    """The columns of a joined row; of a semi or anti join those of its first side."""
    views = views[:1] if how in ("semi", "anti") else views
    fold = views[0].fold
    members = [member for each in views for member in ([each] if each.name else each.members)]
    names = frozenset(map(fold, shared)).union(*(each.shared for each in views if not each.name))
    return View(tuple(members), shared=names, case_sensitive=views[0].case_sensitive, how=how)


def selected(view: View, items: Sequence[str], name_of: Callable[[str], str]) -> tuple[Output | View, ...]:
    """The columns that select items make of a view; ``name_of`` tells what Spark calls an expression without alias."""
    return tuple(each for item in items for each in _item(view, item, name_of))


def item_rewritten(view: View, text: str) -> str:
    """A select item with its alias, in terms of the streams' columns; stars stay as they are."""
    tree = parsed(text, exp.Expr)
    return text if tree.find(exp.Star) else dialect.write(view.replaced(tree))


def _item(view: View, text: str, name_of: Callable[[str], str]) -> Iterator[Output | View]:
    tree = parsed(text, exp.Expr)
    alias = tree.alias if isinstance(tree, exp.Alias) else ""
    body = tree.this if isinstance(tree, exp.Alias) else tree
    if isinstance(body, exp.Star):
        yield from view.members
    elif isinstance(body, exp.Column) and isinstance(body.this, exp.Star):
        yield from _all_of(view, [part.name for part in body.parts[:-1]], text)
    else:
        yield _named(view, body, alias, name_of)


def _all_of(view: View, parts: Sequence[str], text: str) -> tuple[Output | View, ...]:
    found, nested = view.find(parts)
    if isinstance(found, View) and not nested:
        return found.members
    raise QueryError(
        f"'{text}' takes all fields of {spelled(parts)}, which is one column",
        why="only a stream, or a relation with an alias, is taken apart by a star",
        how=f"name the fields, as in {spelled((*parts, 'x'))}",
    )


def _named(view: View, body: exp.Expr, alias: str, name_of: Callable[[str], str]) -> Output | View:
    first = _leftmost(body)
    identifiers, top = path_of(first) if isinstance(first, exp.Column) else ([], None)
    if top is body:
        found, nested = view.find([identifier.name for identifier in identifiers])
        if not nested:
            return found.called(alias) if alias else found
        return Output(alias or nested[-1], dialect.write(_parts(found.sql, nested)))
    sql = dialect.write(view.replaced(body.copy()))
    return Output(alias or name_of(sql), sql)


def _leftmost(tree: exp.Expr) -> exp.Expr:
    while isinstance(tree, exp.Dot):
        tree = tree.this
    return tree


def _parts(sql: str, nested: Sequence[str]) -> exp.Expr:
    """An expression, closed so that it can stand anywhere, and a path of fields in it."""
    tree = parsed(sql, exp.Condition)
    is_closed = isinstance(tree, exp.Column | exp.Dot | exp.Anonymous | exp.Cast | exp.Literal | exp.Paren)
    tree = tree if is_closed else exp.paren(tree)
    for name in nested:
        tree = exp.Dot(this=tree, expression=exp.to_identifier(name, quoted=True))
    return tree
