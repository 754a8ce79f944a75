"""Rings: joins without an equality, in which every row meets all rows of the other input (PSP).

A row is stored at one site, whichever: a ring's key decides that and nothing else, so it is the row's event time, or
any column of a stream that has none. The conditions that speak of both inputs are the operator's tests, evaluated where
rows meet; those that the kernels cannot evaluate stay filters, which Spark evaluates on every pair that passes. Only
functions of the user's cannot be left to Spark: they are tests of joins with an equality, too, and so is all that can
be asked before them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import pyarrow as pa
from msgspec.structs import replace

from watersmeet.model.errors import NoEqualityError, TypeMismatchError, UnsupportedError
from watersmeet.model.plan import Column, Input, Key, Operator, Plan, Test
from watersmeet.planning.endless import reasons
from watersmeet.planning.expressions import Conjunct, columns_read, conjuncts
from watersmeet.planning.keys import KeyTypes
from watersmeet.planning.matching import Tests
from watersmeet.planning.names import Scope, readable
from watersmeet.planning.predicates import as_written, has_predicate
from watersmeet.planning.pruning import streams_of_inputs
from watersmeet.planning.types import is_integer
from watersmeet.planning.unconnected import unconnected

MakeTests = Callable[[Sequence[Conjunct]], tuple[Test, ...]]


def with_ring_tests(
    operators: Sequence[Operator], scope: Scope, types: KeyTypes
) -> tuple[tuple[Operator, ...], dict[Column, pa.DataType]]:
    """The operators, rings with their keys and tests, and the types of the columns that are computed for these."""
    streams = streams_of_inputs(operators)
    kinds: dict[Column, pa.DataType] = {}
    done = []
    for operator in operators:
        if operator.kind == "ring" or any(map(has_predicate, operator.filters)):
            sides = tuple(streams[each.name] for each in operator.inputs)
            tests = Tests(operator.id, scope, types, sides)
            filters, found = _told_apart(operator, tests)
            inputs = tuple(_computing(each, side, tests) for each, side in zip(operator.inputs, sides, strict=True))
            if operator.kind == "ring":
                read = frozenset().union(*(columns_read(text, scope) for text in operator.filters))
                keys = (_keys(side, read, scope) for side in sides)
                inputs = tuple(replace(each, keys=own) for each, own in zip(inputs, keys, strict=True))
            kinds |= tests.kinds
            done.append(replace(operator, inputs=inputs, filters=filters, tests=found))
        else:
            done.append(operator)
    return tuple(done), kinds


def check_rings(plan: Plan, scope: Scope) -> Plan:
    """The plan, if rows of every ring end some time: else each new row would meet all rows there ever were."""
    streams = streams_of_inputs(plan.operators)
    for ring in (each for each in plan.operators if each.kind == "ring"):
        found = next(reasons(plan, ring, streams), None)
        if found is not None:
            raise _endless([sorted(streams[each.name]) for each in ring.inputs], *found, scope)
    return plan


def refuse_on_one_stream(placed: Mapping[tuple[str, ...], Sequence[str]]) -> None:
    """Refuse functions of the user's that read one stream alone, which Spark can filter before the join."""
    for streams, texts in placed.items():
        text = next((each for each in texts if len(streams) == 1 and has_predicate(each)), None)
        if text is not None:
            raise UnsupportedError(
                f"{as_written(readable(text))} reads stream {streams[0]} alone",
                why="a predicate decides which rows of two streams are joined",
                how=f"filter the DataFrame of {streams[0]} before flow.stream(...), with a pandas or Arrow UDF",
            )


def _told_apart(operator: Operator, tests: Tests) -> tuple[tuple[str, ...], tuple[Test, ...]]:
    """The conditions that are left for Spark, and the others as tests."""
    filters: list[str] = []
    found: list[Test] = []
    for text in operator.filters:
        made = _if_possible(tests.of, text, tests)
        if made is not None:
            found += made
        elif has_predicate(text):
            tests.of(conjuncts(text, tests.scope))  # says why not
        else:
            filters.append(text)
            found += (_if_possible(tests.implied, text, tests) or ()) if operator.kind == "ring" else ()
    for text in filters:  # after all others, whose columns keep their numbers
        found += _if_possible(tests.leading, text, tests) or ()
    return tuple(filters), tuple(found)


def _if_possible(make: MakeTests, text: str, tests: Tests) -> tuple[Test, ...] | None:
    """The tests that are made of a condition; None, and no columns for them, where that cannot be done."""
    computed, kinds = dict(tests.computed), dict(tests.kinds)
    try:
        return make(conjuncts(text, tests.scope))
    except (UnsupportedError, TypeMismatchError):
        tests.computed, tests.kinds = computed, kinds
        return None


def _computing(source: Input, side: frozenset[str], tests: Tests) -> Input:
    return replace(
        source, computed=tuple((column, sql) for column, sql in tests.computed.items() if column.stream in side)
    )


def _keys(side: frozenset[str], read: Iterable[Column], scope: Scope) -> tuple[Key, ...]:
    """What spreads the rows of an input over sites: the times of its streams, else a column that is read anyway."""
    times = [
        column
        for stream in scope.streams
        for column in scope.columns()
        if stream.name in side and column.stream == stream.name and _is_time(column, stream.time, scope)
    ]
    if times:
        return tuple(Key(column.sql, scope.types[column]) for column in times)
    own = scope.ordered(frozenset(column for column in read if column.stream in side))
    whole = next((column for column in own if is_integer(scope.types[column])), None)
    if whole is not None:
        return (Key(f"COALESCE(CAST({whole.sql} AS BIGINT), 0)", pa.int64()),)
    text = next((column for column in own if not pa.types.is_nested(scope.types[column])), None)
    sql = "''" if text is None else f"COALESCE(CAST({text.sql} AS STRING), '')"
    return (Key(sql, pa.string()),)


def _is_time(column: Column, time: str | Column | None, scope: Scope) -> bool:
    name = time.field if isinstance(time, Column) else time
    return name is not None and scope.fold(column.field) == scope.fold(name)


def _endless(parts: Sequence[Sequence[str]], stream: str, why: str, scope: Scope) -> NoEqualityError:
    error = unconnected(parts, scope)
    return NoEqualityError(
        error.what,
        why=f"so every row meets all rows of the other side that live, and {why}",
        how=f'{error.how}; or give streams a window, as in flow.stream("{stream}", df, time="ts", '
        f'window="10 minutes", watermark="1 minute"), or a condition between their times; or set '
        f'option("memoryBudget", "64m"): what does not fit then waits on disk for its results',
    )
