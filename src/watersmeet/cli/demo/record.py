"""What the demo has seen so far: the epochs, the state of every site, and whether each number was right."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

import msgspec

from watersmeet.cli.demo.query import Sizes
from watersmeet.cli.epochs import Epoch
from watersmeet.model.ids import Version
from watersmeet.state.manifest import Manifest
from watersmeet.state.versions import VersionStore


class SiteState(msgspec.Struct, frozen=True, rename="camel"):
    """The part of the state that lives at a site."""

    site: int
    busy_ms: int
    state_rows: int
    state_bytes: int


@dataclass
class Record:
    """The demo's progress; ``expected`` has the exact number of results after each epoch."""

    sizes: Sizes
    checkpoint: str
    expected: Sequence[int]
    store: VersionStore
    epochs: list[Epoch] = field(default_factory=list)
    sites: tuple[SiteState, ...] = ()
    wrong: list[int] = field(default_factory=list)

    def add(self, epoch: Epoch) -> None:
        """Take note of an epoch, and count again."""
        self.epochs.append(epoch)
        if self.results != self.expected[len(self.epochs) - 1]:
            self.wrong.append(epoch.epoch)
        self.sites = _sites(self.store.read(Version(epoch.version)), epoch)

    @property
    def rows_in(self) -> int:
        """The rows that have arrived."""
        return sum(epoch.rows_in for epoch in self.epochs)

    @property
    def results(self) -> int:
        """The results so far."""
        return sum(epoch.rows_out for epoch in self.epochs)

    @property
    def times_s(self) -> list[float]:
        """How long each epoch took."""
        return [epoch.time_ms / 1000 for epoch in self.epochs]

    @property
    def median_s(self) -> float:
        """The median epoch."""
        return median(self.times_s or [0.0])

    @property
    def longest_s(self) -> float:
        """The longest epoch."""
        return max(self.times_s, default=0.0)

    @property
    def exact(self) -> bool:
        """Whether all epochs are there and every number was right."""
        return len(self.epochs) == self.sizes.epochs and not self.wrong


def _sites(manifest: Manifest, epoch: Epoch) -> tuple[SiteState, ...]:
    """Share every run out among the sites of its groups; a site writes its own runs, so nearly all have one."""
    rows, sizes = [0.0] * manifest.sites, [0.0] * manifest.sites
    for run in manifest.runs.values():
        routing = manifest.operators[run.operator].routing
        for group in run.groups:
            rows[routing[group]] += run.rows / len(run.groups)
            sizes[routing[group]] += run.bytes / len(run.groups)
    return tuple(
        SiteState(site, epoch.busy_ms_by_site[site], round(rows[site]), round(sizes[site]))
        for site in range(manifest.sites)
    )
