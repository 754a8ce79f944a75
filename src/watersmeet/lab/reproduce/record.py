"""What a run did, taken from the query's progress reports and events, which are all a user has, too.

Memory is noted twice where an epoch spilled: as it was, and as it was left. That is the zig-zag of the papers.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

Report = Mapping[str, Any]


@dataclass(frozen=True)
class Spill:
    """One spill of one site; epochs count from 1."""

    epoch: int
    site: int
    before_bytes: int
    after_bytes: int
    groups: Mapping[str, int]


@dataclass(frozen=True)
class Move:
    """Groups of an operator that went from one site to another at the end of an epoch; epochs count from 1."""

    epoch: int
    before: int
    after: int
    groups: int
    bytes: int


@dataclass(frozen=True)
class Cleanup:
    """What the cleanup took: results and intermediate rows made, bytes read, and time."""

    results: int
    inner_rows: int
    read_bytes: int
    steps: int
    time_ms: int


@dataclass(frozen=True)
class Fingerprint:
    """A multiset of results, as the number and the sum of their hashes."""

    rows: int
    hashes: int


@dataclass(frozen=True)
class Record:
    """One run; ``output`` has the results of each epoch, ``memory`` the live bytes of each site before it spilled.

    ``state_rows`` are the rows that all sites hold after each epoch, and ``busy_ms`` is how long they worked in it
    together, by the clock, ``busiest_ms`` how long the busiest of them did.
    ``epoch_ms`` is how long each epoch took in all.
    """

    output: tuple[int, ...]
    memory: tuple[tuple[int, ...], ...]
    spills: tuple[Spill, ...]
    cleanup: Cleanup
    fingerprint: Fingerprint
    state_rows: tuple[int, ...]
    busy_ms: tuple[int, ...]
    moves: tuple[Move, ...] = ()
    epoch_ms: tuple[int, ...] = ()
    busiest_ms: tuple[int, ...] = ()

    @property
    def results(self) -> int:
        """The results at run time."""
        return sum(self.output)

    @property
    def total(self) -> int:
        """All results."""
        return self.results + self.cleanup.results

    def equals(self, other: "Record") -> bool:
        """Whether both gave the same multiset of results, and counted them right."""
        return self.fingerprint == other.fingerprint and self.total == self.fingerprint.rows

    @property
    def cumulative(self) -> tuple[int, ...]:
        """The results at run time after each epoch."""
        return tuple(accumulate(self.output))

    @property
    def kept_bytes(self) -> int:
        """The most a site went on with."""
        return max(size for site in range(len(self.memory)) for _, size in self.zigzag(site, ends_only=True))

    def zigzag(self, site: int, *, ends_only: bool = False) -> list[tuple[int, int]]:
        """Epochs and live bytes of a site: one point an epoch, two where it spilled."""
        left = {spill.epoch: spill.after_bytes for spill in self.spills if spill.site == site}
        points: list[tuple[int, int]] = []
        for epoch, size in enumerate(self.memory[site], start=1):
            if epoch not in left or not ends_only:
                points.append((epoch, size))
            if epoch in left:
                points.append((epoch, left[epoch]))
        return points

    @property
    def decisions(self) -> int:
        """How often groups were moved."""
        return len({move.epoch for move in self.moves})

    @property
    def evenness(self) -> list[float]:
        """After each epoch, what the emptiest site held in proportion to the fullest."""
        return [min(sizes) / max(*sizes, 1) for sizes in zip(*self.memory, strict=True)]

    def spills_at(self, site: int) -> int:
        """How often a site spilled."""
        return sum(spill.site == site for spill in self.spills)


def record(reports: Sequence[Report], events: Iterable[Report], fingerprint: Fingerprint, sites: int) -> Record:
    """Read a finished query's reports and events."""
    events = list(events)
    spills = tuple(_spill(event) for event in events if event["kind"] == "spill")
    moves = tuple(_move(event) for event in events if event["kind"] == "move")
    metrics = [report["customMetrics"] for report in reports if "idle" not in report["customMetrics"]]
    epochs = [each for each in metrics if "cleanup" not in each]
    before = {(spill.epoch, spill.site): spill.before_bytes for spill in spills}
    memory = tuple(
        tuple(before.get((number, site), each["liveBytes"][site]) for number, each in enumerate(epochs, start=1))
        for site in range(sites)
    )
    output = tuple(each["rowsOut"] for each in epochs)
    state_rows = tuple(each["stateRows"] for each in epochs)
    busy_ms = tuple(sum(site["busyMs"] for site in each["sites"]) for each in epochs)
    busiest_ms = tuple(max(site["busyMs"] for site in each["sites"]) for each in epochs)
    cleanup = _cleanup([each for each in metrics if "cleanup" in each])
    epoch_ms = tuple(report["batchDuration"] for report in reports if _is_epoch(report) and "batchDuration" in report)
    return Record(output, memory, spills, cleanup, fingerprint, state_rows, busy_ms, moves, epoch_ms, busiest_ms)


def _is_epoch(report: Report) -> bool:
    return not {"idle", "cleanup"} & report["customMetrics"].keys()


def _move(event: Report) -> Move:
    before, after = event["before"]["site"], event["after"]["site"]
    return Move(event["epoch"] + 1, before, after, len(event["groups"]), event["bytes"])


def _spill(event: Report) -> Spill:
    groups = {operator: len(chosen) for operator, chosen in event["groups"].items()}
    return Spill(event["epoch"] + 1, event["site"], event["before"]["liveBytes"], event["after"]["liveBytes"], groups)


def _cleanup(steps: Sequence[Report]) -> Cleanup:
    """Add the steps up; what the root made are results, the rest are rows to an operator above."""
    made: dict[bool, int] = {True: 0, False: 0}
    for step in steps:
        made[step["cleanup"]["operator"] == step["operators"][-1]["operator"]] += step["cleanup"]["results"]
    return Cleanup(
        results=made[True],
        inner_rows=made[False],
        read_bytes=sum(step["cleanup"]["readBytes"] for step in steps),
        steps=len(steps),
        time_ms=sum(sum(step["durationMs"].values()) for step in steps),
    )
