"""What only an experiment wants.

A strategy from the other end of the spectrum (Lazy/Active 4.4, Figures 11 and 12), and policies with other thresholds
(5.2, Figures 14 to 16).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from watersmeet.adapt.moving.active_disk import ActiveDiskPolicy
from watersmeet.adapt.moving.lazy_disk import LazyDiskPolicy
from watersmeet.adapt.moving.memory import MemoryPolicy
from watersmeet.adapt.moving.policies import ADAPTATIONS
from watersmeet.adapt.spilling import STRATEGIES
from watersmeet.adapt.spilling.candidates import Pool, Pressure, Strategy, Worth
from watersmeet.adapt.spilling.strategies import local_output

REVERSE = "reverse-local-output"


def reverse_local_output(pool: Pool, pressure: Pressure) -> Worth:
    """The most productive groups go first."""
    return -local_output(pool, pressure)


BALANCING = ("memory", "lazy-disk", "active-disk")
"""The policies that balance memory."""

LAB_STRATEGIES: dict[str, Strategy] = {REVERSE: reverse_local_output}


@contextmanager
def lab_strategies() -> Iterator[None]:
    """Let queries choose the lab's strategies by name for the body of the block."""
    STRATEGIES.update(LAB_STRATEGIES)
    try:
        yield
    finally:
        for name in LAB_STRATEGIES:
            STRATEGIES.pop(name, None)


@contextmanager
def thresholds(theta_d: float, span: int) -> Iterator[None]:
    """Let policies that balance memory have other thresholds for the body of the block.

    Active-disk compares output rates as often as memory may be balanced.
    """
    before = dict(ADAPTATIONS)
    ADAPTATIONS["memory"] = partial(MemoryPolicy, theta_d=theta_d, span=span)
    ADAPTATIONS["lazy-disk"] = partial(LazyDiskPolicy, theta_d=theta_d, span=span)
    ADAPTATIONS["active-disk"] = partial(ActiveDiskPolicy, theta_d=theta_d, span=span, sample=span)
    try:
        yield
    finally:
        ADAPTATIONS.update(before)
