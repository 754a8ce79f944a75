"""Strategies that only an experiment wants: the other end of the spectrum (Lazy/Active 4.4, Figures 11 and 12)."""

from collections.abc import Iterator
from contextlib import contextmanager

from watersmeet.adapt.spilling import STRATEGIES
from watersmeet.adapt.spilling.candidates import Pool, Pressure, Strategy, Worth
from watersmeet.adapt.spilling.productivity import local_output

REVERSE = "reverse-local-output"


def reverse_local_output(pool: Pool, pressure: Pressure) -> Worth:
    """The most productive groups go first."""
    return -local_output(pool, pressure)


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
