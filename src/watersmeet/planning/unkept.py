"""Columns of types that state cannot keep; filters and keys of their stream may read them, as Spark evaluates those."""

import pyarrow as pa

from watersmeet.model.errors import UnsupportedError
from watersmeet.model.plan import Plan

_TYPE, _WHY, _HOW = b"type", b"why", b"how"


def unkept_field(name: str, kind: str, why: str, how: str) -> pa.Field:
    """A field of such a type: its Spark type, and what to say where it is needed."""
    return pa.field(name, pa.null(), metadata={_TYPE: kind.encode(), _WHY: why.encode(), _HOW: how.encode()})


def refuse_unkept(plan: Plan) -> None:
    """Refuse a plan that would keep such a column."""
    kept = {column for operator in plan.operators for each in operator.inputs for column in each.state}
    for stream in plan.streams:
        for field in stream.schema:
            told = field.metadata or {}
            if _TYPE in told and any(column == (stream.name, field.name) for column in kept | set(plan.root.output)):
                raise UnsupportedError(
                    f"column {stream.name}.{field.name} has type {told[_TYPE].decode()}",
                    why=told[_WHY].decode(),
                    how=told[_HOW].decode(),
                )
