"""A plan in words: for people (`explain`), for recognising a checkpoint (`fingerprint`), and what tells two apart.

A fingerprint holds all of a plan that decides what is in its state: streams with their pushed filters, operators with
their keys, and the columns each input keeps. What happens to the rows of the root is not in it: a query may be
restarted with another filter or projection on top as long as the same columns are kept.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import cast

import msgspec
import pyarrow as pa

from watersmeet.model.plan import Column, Input, Operator, Plan, Stream, Test
from watersmeet.planning.describe_ring import ring_lines, within
from watersmeet.planning.durations import written
from watersmeet.planning.expressions import NULL_SAFE
from watersmeet.planning.history import history_shown
from watersmeet.planning.lives import reach_of_input
from watersmeet.planning.names import readable
from watersmeet.planning.predicates import function_name
from watersmeet.planning.types import ddl, with_its_own_zero
from watersmeet.planning.windows import window_shown

_INDENT = "    "
_ONE_GROUP = "nothing: all rows are one group"
_ALONE = {"not": "NOT ({})", "negate": "-({})", "abs": "ABS({})", "number": "{}"}
_SIGNS = {
    "add": "+",
    "subtract": "-",
    "multiply": "*",
    "eq": "=",
    "ne": "<>",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "null_safe_eq": "<=>",
}


def explain(plan: Plan, groups: int, sites: int) -> str:
    """The plan as text, the root first and what feeds an operator below it.

    >>> import pyarrow as pa
    >>> from watersmeet.model.query import JoinNode, Query, StreamNode
    >>> from watersmeet.planning.planner import plan
    >>> a, b = (StreamNode(name, pa.schema([("x", pa.int64()), ("v", pa.string())])) for name in "AB")
    >>> print(explain(plan(Query(JoinNode((a, b), "A.x = B.x AND B.v > 'm'"), ("A.v",))), groups=300, sites=4))
    1 operator over 2 streams; 300 partition groups an operator, on 4 sites
    <BLANKLINE>
    join1 joins A, B
        on A.x = B.x (bigint, decided by the hash)
        output A.v
        input A keeps A.v
        input B keeps the hash alone
            where B.v > 'm'
    """
    size = f"{_count(plan.operators, 'operator')} over {_count(plan.streams, 'stream')}"
    head = f"{size}; {groups} partition groups an operator, on {sites} site{'s' if sites != 1 else ''}"
    return "\n".join([head, "", *_operator_lines(plan.root, plan)])


def _deeds(operator: Operator, plan: Plan) -> Iterator[str]:
    """What an aggregate groups by and tells of its groups, and when; with the expressions that are computed for it."""
    if operator.kind == "aggregate":
        inputs = (source for each in plan.operators for source in each.inputs)
        computed = {column.name: window_shown(sql) for source in inputs for column, sql in source.computed}
        yield f"an aggregate in mode {operator.mode}"
        if operator.history is not None and operator.order is not None:
            order = computed.get(operator.order.name, operator.order.name)
            yield f"over {history_shown(operator.history)}, ordered by {order}"
        yield f"by {_names(computed.get(name, name) for _, name in operator.renamed) or _ONE_GROUP}"
        for each in operator.aggregates:
            argument = computed.get(each.argument, each.argument) if each.argument else "*"
            yield f"telling {each.function}({argument}) as {each.name}"


def _operator_lines(operator: Operator, plan: Plan) -> Iterator[str]:
    kind = " (ring)" if operator.kind == "ring" else "" if operator.how == "inner" else f" ({operator.how})"
    verb = "groups" if operator.kind == "aggregate" else "joins"
    yield f"{operator.id} {verb} {_names(source.name for source in operator.inputs)}{kind}"
    for place, key in enumerate(operator.inputs[0].keys if operator.kind not in ("aggregate", "ring") else ()):
        texts = [readable(with_its_own_zero(source.keys[place].sql)) for source in operator.inputs]
        test = "decided by the hash" if operator.hash_decides else "found by the hash, then compared"
        yield f"{_INDENT}on {_equality(texts, key.type)}, {test})"
    yield from (f"{_INDENT}{readable(with_its_own_zero(text))}" for text in _deeds(operator, plan))
    if operator.kind == "ring":
        yield from (_INDENT + readable(line) for line in ring_lines(operator, plan, sql_of_test))
    else:
        yield from (f"{_INDENT}and on {readable(sql_of_test(test, operator))}" for test in operator.tests)
        yield from (f"{_INDENT}where {readable(text)}" for text in (*operator.time_conditions, *operator.filters))
    yield f"{_INDENT}output {_names(column.name for column in operator.output) or 'no columns, rows only'}"
    for source in operator.inputs:
        yield from (_INDENT + line for line in _input_lines(source, plan))


def _equality(sides: Sequence[str], type_: pa.DataType) -> str:
    if pa.types.is_struct(type_) and [field.name for field in type_] == [NULL_SAFE]:
        held = [re.sub(rf"NAMED_STRUCT\('{NULL_SAFE}', (.+?)\)(?= AS |$)", r"\1", side) for side in sides]
        return f"{' <=> '.join(held)} ({ddl(type_.field(0).type)}"
    return f"{' = '.join(sides)} ({ddl(type_)}"


def _input_lines(source: Input, plan: Plan) -> Iterator[str]:
    yield f"input {source.name} keeps {_names(column.name for column in source.state) or 'the hash alone'}"
    if source.operator:
        yield from (_INDENT + line for line in _operator_lines(plan.operator(source.operator), plan))
    else:
        stream = plan.stream(source.name)
        yield from (f"{_INDENT}where {readable(text)}" for text in stream.filters)
        yield from (f"{_INDENT}{text}" for text in _times(stream))


def _times(stream: Stream) -> Iterator[str]:
    """What is said of a stream's event times, and promised of its values."""
    if stream.time is not None:
        yield f"time {stream.time.name}"
        if stream.window_us is not None:
            yield f"window {written(stream.window_us)}"
        if stream.delay_us is not None:
            yield f"watermark {written(stream.delay_us)}"
    if stream.punctuated is not None:
        yield f"punctuations of {_names(column.name for column in stream.punctuated) or 'its end'}"
    if stream.unique:
        yield f"unique {_names(column.name for column in stream.unique)}"


