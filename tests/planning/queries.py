"""Streams and queries in a few letters, for the tests of planning."""

import pyarrow as pa

from watersmeet.model.plan import Column, Plan
from watersmeet.model.query import JoinNode, Node, Query, StreamNode
from watersmeet.planning import plan
from watersmeet.planning.expressions import Conjunct, conjuncts
from watersmeet.planning.names import Scope

INT, LONG, FLOAT, DOUBLE, TEXT = pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string()


def stream(name: str, **fields: pa.DataType) -> StreamNode:
    """A stream; without fields it has the longs x, y, z and the text t."""
    return StreamNode(name, pa.schema(list((fields or {"x": LONG, "y": LONG, "z": LONG, "t": TEXT}).items())))


A, B, C, D, E = (stream(name) for name in "ABCDE")


def join(*inputs: Node, on: str) -> JoinNode:
    return JoinNode(inputs, on)


def planned(node: Node, *needed: str) -> Plan:
    """The plan; without needed columns all are needed."""
    return plan(Query(node, needed or None))


def keys(made: Plan, operator: str = "join1") -> list[list[str]]:
    """The keys of each input, as SQL."""
    return [[key.sql for key in source.keys] for source in made.operator(operator).inputs]


def shape(made: Plan) -> dict[str, tuple[str, ...]]:
    """The inputs of each operator."""
    return {operator.id: tuple(source.name for source in operator.inputs) for operator in made.operators}


def columns(text: str) -> tuple[Column, ...]:
    """Columns from ``"A.x B.y"``."""
    return tuple(Column(*name.split(".", 1)) for name in text.split())


def parsed(condition: str, *streams: StreamNode, case_sensitive: bool = False) -> list[Conjunct]:
    return list(conjuncts(condition, Scope(streams or (A, B, C), case_sensitive=case_sensitive)))


def texts(condition: str, *streams: StreamNode, case_sensitive: bool = False) -> list[str]:
    return [conjunct.sql for conjunct in parsed(condition, *streams, case_sensitive=case_sensitive)]
