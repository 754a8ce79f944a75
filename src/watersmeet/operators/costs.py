"""What tests on pairs of rows cost and drop: measured wherever they are asked, and kept from step to step.

The order that takes least is by *rank*: the time a test takes for each pair that it drops (Hellerstein, predicate
migration: cost / (1 - selectivity)). A test of which nothing is known yet is taken to drop half of the pairs, and a
function of the user's to take a hundred times as long as a comparison.

A site's task begins with what the driver has learned from the steps before, and tells it what it saw (`Costs`). The
driver adds that up over all sites, and older steps count less (`later`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

import msgspec

from watersmeet.model.plan import Test

AGEING = 0.8
"""What a step counts after another one."""

COMPARISON_S, CALL_S = 2e-8, 2e-6
"""What a pair is taken to cost until it was seen."""


class Cost(msgspec.Struct, frozen=True):
    """How many pairs a test was asked for, how many of them passed, and how long it took.

    >>> Cost(100, 75, 1e-6).rank() < Cost(100, 75, 1e-3).rank() < Cost(100, 100, 1e-3).rank()
    True
    """

    asked: float = 0.0
    passed: float = 0.0
    seconds: float = 0.0

    def with_more(self, other: "Cost", ageing: float = 1.0) -> "Cost":
        """The sum of two, of which this one has aged."""
        return Cost(
            ageing * self.asked + other.asked,
            ageing * self.passed + other.passed,
            ageing * self.seconds + other.seconds,
        )

    @property
    def pair_s(self) -> float:
        """What a pair takes."""
        return self.seconds / self.asked if self.asked else 0.0

    @property
    def selectivity(self) -> float:
        """The share of pairs that pass."""
        return self.passed / self.asked if self.asked else 1.0

    def rank(self, unseen_s: float = COMPARISON_S) -> float:
        """Time for each pair that is dropped; ``unseen_s`` is what a pair is taken to cost as long as none was seen."""
        return (self.seconds + unseen_s) / (self.asked - self.passed + 1)


NOTHING = Cost()


@dataclass
class Costs:
    """The costs of tests at one site in one step: what is ``known`` from before, and what is ``learned`` now.

    >>> less, call = Test("lt", ("A.x", "B.x")), Test("call", ("A.x", "B.x"), name="near")
    >>> costs = Costs.of([call, less], [])
    >>> [test.function for test in costs.ordered([call, less])]
    ['lt', 'call']
    >>> costs.add(call, Cost(1000, 10, 1e-6))
    >>> costs.add(less, Cost(1000, 999, 1e-5))
    >>> [test.function for test in costs.ordered([call, less])]
    ['call', 'lt']
    """

    known: dict[Test, Cost] = field(default_factory=dict)
    learned: dict[Test, Cost] = field(default_factory=dict)

    @classmethod
    def of(cls, tests: Sequence[Test], known: Sequence[Cost]) -> "Costs":
        """The costs of an operator's tests, of which something may be known."""
        return cls(dict(zip(tests, known, strict=False)))

    def add(self, test: Test, seen: Cost) -> None:
        """Learn from some pairs."""
        self.learned[test] = self.learned.get(test, NOTHING).with_more(seen)

    def ordered(self, tests: Sequence[Test]) -> list[Test]:
        """The tests in the order that takes least."""
        return sorted(tests, key=self._rank)

    def are_known(self, tests: Sequence[Test]) -> bool:
        """Whether each test was asked before."""
        return all(self._cost(test).asked for test in tests)

    def told(self, tests: Sequence[Test]) -> tuple[Cost, ...]:
        """What was learned, by the tests of an operator; nothing if none was asked."""
        return tuple(self.learned.get(test, NOTHING) for test in tests) if self.learned else ()

    def _cost(self, test: Test) -> Cost:
        return self.known.get(test, NOTHING).with_more(self.learned.get(test, NOTHING))

    def _rank(self, test: Test) -> float:
        return self._cost(test).rank(CALL_S if calls(test) else COMPARISON_S)


def calls(test: Test) -> bool:
    """Whether a test asks a function of the user's."""
    return test.function == "call" or any(calls(each) for each in test.arguments if isinstance(each, Test))


def later(known: Sequence[Cost], seen: Iterable[Sequence[Cost]]) -> tuple[Cost, ...]:
    """What is known of an operator's tests after a step in which sites have seen this; nothing ages if none has.

    >>> later([Cost(10, 5, 1.0)], [[Cost(1, 1, 1.0)], [Cost(1, 1, 1.0)]])
    (Cost(asked=10.0, passed=6.0, seconds=2.8),)
    """
    told = [each for each in seen if each]
    total = [NOTHING] * max(map(len, told), default=0)
    for each in told:
        total = [one.with_more(other) for one, other in zip(total, each, strict=True)]
    pairs = zip_longest(known, total, fillvalue=NOTHING)
    return tuple(before.with_more(now, AGEING if now.asked else 1.0) for before, now in pairs)