class _Stream(msgspec.Struct, frozen=True):
    name: str
    columns: dict[str, str]
    filters: list[str]
    time: list[str] = []


class _Input(msgspec.Struct, frozen=True):
    name: str
    keys: list[str]
    types: list[str]
    state: list[str]
    reach: list[str] = []


class _Operator(msgspec.Struct, frozen=True):
    id: str
    inputs: list[_Input]
    filters: list[str]
    how: str = "inner"
    tests: list[str] = []
    does: list[str] = []


class _Fingerprint(msgspec.Struct, frozen=True):
    streams: list[_Stream]
    operators: list[_Operator]


def fingerprint(plan: Plan) -> dict[str, object]:
    """What of a plan decides what is in its state, as plain lists, dicts and texts.

    >>> import pyarrow as pa
    >>> from watersmeet.model.query import JoinNode, Query, StreamNode
    >>> from watersmeet.planning.planner import plan
    >>> a, b = (StreamNode(name, pa.schema([("x", pa.int64()), ("v", pa.string())])) for name in "AB")
    >>> fingerprint(plan(Query(JoinNode((a, b), "A.x = B.x"), ("A.v",))))["streams"]
    [{'name': 'A', 'columns': {'v': 'string'}, 'filters': [], 'time': []}, {'name': 'B', 'columns': {}, 'filters': [], \
'time': []}]
    """
    kept = sorted({column for operator in plan.operators for source in operator.inputs for column in source.state})
    streams = [
        _Stream(stream.name, _typed(stream.name, kept, plan), list(stream.filters), list(_times(stream)))
        for stream in sorted(plan.streams, key=lambda stream: stream.name)
    ]
    operators = [_operator(each, plan) for each in plan.operators]
    return cast("dict[str, object]", msgspec.to_builtins(_Fingerprint(streams, operators)))


def _typed(stream: str, kept: Sequence[Column], plan: Plan) -> dict[str, str]:
    return {column.field: ddl(plan.types[column]) for column in kept if column.stream == stream}


def _operator(operator: Operator, plan: Plan) -> _Operator:
    inputs = [
        _Input(
            name=source.name,
            keys=[key.sql for key in source.keys],
            types=[ddl(key.type) for key in source.keys],
            state=[column.name for column in source.state],
            reach=[f"{name} up to {later} microseconds later" for name, later in reach_of_input(source).items()],
        )
        for source in operator.inputs
    ]
    tests = [sql_of_test(test, operator) for test in operator.tests]
    filters = [] if operator is plan.root else list(operator.filters)
    return _Operator(operator.id, inputs, filters, operator.how, tests, list(_deeds(operator, plan)))


