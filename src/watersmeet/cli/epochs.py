"""Watching a query: its epochs one by one as they end, until it ends or is asked to."""

import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any, Self

import msgspec

from watersmeet.cli.output import size

if TYPE_CHECKING:
    from watersmeet.api.query import Query

POLL_S = 0.2


class OperatorEpoch(msgspec.Struct, frozen=True, rename="camel"):
    """What one operator did in an epoch, and its state after it."""

    operator: str
    rows_in: int
    rows_out: int
    state_rows: int
    state_bytes: int


class Cleanup(msgspec.Struct, frozen=True, rename="camel"):
    """What a step of cleanup did: groups of an operator whose missing results were produced, and what is left."""

    operator: str
    groups: int
    results: int
    read_bytes: int
    groups_left: int


class Rejected(msgspec.Struct, frozen=True):
    """Rejected rows of a stream, with the reason."""

    stream: str
    reason: str
    rows: int


class Epoch(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What an epoch did, or a step of cleanup, and the state after it."""

    epoch: int
    version: int
    rows_in: int
    rows_out: int
    time_ms: int
    state_rows: int
    state_bytes: int
    operators: tuple[OperatorEpoch, ...]
    busy_ms_by_site: tuple[int, ...]
    time_ms_by_step: dict[str, int]
    live_bytes_by_site: tuple[int, ...] = ()
    parked_groups: int = 0
    cleanup: Cleanup | None = None
    rejected: tuple[Rejected, ...] = ()

    @classmethod
    def of(cls, report: Mapping[str, Any]) -> Self:
        """Read a query's progress report."""
        metrics = report["customMetrics"]
        return cls(
            epoch=metrics["epoch"],
            version=metrics["version"],
            rows_in=_rows_in(metrics["operators"]),
            rows_out=metrics["rowsOut"],
            time_ms=report.get("batchDuration", sum(metrics["durationMs"].values())),
            state_rows=metrics["stateRows"],
            state_bytes=metrics["stateBytes"],
            operators=tuple(_operator(each) for each in metrics["operators"]),
            busy_ms_by_site=tuple(site["busyMs"] for site in metrics["sites"]),
            time_ms_by_step=metrics["durationMs"],
            live_bytes_by_site=tuple(metrics.get("liveBytes", ())),
            parked_groups=metrics.get("parkedGroups", 0),
            cleanup=msgspec.convert(metrics["cleanup"], Cleanup) if "cleanup" in metrics else None,
            rejected=msgspec.convert(metrics.get("rejected", ()), tuple[Rejected, ...]),
        )

    def line(self) -> str:
        """The epoch as a line of text."""
        moved = f"{self.rows_in:>10,} rows in {self.rows_out:>12,} results {self.time_ms / 1000:>7.2f} s"
        live = f", {size(sum(self.live_bytes_by_site))} live" if self.live_bytes_by_site else ""
        if self.cleanup is None:
            state = f"state {self.state_rows:,} rows, {size(self.state_bytes)}{live}"
            refused = "".join(f", {each.rows:,} of {each.stream} rejected ({each.reason})" for each in self.rejected)
            return f"epoch {self.epoch:>4} {moved}   {state}{refused}"
        done = f"cleaned {self.cleanup.groups:,} groups of {self.cleanup.operator}, {self.cleanup.groups_left:,} left"
        return f"clean {self.epoch:>4} {moved}   {done}{live}"


def _rows_in(operators: Sequence[Mapping[str, Any]]) -> int:
    """The rows that reached a join from outside.

    Spark's own count has a row as often as the sink made Spark read it.
    """
    inner = {each["operator"] for each in operators}
    return sum(rows for each in operators for source, rows in each["rowsIn"].items() if source not in inner)


def _operator(metrics: Mapping[str, Any]) -> OperatorEpoch:
    return OperatorEpoch(
        metrics["operator"],
        sum(metrics["rowsIn"].values()),
        metrics["rowsOut"],
        metrics["stateRows"],
        metrics["stateBytes"],
    )


@dataclass
class Stop:
    """The signal that requested a stop, if any.

    A handler only notes it: raising from within would break the conversation with the JVM.
    """

    signal: int | None = None

    def __bool__(self) -> bool:
        return self.signal is not None

    @property
    def exit_code(self) -> int:
        """What a shell expects of a command that was stopped."""
        return 128 + self.signal if self.signal is not None else 0


@contextmanager
def stop_on_signals() -> Iterator[Stop]:
    """Let the first Ctrl-C or SIGTERM ask for a stop, and a second one enforce it."""
    stop = Stop()

    def ask(number: int, _frame: FrameType | None) -> None:
        stop.signal = number
        signal.signal(number, signal.SIG_DFL)

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def follow(query: "Query", stop: Stop) -> Iterator[Epoch]:
    """Yield every epoch when it has ended; stop the query when asked to, and raise the exception that ended it."""
    told: set[int] = set()
    running = True
    while running:
        running = query.isActive and not stop
        reports: list[Any] = [report for report in query.recentProgress if "idle" not in report["customMetrics"]]
        for report in reports:
            if report["customMetrics"]["epoch"] not in told:
                yield Epoch.of(report)
        told = {report["customMetrics"]["epoch"] for report in reports}
        if running:
            time.sleep(POLL_S)
    if stop:
        query.stop()
    query.awaitTermination()
