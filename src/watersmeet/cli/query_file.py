"""A query as a TOML file: its tables as values, checked key by key before Spark starts.

Every table is converted by itself, so that a message can name the table and its nearest key. Relative paths are
relative to the file, so a file and its data can be moved and run from anywhere.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from watersmeet.cli.query_tables import (
    JoinTable,
    OverTable,
    PunctuationsTable,
    QueryFile,
    SinkTable,
    SparkTable,
    StreamTable,
    Table,
    Tables,
    TriggerTable,
    Value,
)
from watersmeet.model.errors import DuplicateNameError, QueryError, UnknownNameError, nearest
from watersmeet.planning.durations import duration_us
from watersmeet.planning.history import history_of
from watersmeet.planning.kinds import kind_of

AnyTable = TypeVar("AnyTable", bound=msgspec.Struct)
PlacedTable = TypeVar("PlacedTable", StreamTable, PunctuationsTable, SinkTable)
_MODES = ("append", "update")


def load(path: Path) -> QueryFile:
    """Read a file, and refuse unknown keys and wrong values."""
    tables = _convert(_read(path), Tables, str(path))
    query = QueryFile(
        streams={name: _convert(each, StreamTable, f"[streams.{name}]") for name, each in tables.streams.items()},
        punctuations={
            name: _convert(each, PunctuationsTable, f"[punctuations.{name}]")
            for name, each in tables.punctuations.items()
        },
        joins=[_convert(each, JoinTable, f"[[joins]] number {i}") for i, each in enumerate(tables.joins, start=1)],
        sink=_convert(tables.sink, SinkTable, "[sink]"),
        where=tables.where,
        group_by=tables.group_by,
        over=None if tables.over is None else _convert(tables.over, OverTable, "over"),
        aggregate=tables.aggregate,
        having=tables.having,
        select=tables.select,
        distinct=tables.distinct,
        options=tables.options,
        trigger=None if tables.trigger is None else _convert(tables.trigger, TriggerTable, "[trigger]"),
        spark=_convert(tables.spark, SparkTable, "[spark]"),
    )
    for name, stream in query.streams.items():
        _check_times(name, stream)
    _check_punctuations(query)
    _check_groups(query)
    _check_joins(query)
    return _with_paths_from(path.parent.absolute(), query)


def _read(path: Path) -> Table:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise QueryError(
            f"{path} cannot be read", why=str(error.strerror), how="give the path of a query file"
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise QueryError(f"{path} is not TOML", why=str(error), how="correct the line it names") from error


def _convert(table: Table, kind: type[AnyTable], where: str) -> AnyTable:
    known = kind.__struct_fields__
    for key in table:
        if key not in known:
            raise UnknownNameError(
                f"{where} has the key {key!r}", why=f"it may have {', '.join(known)}", how=_hint(key, known)
            )
    try:
        return msgspec.convert(table, kind)
    except msgspec.ValidationError as error:
        how = "correct it; watersmeet run --help lists the keys"
        raise QueryError(f"{where} cannot be used", why=_readable(str(error)), how=how) from error


def _readable(problem: str) -> str:
    """A message of msgspec in the terms of the file.

    >>> _readable("Object missing required field `format`"), _readable("Expected `str`, got `int` - at `$.path`")
    ('it has no key format', 'path: expected str, got int')
    """
    problem, _, place = (
        problem.replace("`", "").replace("Object missing required field", "it has no key").partition(" - at $.")
    )
    return f"{place}: {problem[0].lower()}{problem[1:]}" if place else problem


def _hint(key: str, known: tuple[str, ...]) -> str:
    if key in {"where", "group_by", "over", "aggregate", "having", "select", "distinct"} - set(known):
        return f"write {key} above the first table of the file; below a table's head it belongs to the table"
    if key == "punctuations":
        return "write a table [punctuations.NAME] for them, with the name of the stream"
    return f"correct it ({nearest(key, known)})"


def _check_times(name: str, stream: StreamTable) -> None:
    """Check that durations are valid and belong to streams with a time."""
    lengths = {"window": stream.window, "watermark": stream.watermark}
    for key, length in lengths.items():
        if length is not None:
            duration_us(f"{key} of [streams.{name}]", length, may_be_zero=key == "watermark")
            if stream.time is None:
                raise QueryError(
                    f"[streams.{name}] has a {key} and no time",
                    why=f"a {key} is a length of event time, and the stream has no column for it",
                    how='name the column of its timestamps, as in time = "ts"',
                )


def _check_punctuations(query: QueryFile) -> None:
    """Check that punctuations belong to streams of the file."""
    for name in query.punctuations:
        if name not in query.streams:
            raise UnknownNameError(
                f"the file has [punctuations.{name}] and no [streams.{name}]",
                why="punctuations belong to a stream",
                how=f"correct it ({nearest(name, query.streams)})",
            )


def _check_groups(query: QueryFile) -> None:
    """Check aggregates and output mode."""
    for key, value in {"group_by": query.group_by, "over": query.over, "having": query.having}.items():
        if value is not None and not query.aggregate:
            raise QueryError(
                f"the file has {key} and no aggregate",
                why="groups need aggregates",
                how='write them above all tables, as in aggregate = ["count(*) AS n"]',
            )
    if query.distinct and query.aggregate:
        raise QueryError(
            "the file has distinct and aggregate",
            why="groups differ in what they are grouped by, and cannot be grouped again",
            how="leave one of them out",
        )
    if query.over is not None:
        history_of(query.over.rows, query.over.time)
    mode = query.sink.output_mode
    if mode is not None and mode.lower() not in _MODES:
        raise QueryError(
            f"output_mode of [sink] is {mode!r}",
            why="groups come once, when they are final, or whenever they change",
            how=f"write one of {', '.join(_MODES)}",
        )


def _check_joins(query: QueryFile) -> None:
    """Check that joins read streams or joins above them, and that each of these is read."""
    if not query.joins and (query.aggregate or query.distinct) and len(query.streams) == 1:
        return
    if not query.joins:
        raise QueryError(
            "the file has no [[joins]]",
            why="there is nothing to compute",
            how="add one, or an aggregate of a single stream, or its distinct rows",
        )
    unused = dict.fromkeys(query.streams, "stream")
    for join in query.joins:
        kind_of(join.how)
        for name in join.inputs:
            _use(name, unused, query)
        if join.name is not None:
            _check_new(join.name, query, unused)
            unused[join.name] = "join"
    unused.pop(query.joins[-1].name or "", None)
    for name, kind in unused.items():
        raise QueryError(
            f"{kind} {name} is in no join", why="the last join is the result", how="join it, or take it out of the file"
        )


def _use(name: str, unused: dict[str, str], query: QueryFile) -> None:
    if unused.pop(name, None) is not None:
        return
    names = [*query.streams, *(join.name for join in query.joins if join.name)]
    if name in names:
        raise DuplicateNameError(
            f"{name} is joined twice, or before it is defined",
            why="joins are read from top to bottom, and each result goes into one of them",
            how="put the joins in order; to join a stream with itself, describe it twice under two names",
        )
    raise UnknownNameError(
        f"a join has the input {name!r}",
        why="no stream and no join has that name",
        how=f"correct it ({nearest(name, names)})",
    )


def _check_new(name: str, query: QueryFile, unused: Mapping[str, str]) -> None:
    same = [join for join in query.joins if join.name == name]
    if name in query.streams or name in unused or len(same) > 1:
        raise DuplicateNameError(f"two things are called {name}", why="joins refer to names", how="rename one")


# --- paths -----------------------------------------------------------------------------------------------------------


def _with_paths_from(folder: Path, query: QueryFile) -> QueryFile:
    replace = msgspec.structs.replace

    def placed(table: PlacedTable) -> PlacedTable:
        return replace(table, path=_place(folder, table.path), options=_placed(folder, table.options))

    return replace(
        query,
        streams={name: placed(each) for name, each in query.streams.items()},
        punctuations={name: placed(each) for name, each in query.punctuations.items()},
        sink=placed(query.sink),
        options=_placed(folder, query.options),
    )


def _placed(folder: Path, options: Mapping[str, Value]) -> dict[str, Value]:
    paths = {"path", "checkpointlocation", "rejectedpath", "copylocation"}
    return {
        name: _place(folder, value) if name.lower() in paths and isinstance(value, str) else value
        for name, value in options.items()
    }


def _place(folder: Path, path: Any) -> Any:
    """A relative path in a folder; URLs and absolute paths do not change.

    >>> _place(Path("/home/me"), "data/orders"), _place(Path("/home/me"), "s3://bucket/x")
    ('/home/me/data/orders', 's3://bucket/x')
    """
    if path is None or ":" in path.partition("/")[0]:
        return path
    return str(folder / path)
