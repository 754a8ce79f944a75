"""Operators by kind: what the task of a site asks of an operator, and which kinds there are.

The task of a site only drives: it brings an operator the rows it had and those that arrived, and hands on what the
operator yields. Everything that makes a join a join is in the operator's own task. A new kind is a folder beside `join`
and an entry in `KINDS`; it then is spilled, moved, cleaned and recovered like any other. What promises mean to it, and
until when its rows are asked for, is told apart by kind in `driver.promises` and `state.promises`.

| question | answered by |
|---|---|
| to which site does a row go? | the hash of its key, and the routing table of its operator |
| which of the rows that arrive become state? | all, so far |
| which results do they complete? | ``produce`` |
| which results are missing across generations? | ``clean`` |
| which rows come out by themselves? | ``settle`` |
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from watersmeet.model.ids import OperatorId
from watersmeet.operators.aggregate.task import AggregateTask
from watersmeet.operators.costs import Costs
from watersmeet.operators.join.generations import Piece
from watersmeet.operators.join.probe import Side
from watersmeet.operators.join.task import JoinTask
from watersmeet.operators.join.trace import Output
from watersmeet.operators.outer.task import OuterTask
from watersmeet.operators.predicate import Functions
from watersmeet.operators.results import Results
from watersmeet.operators.ring.task import RingTask
from watersmeet.operators.spec import OperatorSpec
from watersmeet.state.rows import SortedRows


class OperatorTask(Protocol):
    """One operator at one site in one step; ``output`` counts its results as they are made."""

    @property
    def output(self) -> Output:
        """The results, counted."""

    def produce(self, sides: Sequence[Side]) -> Iterator[Results]:
        """The results that the rows of this step complete, each once."""

    def clean(self, inputs: Sequence[Sequence[Piece]], limit_bytes: int) -> Iterator[Results]:
        """The results across generations, each once; at most ``limit_bytes`` of rows are gathered at a time."""

    def settle(self, number: int, rows: SortedRows, other: Side) -> Iterator[Results]:
        """What rows of an input give of which no match can come any more; ``other`` is all there is of the other."""

    def unmatched(self, number: int, rows: SortedRows) -> Iterator[Results]:
        """What rows of an input give that can have no match."""


@dataclass(frozen=True)
class TaskOptions:
    """What operators have in common: the number of groups, what tests make wrong, and the user's functions by name.

    ``costs`` are those of each operator's tests; its tasks add what they learn.
    """

    groups: int
    forget_pairs: bool = False
    functions: Functions = field(default_factory=dict)
    costs: Mapping[OperatorId, Costs] = field(default_factory=dict)

    def costs_of(self, operator: OperatorSpec) -> Costs:
        """What is known of an operator's tests."""
        return self.costs.get(operator.id) or Costs()


def _aggregate(spec: OperatorSpec, options: TaskOptions) -> AggregateTask:
    return aggregate_of(spec, options.groups)


def aggregate_of(spec: OperatorSpec, groups: int) -> AggregateTask:
    """The task of an aggregate."""
    if spec.aggregate is None:
        raise ValueError(spec.id)
    source = spec.inputs[0]
    life = () if source.life is None else source.life.names
    asked = {*source.key_columns, *life, spec.aggregate.order}
    kept = tuple(name for name in source.schema.names if name in asked or spec.aggregate.mode == "first")
    return AggregateTask(JoinTask(groups, (source.key_columns,)), spec.aggregate, source.key_columns, kept)


def _outer(spec: OperatorSpec, options: TaskOptions) -> OperatorTask:
    return OuterTask(_join(spec, options), spec.how, tuple(source.schema for source in spec.inputs))


def _join(spec: OperatorSpec, options: TaskOptions) -> JoinTask:
    keys = None if spec.hash_decides else tuple(source.key_columns for source in spec.inputs)
    return JoinTask(
        options.groups,
        keys,
        spec.group_column,
        spec.traced,
        forget_pairs=options.forget_pairs,
        lives=tuple(source.life for source in spec.inputs),
        life=spec.life,
        is_windowed=spec.is_windowed,
        tests=spec.tests,
        bounds=spec.bounds,
        functions=options.functions,
        costs=options.costs_of(spec),
    )


def ring_of(spec: OperatorSpec, options: TaskOptions) -> RingTask:
    """The task of a ring."""
    return RingTask(
        options.groups,
        spec.tests,
        tuple(source.life for source in spec.inputs),
        spec.is_windowed,
        spec.bounds,
        spec.life,
        spec.group_column,
        spec.traced,
        options.functions,
        options.costs_of(spec),
    )


KINDS: dict[str, Callable[[OperatorSpec, TaskOptions], OperatorTask]] = {
    "join": _join,
    "outer": _outer,
    "aggregate": _aggregate,
    "ring": ring_of,
}


def task_of(spec: OperatorSpec, options: TaskOptions) -> OperatorTask:
    """A task for an operator of any kind."""
    return KINDS[spec.kind](spec, options)
