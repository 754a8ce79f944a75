"""Plans of one query that join its streams in another order."""

import pyarrow as pa
from msgspec.structs import replace

from watersmeet.model.ids import InputName, OperatorId
from watersmeet.model.plan import Plan
from watersmeet.model.query import JoinNode, Node, Query, StreamNode
from watersmeet.planning import plan

SCHEMA = pa.schema({"k": pa.int64(), "m": pa.int64(), "id": pa.int64()})
CONDITIONS = ("A.k = B.k", "B.m = C.m")
NEEDED = ("A.k", "A.id", "B.m", "B.id", "C.id")
A, B, C = (StreamNode(name, SCHEMA) for name in "ABC")


def lower_first(needed: tuple[str, ...] = NEEDED) -> Plan:
    """A and B are joined first."""
    return _planned(JoinNode((JoinNode((A, B), CONDITIONS[0]), C), CONDITIONS[1]), needed)


def upper_first() -> Plan:
    """The same query, with B and C joined first by operators of other names, and the same columns of results."""
    other = _planned(JoinNode((JoinNode((B, C), CONDITIONS[1]), A), CONDITIONS[0]), NEEDED)
    renamed = with_ids(other, {"join1": "join3", "join2": "join4"})
    *below, root = renamed.operators
    return replace(renamed, operators=(*below, replace(root, output=lower_first().root.output)))


def with_ids(some: Plan, names: dict[str, str]) -> Plan:
    """The same plan with other names of operators."""

    def renamed(source):
        name = names.get(str(source.operator))
        return replace(source, name=InputName(name), operator=OperatorId(name)) if name else source

    operators = tuple(
        replace(each, id=OperatorId(names[each.id]), inputs=tuple(map(renamed, each.inputs))) for each in some.operators
    )
    return replace(some, operators=operators)


def _planned(node: Node, needed: tuple[str, ...]) -> Plan:
    return plan(Query(node, needed))
