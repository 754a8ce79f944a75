"""The interfaces of the driver to its environment: a runner of tasks, a store of versions, and a log of the input.

The driver knows no Spark. A *runner* carries out the tasks of a step and gives their results to the sink: as a Spark
job, in this process, or on counts alone. What a batch is, only the runner knows. *Versions* of the state are kept in a
checkpoint, or in memory alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from watersmeet.driver.topology import Topology
from watersmeet.model.ids import EpochId
from watersmeet.site.effects import Effects
from watersmeet.site.spec import LevelSpec
from watersmeet.state.changes import Change
from watersmeet.state.events import Event
from watersmeet.state.manifest import Manifest
from watersmeet.storage.base import Storage

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
        """The id by which files are named, the same when the step is repeated."""
        return EpochId(self.manifest.version)

    @property
    def number(self) -> int:
        """How many steps had results for the sink before: what sinks that take rows are told as the epoch's id."""
        return self.manifest.steps

    @property
    def has_results(self) -> bool:
        """Whether the last level's results are for the sink; a step of cleanup may end below the root."""
        return self.levels[-1].is_root and not self.levels[-1].only_stores

    @property
    def tasks(self) -> int:
        """The number of site tasks, and thus of effects."""
        return sum(len(spec.sites) for spec in self.levels)


@dataclass(frozen=True)
class Done:
    """What the tasks of a step did, bottom-up, and the files of results that wait to be published below a path.

    ``results`` is the number of rows that the sink got, if filters dropped some of the root's. ``executors`` are the
    current ones, and ``slots`` the number of tasks they run at once, where there may be several. ``took_ms`` is
    the time of the step in a simulation; otherwise the clock is used.
    """

    effects: Sequence[Effects]
    path: str = ""
    names: tuple[tuple[str, str], ...] = ()
    results: int | None = None
    executors: tuple[str, ...] = ()
    slots: int = 0
    took_ms: float | None = None


class Runner(Protocol[Batch]):
    """Carries out the tasks of steps, one step at a time."""

    def run(self, step: Step[Batch]) -> Done:
        """Run a step and give its results to the sink; return the effects of its tasks, one attempt of each."""

    def cancel(self) -> None:
        """Cancel the running step if possible; called from another thread."""

    def close(self) -> None:
        """Release the resources of the run."""


class Versions(Protocol):
    """The versions of a query's state: the last one, and a place for the next."""

    @property
    def manifest(self) -> Manifest:
        """The last committed version."""

    @property
    def location(self) -> str:
        """The location, as shown in messages."""

    @property
    def storage(self) -> Storage:
        """Where the tasks of a step store their files."""

    @property
    def has_all_batches(self) -> bool:
        """Whether all batches that were planned are part of the state."""

    def begin(self, retained: int) -> None:
        """Delete leftovers of earlier runs, and set the number of versions to retain."""

    def check_owner(self) -> None:
        """Raise if another driver has taken over."""

    def commit(self, changes: Sequence[Change]) -> None:
        """Commit the next version with some changes, or raise and leave the version unchanged."""

    def collect(self) -> None:
        """Delete files that no retained version names; those that cannot be deleted now are deleted later."""

    def events(self) -> list[Event]:
        """The adaptations so far."""

    def close(self) -> None:
        """Release the versions for other drivers."""


class Offsets(Protocol):
    """The log of the batches of the input."""

    def planned(self) -> int:
        """The last batch that was planned, finished or not; -1 where there is none."""

    def finished(self) -> int:
        """The last batch that was finished."""

    def repair(self) -> None:
        """Remove what a driver left that was killed while it began the log."""