def sql_of_test(test: Test | str, operator: Operator, *, quoted: bool = False) -> str:
    """A condition on pairs of rows as SQL, over the columns of streams; to be read by people, or ``quoted`` for SQL."""
    if isinstance(test, str) or test.leads:
        computed = {column.name: sql for source in operator.inputs for column, sql in source.computed}
        names = {each.name: each.sql for source in operator.inputs for each in source.state} if quoted else {}
        return {**names, **computed}.get(test, test) if isinstance(test, str) else f"{test.name}, about"
    sides = [sql_of_test(each, operator, quoted=quoted) for each in test.arguments]
    if test.function == "within":
        return within(test, *sides)
    if test.function in ("call", "starts_with"):
        name = "startswith" if test.function == "starts_with" else function_name(test.name)
        return f"{name}({', '.join(sides)})"
    if test.function in _ALONE:
        return _ALONE[test.function].format(*sides, test.low)
    if test.function == "and" and sides[0] == sides[-1]:  # a condition on one row alone
        return sides[0]
    return f" {_SIGNS.get(test.function, test.function.upper())} ".join(
        side if isinstance(each, str) or each.function in ("abs", "number") else f"({side})"
        for side, each in zip(sides, test.arguments, strict=True)
    )


def difference(old: Mapping[str, object], new: Mapping[str, object]) -> str:
    """The first thing in which a checkpoint's fingerprint differs from a query's, in words; empty where none does.

    >>> v = {"streams": [{"name": "B", "columns": {"v": "bigint"}, "filters": []}], "operators": []}
    >>> w = {"streams": [{"name": "B", "columns": {"v": "string"}, "filters": []}], "operators": []}
    >>> difference(v, w)
    'stream B has column v bigint in the checkpoint, string in the query'
    """
    try:
        ours, theirs = msgspec.convert(old, _Fingerprint), msgspec.convert(new, _Fingerprint)
    except msgspec.ValidationError as error:
        return f"the checkpoint describes its query in another way ({error})"
    return next(_differences(ours, theirs), "")


def _differences(old: _Fingerprint, new: _Fingerprint) -> Iterator[str]:
    before, after = ({stream.name: stream for stream in each.streams} for each in (old, new))
    yield from _unlike("the query reads the streams", before, after)
    for name in before:
        yield from _stream_differences(before[name], after[name])
    yield from _unlike("the operators are", [each.id for each in old.operators], [each.id for each in new.operators])
    for operator, other in zip(old.operators, new.operators, strict=True):
        yield from _operator_differences(operator, other)


def _stream_differences(old: _Stream, new: _Stream) -> Iterator[str]:
    for column, type_ in old.columns.items():
        if new.columns.get(column, type_) != type_:
            yield f"stream {old.name} has column {column} {type_} in the checkpoint, {new.columns[column]} in the query"
    yield from _unlike(f"stream {old.name} keeps", old.columns, new.columns)
    yield from _unlike(f"stream {old.name} is filtered by", old.filters, new.filters)
    yield from _unlike(f"stream {old.name} has", old.time, new.time)


def _operator_differences(old: _Operator, new: _Operator) -> Iterator[str]:
    yield from _unlike(f"{old.id} joins", [each.name for each in old.inputs], [each.name for each in new.inputs])
    yield from _unlike(f"the kind of {old.id} is", [old.how], [new.how])
    yield from _unlike(f"{old.id} is", old.does, new.does)
    yield from _unlike(f"{old.id} is also on", old.tests, new.tests)
    for source, other in zip(old.inputs, new.inputs, strict=True):
        what = f"input {source.name} of {old.id}"
        yield from _unlike(f"{what} is joined on", source.keys, other.keys)
        yield from _unlike(f"{what} has keys of type", source.types, other.types)
        yield from _unlike(f"{what} keeps", source.state, other.state)
        yield from _unlike(f"by its conditions, {what} is joined with rows of", source.reach, other.reach)
    yield from _unlike(f"the output of {old.id} is filtered by", old.filters, new.filters)


def _unlike(what: str, old: Iterable[str], new: Iterable[str]) -> Iterator[str]:
    before, after = list(old), list(new)
    if before != after:
        yield f"{what} {_said(before)} in the checkpoint, {_said(after)} in the query"


def _said(texts: Iterable[str]) -> str:
    return ", ".join(readable(text) for text in texts) or "nothing"


def _names(names: Iterable[str]) -> str:
    return ", ".join(names)


def _count(things: Sequence[object], name: str) -> str:
    return f"{len(things)} {name}{'s' if len(things) != 1 else ''}"
