"""Columns: state keeps what something above reads, and nothing else.

From the root down:

1. An operator's output is what its parent (the query's consumer, for the root) needs, and what its own filters read.
2. An input keeps the part of that output that comes from its streams, and the key values where hashes do not decide.
3. An operator below must hand on what the input keeps and what the keys are computed of.

The hash of a key is computed before a row is stored, so a key's columns are not kept on its account.
"""

from collections.abc import Collection, Iterable, Sequence

import msgspec

from watersmeet.model.ids import InputName
from watersmeet.model.plan import Column, Input, Operator
from watersmeet.planning.expressions import columns_read
from watersmeet.planning.names import Scope


def prune(
    operators: Sequence[Operator], scope: Scope, needed: Sequence[str] | None, more: Collection[Column] = ()
) -> tuple[Operator, ...]:
    """The operators with the columns they keep and hand on; ``more`` are needed besides what is said in SQL."""
    streams = streams_of_inputs(operators)
    wanted = {operators[-1].id: _read(["*"] if needed is None else needed, scope) | frozenset(more)}
    pruned: list[Operator] = []
    for operator in reversed(operators):
        output = wanted[operator.id] | _read(operator.filters, scope)
        tested = frozenset().union(*(test.columns for test in operator.tests))
        compared = {column for column in scope.columns() if column.name in tested}
        inputs = tuple(_kept(each, output | compared, streams[each.name], scope) for each in operator.inputs)
        wanted |= {each.operator: _asked(each, scope) for each in inputs if each.operator}
        pruned.append(msgspec.structs.replace(operator, inputs=inputs, output=scope.ordered(output)))
    return tuple(reversed(pruned))


def _kept(source: Input, output: Iterable[Column], own: Collection[str], scope: Scope) -> Input:
    read = {column for column in output if column.stream in own}
    values = {key.column for key in source.keys if key.column} | {column for column, _ in source.computed}
    return msgspec.structs.replace(source, state=scope.ordered(read | values))


def _asked(source: Input, scope: Scope) -> frozenset[Column]:
    """What an input needs of the operator below: computed keys are made of its output, not part of it."""
    stored = frozenset(column for column in source.state if column in scope.types)
    return stored | _read([*(key.sql for key in source.keys), *(sql for _, sql in source.computed)], scope)


def streams_of_inputs(operators: Sequence[Operator]) -> dict[InputName, frozenset[str]]:
    """The streams that each input brings."""
    found: dict[InputName, frozenset[str]] = {}
    for operator in operators:
        for each in operator.inputs:
            found.setdefault(each.name, frozenset({each.name}))
        found[InputName(operator.id)] = frozenset().union(*(found[each.name] for each in operator.inputs))
    return found


def _read(texts: Iterable[str], scope: Scope) -> frozenset[Column]:
    return frozenset().union(*(columns_read(text, scope) for text in texts))
