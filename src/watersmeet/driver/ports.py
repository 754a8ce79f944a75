"""What the driver asks of the world outside: somebody who runs tasks, and a log of the input.

The driver knows no Spark. A *runner* carries out the tasks of a step and gives their results to the sink: as a Spark
job, in this process, or on counts alone. What a batch is, only the runner knows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from watersmeet.driver.topology import Topology
from watersmeet.model.ids import EpochId
from watersmeet.site.effects import Effects
from watersmeet.site.spec import LevelSpec
from watersmeet.state.manifest import Manifest

Batch = TypeVar("Batch")


@dataclass(frozen=True)
class Step(Generic[Batch]):
    """The tasks of a step and what they read: a version, and a batch, or none in a step of cleanup."""

    manifest: Manifest
    topology: Topology
    levels: Sequence[LevelSpec]
    batch: Batch | None = None

    @property
    def epoch(self) -> EpochId:
        """The id under which the sink gets the results, the same when the step is repeated."""
        return EpochId(self.manifest.version)

    @property
    def has_results(self) -> bool:
        """Whether the last level's results are for the sink; a step of cleanup may end below the root."""
        return self.levels[-1].is_root and not self.levels[-1].only_stores

    @property
    def tasks(self) -> int:
        """How many site tasks there are, and thus effects."""
        return sum(len(spec.sites) for spec in self.levels)


@dataclass(frozen=True)
class Done:
    """What the tasks of a step did, bottom-up, and the files of results that wait to be published below a path.

    ``results`` is how many the sink got, where filters have left fewer than the root has made.
    """

    effects: Sequence[Effects]
    path: str = ""
    names: tuple[tuple[str, str], ...] = ()
    results: int | None = None


class Runner(Protocol[Batch]):
    """Carries out the tasks of steps, one step at a time."""

    def run(self, step: Step[Batch]) -> Done:
        """Have the sink consume the results of a step; give what its tasks did, one attempt of each."""

    def cancel(self) -> None:
        """Cut off the step that is under way, if that is possible; from another thread."""

    def close(self) -> None:
        """Release what is held for the run."""


class Offsets(Protocol):
    """The log of the batches there are."""

    def planned(self) -> int:
        """The last batch that was planned, finished or not; -1 where there is none."""

    def finished(self) -> int:
        """The last batch that was finished."""

    def repair(self) -> None:
        """Clear away what a driver left that was killed while it began the log."""
