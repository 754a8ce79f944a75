"""What producers send to whom, and what disturbs the machines meanwhile."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from watersmeet.adapt.statistics import Floats

GROUPS = 16_384
LOADED = 1 / (1 + 4 / 3)
"""A process that computes for 100 us and sleeps for 50 takes 57 % of the operator's time (Flux 4)."""


@dataclass(frozen=True)
class Traffic:
    """The share of the tuples that every partition gets, and the size of its state."""

    shares: Floats
    partition_bytes: float = 800e3

    @classmethod
    def even(cls, partitions: int, partition_bytes: float = 800e3) -> "Traffic":
        """The same for all."""
        return cls(np.full(partitions, 1.0 / partitions), partition_bytes)

    @classmethod
    def skewed(cls, partitions: int, rng: np.random.Generator) -> "Traffic":
        """A fifth of the keys get four fifths of the tuples, by Zipf's law among themselves; keys are hashed.

        >>> round(float(Traffic.skewed(64, np.random.default_rng(1)).shares.sum()), 6)
        1.0
        """
        popular = GROUPS // 5
        weights = np.full(GROUPS, 0.2 / (GROUPS - popular))
        ranks = 1.0 / np.arange(1, popular + 1) ** 0.5
        weights[:popular] = 0.8 * ranks / ranks.sum()
        found: Floats = np.bincount(rng.integers(0, partitions, GROUPS), weights, minlength=partitions).astype(float)
        return cls(found)


Course = Callable[[float], Floats]


@dataclass(frozen=True)
class Disturbance:
    """At a time in ms, the part of every machine's time that the operator gets, and the part of its memory."""

    machines: int
    speed: Course | None = None
    memory: Course | None = None
    _whole: Floats = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_whole", np.ones(self.machines))

    def speeds(self, now_ms: float) -> Floats:
        """The part of its time each machine has for the operator."""
        return self._whole if self.speed is None else self.speed(now_ms)

    def memories(self, now_ms: float) -> Floats:
        """The part of its memory."""
        return self._whole if self.memory is None else self.memory(now_ms)


def from_then_on(start_ms: float, machines: int, some: list[int], part: float) -> Course:
    """Some machines have less from a time on."""
    after = np.ones(machines)
    after[some] = part

    def course(now_ms: float) -> Floats:
        return after if now_ms >= start_ms else np.ones(machines)

    return course


def in_turn(each_ms: float, machines: int, part: float) -> Course:
    """One machine after the other has less, each for a while."""
    lacking = np.ones((machines, machines)) - (1 - part) * np.eye(machines)

    def course(now_ms: float) -> Floats:
        found: Floats = lacking[int(now_ms / each_ms) % machines]
        return found

    return course
