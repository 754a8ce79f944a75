"""Garbage is what no retained manifest names.

After a commit the versions beyond ``retained`` go, and with them the runs that only they named. Runs of tasks that
failed or were repeated are named by no manifest at all; they are found by listing, now and then, and deleted once the
epoch that wrote them is committed, for then it is certain that no commit will ever name them.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from watersmeet.model.ids import Version
from watersmeet.state import runs, versions
from watersmeet.state.manifest import Manifest
from watersmeet.state.versions import VersionStore

LISTING_INTERVAL = 64


@dataclass
class Collector:
    """Deletes what is no longer named, of one checkpoint."""

    store: VersionStore
    retained: int
    _kept: deque[tuple[Version, frozenset[str]]] = field(default_factory=deque)

    def start(self) -> None:
        """Learn what the stored versions name, and delete what earlier drivers left behind."""
        manifests = [self.store.read(version) for version in self.store.versions()[-self.retained :]]
        self._kept = deque((manifest.version, _named(manifest)) for manifest in manifests)
        stale = self.store.versions()[: -self.retained]
        self.store.storage.delete(versions.path_of(version) for version in stale)
        self._sweep()

    def committed(self, manifest: Manifest) -> None:
        """Drop the versions that are no longer retained, and the runs that only they named."""
        self._kept.append((manifest.version, _named(manifest)))
        while len(self._kept) > self.retained:
            version, named = self._kept.popleft()
            self.store.storage.delete([versions.path_of(version)])
            self._delete(named - self._named())
        if manifest.version % LISTING_INTERVAL == 0:
            self._sweep()

    def _sweep(self) -> None:
        last = self._kept[-1][0] if self._kept else -1
        named = self._named()
        stored = self.store.storage.list(runs.FOLDER)
        self._delete(path for path in stored if path not in named and epoch_of(path) < last)

    def _named(self) -> frozenset[str]:
        return frozenset().union(*(named for _, named in self._kept))

    def _delete(self, paths: Iterable[str]) -> None:
        gone = list(paths)
        self.store.storage.delete(gone)
        self.store.storage.forget(gone)


def run_name(epoch: int, site: int, attempt: str) -> str:
    """A run's id tells the epoch that wrote it.

    >>> run_name(7, 1, "a1b2")
    '000000000007-1-a1b2'
    """
    return f"{epoch:012d}-{site}-{attempt}"


def epoch_of(path: str) -> int:
    """The epoch that wrote a run.

    >>> epoch_of("runs/join1/A/000000000007-1-a1b2.arrow")
    7
    """
    return int(path.rsplit("/", 1)[-1].split("-", 1)[0])


def _named(manifest: Manifest) -> frozenset[str]:
    return runs.paths(list(manifest.runs.values()))
