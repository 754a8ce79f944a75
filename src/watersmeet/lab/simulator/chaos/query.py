"""Queries that can be counted: trees of joins on one key each, their streams, and the results they must have.

Below the root, one stream of an operator *carries* the key that its results have at the operator above. So all that is
ever known of a row are two keys, and the results of the whole query are counted by products of matrices.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from watersmeet.lab.simulator.chaos.records import Ints, Records
from watersmeet.model.ids import InputName, OperatorId
from watersmeet.model.plan import Input, Operator, Plan

Batch = Mapping[InputName, Records]
"""The rows of every stream in an epoch."""

SHAPES: Mapping[str, tuple[tuple[str, str], ...]] = {
    "two streams": (("join1", "A B"),),
    "three streams": (("join1", "A B C"),),
    "a chain": (("join1", "A B"), ("join2", "join1 C")),
    "a long chain": (("join1", "A B"), ("join2", "join1 C D"), ("join3", "join2 E")),
    "a tree": (("join1", "A B"), ("join2", "C D"), ("join3", "join1 join2")),
}
"""Operators, those below first, and the inputs of each."""


@dataclass(frozen=True)
class Query:
    """A plan, the number of keys of each operator, and the streams that carry keys."""

    plan: Plan
    keys: int
    carriers: frozenset[InputName]

    @classmethod
    def of(cls, shape: str, keys: int) -> "Query":
        """The query of a shape.

        >>> [each.level for each in Query.of("a tree", 8).plan.operators], sorted(Query.of("a tree", 8).carriers)
        ([0, 0, 1], ['A', 'C'])
        """
        operators: dict[str, Operator] = {}
        for name, inputs in SHAPES[shape]:
            below = [operators[each].level for each in inputs.split() if each in operators]
            operators[name] = _operator(name, max(below, default=-1) + 1, inputs.split(), operators)
        root = list(operators)[-1]
        carriers = (_carrier(each, operators) for name, each in operators.items() if name != root)
        return cls(Plan((), tuple(operators.values()), ()), keys, frozenset(carriers))

    @property
    def streams(self) -> list[InputName]:
        """All streams."""
        return [each.name for operator in self.plan.operators for each in operator.inputs if each.operator is None]

    def columns(self, source: InputName) -> int:
        """How many next keys are told apart of an input's rows."""
        return self.keys if source in self.carriers else 1

    def joined(self, tables: Sequence[Ints]) -> Ints:
        """What rows of all inputs of an operator yield: by key, and by the next key if one carries it."""
        product: Ints = reduce(np.multiply, tables)
        return product

    def contents(self, batches: Sequence[Batch]) -> dict[tuple[OperatorId, InputName], Ints]:
        """What the state holds in the end, of every input."""
        found: dict[tuple[OperatorId, InputName], Ints] = {}
        results: dict[str, Ints] = {}
        for operator in self.plan.operators:
            for source in operator.inputs:
                rows = [
                    batch[source.name].table(self.keys, self.columns(source.name))
                    for batch in batches
                    if not source.operator
                ]
                found[operator.id, source.name] = results[source.name] if source.operator else _sum(rows)
            product = self.joined([found[operator.id, source.name] for source in operator.inputs])
            results[operator.id] = product.sum(axis=0)[:, None]
        return found

    def expected(self, batches: Sequence[Batch]) -> Ints:
        """How many results the query must have, by the root's key."""
        contents, root = self.contents(batches), self.plan.root
        return self.joined([contents[root.id, source.name] for source in root.inputs])[:, 0]


def draw_batches(query: Query, epochs: int, rows: int, chance: random.Random) -> list[Batch]:
    """Rows of every epoch; some keys are hot, and which changes as epochs go by."""
    rng, hot = np.random.default_rng(chance.randrange(2**32)), chance.choice([0.0, 0.3, 0.7])
    batches: list[Batch] = []
    for epoch in range(epochs):
        favourite = epoch // 8 % query.keys
        batches.append({name: _rows(query, name, rng, rows, (hot, favourite)) for name in query.streams})
    return batches


def _rows(query: Query, name: InputName, rng: np.random.Generator, rows: int, hot: tuple[float, int]) -> Records:
    count = int(rng.integers(0, rows + 1))
    key, following = rng.integers(0, query.keys, (2, count))
    key[rng.random(count) < hot[0]] = hot[1]
    if name not in query.carriers:
        following[:] = 0
    kinds, counts = np.unique(np.stack([key, following]), axis=1, return_counts=True)
    return Records(np.concatenate([kinds, counts[None]]).astype(np.int64))


def _sum(tables: Sequence[Ints]) -> Ints:
    total: Ints = np.sum(tables, axis=0)
    return total


def _operator(name: str, level: int, inputs: Sequence[str], below: Mapping[str, Operator]) -> Operator:
    sources = (Input(InputName(each), (), (), OperatorId(each) if each in below else None) for each in inputs)
    return Operator(OperatorId(name), level, tuple(sources), ())


def _carrier(operator: Operator, operators: Mapping[str, Operator]) -> InputName:
    return next(each.name for each in operator.inputs if each.name not in operators)
