"""What the demo has seen so far: the epochs, the state of every site, what moved, and whether each number was right."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import ne
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
    groups: int
    busy_ms: int
    state_rows: int
    state_bytes: int


@dataclass
class Record:
    """The demo's progress; ``expected`` has the exact number of results after each epoch.

    Results that parked groups miss come later, by steps of cleanup: these are ``late``.

    ``placed`` has for each epoch how many groups every site has after it, and ``moved`` how many changed their site at
    its end.
    """

    sizes: Sizes
    checkpoint: str
    expected: Sequence[int]
    store: VersionStore
    epochs: list[Epoch] = field(default_factory=list)
    sites: tuple[SiteState, ...] = ()
    wrong: list[int] = field(default_factory=list)
    is_skewed: bool = False
    placed: list[tuple[int, ...]] = field(default_factory=list)
    moved: list[int] = field(default_factory=list)
    late: int = 0
    _routing: tuple[int, ...] = ()

    def add(self, epoch: Epoch) -> None:
        """Take note of an epoch, or of a step of cleanup, and count again."""
        if epoch.cleanup is not None:
            self.late += epoch.rows_out
            return
        self.epochs.append(epoch)
        if self.results != self.expected[len(self.epochs) - 1] and not epoch.parked_groups:
            self.wrong.append(epoch.epoch)
        manifest = self.store.read(Version(epoch.version))
        before, self._routing = self._routing, _routing(manifest)
        self.moved.append(sum(map(ne, before, self._routing)))
        self.placed.append(tuple(self._routing.count(site) for site in range(manifest.sites)))
        self.sites = _sites(manifest, epoch, self.placed[-1])

    @property
    def rows_in(self) -> int:
        """The rows that have arrived."""
        return sum(epoch.rows_in for epoch in self.epochs)

    @property
    def results(self) -> int:
        """The results so far."""
        return sum(epoch.rows_out for epoch in self.epochs) + self.late

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
    def unevenness(self) -> list[float]:
        """How many times as long as the mean the slowest site was busy, in each epoch: 1 is level."""
        return [uneven(epoch.busy_ms_by_site) for epoch in self.epochs]

    @property
    def unevenness_by_moves(self) -> tuple[float, float] | None:
        """The same as medians of the epochs before the first move took effect and after the last; None without any.

        The first epoch does not count, as it warms everything up.
        """
        at = [place for place, count in enumerate(self.moved) if count]
        before, after = (self.unevenness[1 : at[0] + 1], self.unevenness[at[-1] + 1 :]) if at else ([], [])
        return (median(before), median(after)) if before and after else None

    @property
    def exact(self) -> bool:
        """Whether all epochs and all results are there and every number was right."""
        is_complete = len(self.epochs) == self.sizes.epochs and self.results == self.expected[-1]
        return is_complete and not self.wrong


def uneven(busy_ms: Sequence[int]) -> float:
    """How many times the mean the longest is.

    >>> uneven([300, 100]), uneven([0, 0])
    (1.5, 1.0)
    """
    return max(busy_ms) * len(busy_ms) / sum(busy_ms) if sum(busy_ms) else 1.0


def _routing(manifest: Manifest) -> tuple[int, ...]:
    """The site of every group, operator after operator."""
    return tuple(site for operator in manifest.operators.values() for site in operator.routing)


def _sites(manifest: Manifest, epoch: Epoch, placed: Sequence[int]) -> tuple[SiteState, ...]:
    """Share every run out among the sites of its groups; a site writes its own runs, so nearly all have one."""
    rows, sizes = [0.0] * manifest.sites, [0.0] * manifest.sites
    for run in manifest.runs.values():
        routing = manifest.operators[run.operator].routing
        for group in run.groups:
            rows[routing[group]] += run.rows / len(run.groups)
            sizes[routing[group]] += run.bytes / len(run.groups)
    return tuple(
        SiteState(site, placed[site], epoch.busy_ms_by_site[site], round(rows[site]), round(sizes[site]))
        for site in range(manifest.sites)
    )
