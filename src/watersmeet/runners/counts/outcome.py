"""What a simulated run gave, and what it left to be cleaned up."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from watersmeet.driver.progress import StepMetrics
from watersmeet.state.events import Event, SpillEvent


@dataclass(frozen=True)
class Outcome:
    """Results of each level and epoch at run time, live bytes at the ends of epochs, and what was spilled.

    A spill closes a generation of each of its groups.
    """

    produced: tuple[tuple[int, ...], ...]
    live_bytes: tuple[int, ...]
    spills: tuple[SpillEvent, ...]
    result_bytes: tuple[int, ...]

    @classmethod
    def of(cls, steps: Sequence[StepMetrics], events: Iterable[Event], result_bytes: tuple[int, ...]) -> "Outcome":
        """Put together what the driver tells of its steps; bytes are those before anything was spilled."""
        produced = zip(*([operator.rows_out for operator in step.operators] for step in steps), strict=True)
        spills = tuple(event for event in events if isinstance(event, SpillEvent))
        live = [step.state_bytes if step.live_bytes is None else sum(step.live_bytes) for step in steps]
        for spill in spills:
            live[spill.epoch] += spill.bytes
        return cls(tuple(produced), tuple(live), spills, result_bytes)

    @property
    def results(self) -> int:
        """Final results at run time."""
        return sum(self.produced[-1])

    @property
    def spilled_bytes(self) -> int:
        """What was written."""
        return sum(spill.bytes for spill in self.spills)

    @property
    def peak_bytes(self) -> int:
        """The most that was live at the end of an epoch, before it was spilled."""
        return max(self.live_bytes, default=0)

    def missing(self, unlimited: "Outcome") -> tuple[int, ...]:
        """How many results of each level are left to the cleanup: all that an unlimited run has, and this has not."""
        return tuple(sum(all_of) - sum(had) for all_of, had in zip(unlimited.produced, self.produced, strict=True))

    def cleanup_bytes(self, unlimited: "Outcome") -> int:
        """The cleanup's cost: spilled generations are read, missing intermediate results are made and joined."""
        inner = zip(self.missing(unlimited)[:-1], self.result_bytes, strict=False)
        return self.spilled_bytes + sum(rows * size for rows, size in inner)
