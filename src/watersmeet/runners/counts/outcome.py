"""What a simulated run gave, and what it left to be cleaned up."""

from dataclasses import dataclass

from watersmeet.model.ids import OperatorId, SiteId


@dataclass(frozen=True)
class Generation:
    """A spilled generation of a group."""

    operator: OperatorId
    group: int
    site: SiteId
    epoch: int
    size_bytes: int


@dataclass(frozen=True)
class Outcome:
    """Results of each level and epoch at run time, live bytes at the ends of epochs, and what was spilled."""

    produced: tuple[tuple[int, ...], ...]
    live_bytes: tuple[int, ...]
    spills: int
    generations: tuple[Generation, ...]
    result_bytes: tuple[int, ...]

    @property
    def results(self) -> int:
        """Final results at run time."""
        return sum(self.produced[-1])

    @property
    def spilled_bytes(self) -> int:
        """What was written."""
        return sum(each.size_bytes for each in self.generations)

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
