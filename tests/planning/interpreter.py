"""Plans and queries carried out on lists of rows, row by row: slow, and with nothing left to get wrong.

`answer` evaluates the query as it was written; `outcome` does what the plan says and no more: an operator sees only the
columns its inputs keep, a filter only those that were handed to it. A row is a dict from columns to numbers or None.
"""

import re
from collections import Counter
from itertools import product

from watersmeet.model.plan import Column, Input, Operator, Plan
from watersmeet.model.query import FilterNode, JoinNode, Node, Query, StreamNode
from watersmeet.planning.expressions import columns_of
from watersmeet.planning.tree import streams_of

Row = dict[Column, int | None]
Data = dict[str, list[Row]]


def answer(query: Query, data: Data) -> Counter[tuple[int | None, ...]]:
    streams = streams_of(query.node)
    needed = sorted(set().union(*(columns_of(item, streams) for item in query.needed)))
    return Counter(tuple(row[column] for column in needed) for row in _rows(query.node, data))


def outcome(plan: Plan, query: Query, data: Data) -> Counter[tuple[int | None, ...]]:
    needed = sorted(set().union(*(columns_of(item, plan.streams) for item in query.needed)))
    return Counter(tuple(row[column] for column in needed) for row in _joined(plan.root, plan, data))


def _rows(node: Node, data: Data) -> list[Row]:
    if isinstance(node, StreamNode):
        return data[node.name]
    if isinstance(node, FilterNode):
        return [row for row in _rows(node.input, data) if _holds(node.condition, row)]
    assert isinstance(node, JoinNode)
    combined = (_merged(rows) for rows in product(*(_rows(each, data) for each in node.inputs)))
    return [row for row in combined if _holds(node.on, row)]


def _joined(operator: Operator, plan: Plan, data: Data) -> list[Row]:
    states = [_state(source, operator, plan, data) for source in operator.inputs]
    output = []
    for combination in product(*states):
        keys = {key for key, _ in combination}
        if len(keys) == 1 and None not in keys.pop():
            row = _merged([kept for _, kept in combination])
            output.append({column: row[column] for column in operator.output})
    return [row for row in output if all(_holds(text, row) for text in operator.filters)]


def _state(source: Input, operator: Operator, plan: Plan, data: Data) -> list[tuple[tuple[int | None, ...], Row]]:
    if source.operator:
        rows = _joined(plan.operator(source.operator), plan, data)
    else:
        filters = plan.stream(source.name).filters
        rows = [row for row in data[source.name] if all(_holds(text, row) for text in filters)]
    stored = []
    for row in rows:
        values = tuple(_value(key.sql, row) for key in source.keys)
        full = row | {key.column: value for key, value in zip(source.keys, values, strict=True) if key.column}
        kept = {column: full[column] for column in source.state}
        found = values if operator.hash_decides else tuple(kept[key.column] for key in source.keys)
        stored.append((found, kept))
    return stored


def _merged(rows: tuple[Row, ...] | list[Row]) -> Row:
    return {column: value for row in rows for column, value in row.items()}


def _holds(condition: str, row: Row) -> bool:
    return all(_compares(part, row) for part in condition.split(" AND "))


def _compares(condition: str, row: Row) -> bool:
    left, operator, right = re.fullmatch(r"(.+) ([=<]) (.+)", condition).groups()
    ours, theirs = _value(left, row), _value(right, row)
    if ours is None or theirs is None:
        return False
    return ours == theirs if operator == "=" else ours < theirs


def _value(sql: str, row: Row) -> int | None:
    if sql.isdigit():
        return int(sql)
    stream, field = re.fullmatch(r"(?:CAST\()?`?(\w+)`?\.`?(\w+)`?(?: AS BIGINT\))?", sql).groups()
    return row[Column(stream, field)]
