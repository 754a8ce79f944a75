"""The plan of a simulated query, as the driver knows it: a chain of joins, whose rows have no columns."""

from itertools import count

from watersmeet.model.ids import InputName, OperatorId
from watersmeet.model.plan import Input, Operator, Plan
from watersmeet.runners.counts.workload import Workload


def plan_of(workload: Workload) -> Plan:
    """An operator for every level; its inputs are the streams, plain ones first, and then the operator below.

    >>> import numpy as np
    >>> from watersmeet.runners.counts.streams import Carrier, Level, Stream
    >>> none = np.empty(0, dtype=np.int64)
    >>> levels = [Level((Stream(none, none),), Carrier(none, none, next_key=none)), Level((Stream(none, none),))]
    >>> [[source.name for source in operator.inputs] for operator in plan_of(Workload.prepare(levels, 1, 1)).operators]
    [['S1', 'S2'], ['S3', 'join1']]
    """
    numbers, operators = count(1), list[Operator]()
    for level, inputs in enumerate(workload.levels):
        names = [InputName(f"S{next(numbers)}") for _ in inputs.streams]
        sources = [Input(name, (), ()) for name in names]
        sources += [Input(InputName(below.id), (), (), below.id) for below in operators[-1:]]
        operators.append(Operator(OperatorId(f"join{level + 1}"), level, tuple(sources), ()))
    return Plan((), tuple(operators), ())
