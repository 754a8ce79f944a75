"""Let intermediate results tell which groups they came through, so that results can be traced back to them.

Every operator but the root hands up one more column: the group its result had there. An input that is the output of an
operator keeps these columns of all operators below it. No stream can have such a name.
"""

import pyarrow as pa
from msgspec.structs import replace

from watersmeet.model.plan import Column, Operator, Plan, group_column


def traced(plan: Plan) -> Plan:
    """A plan whose intermediate results tell their groups."""
    handed_up: dict[str, tuple[Column, ...]] = {}
    operators = []
    for operator in plan.operators:
        inputs = tuple(replace(i, state=(*i.state, *handed_up.get(str(i.operator), ()))) for i in operator.inputs)
        given = operator.inputs[:1] if operator.how in ("semi", "anti") else operator.inputs
        kept = tuple(column for i in given for column in handed_up.get(str(i.operator), ()))
        handed_up[operator.id] = (*kept, group_column(operator.id))
        operators.append(replace(operator, inputs=inputs, output=_output(operator, plan, handed_up[operator.id])))
    columns = {column: pa.int16() for columns in handed_up.values() for column in columns}
    return replace(plan, operators=tuple(operators), columns=tuple({**plan.types, **columns}.items()))


def _output(operator: Operator, plan: Plan, traces: tuple[Column, ...]) -> tuple[Column, ...]:
    return operator.output if operator.id == plan.root.id else (*operator.output, *traces)
