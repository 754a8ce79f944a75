"""Producers, buffers, consumers and disks of a cluster, a slice of time after the other.

- Producers send as fast as they can. A tuple waits for its machine in the connection, as long as there is room, else in
  the producers' *transient skew buffer* (Flux 4), which all destinations share; when that is full, producers block.
  Under *Exchange*, every destination has its equal part of that room, and producers block when one part is full. All
  producers send alike, so they are counted together.
- A consumer processes what waits for it, at its speed, in any order: partitions in proportion to what they have.
- Where memory is short, a consumer writes partitions to disk, the largest first, and stands still meanwhile. Tuples
  for partitions on disk are kept aside. It then takes turns: it exchanges the next one on disk for one in memory, which
  takes a read and a write; processes what was kept aside for it; and goes on with all others for `BETWEEN_TURNS` of
  the time the exchange took. (The paper leaves its policy to a report; that part of time gives its static throughput.)
- A partition that moves is stalled: its tuples wait in the buffer.
"""

from dataclasses import dataclass, field

import numpy as np

from watersmeet.adapt.moving.pieces import Flags, Ints
from watersmeet.adapt.statistics import Floats
from watersmeet.lab.simulator.hardware import Hardware
from watersmeet.lab.simulator.traffic import Traffic

BETWEEN_TURNS = 0.3


@dataclass
class Cluster:
    """The state of all machines; arrays are by partition or by machine."""

    hardware: Hardware
    traffic: Traffic
    rng: np.random.Generator
    buffer_tuples: float = 2048.0 * 32
    is_exchange: bool = False
    site: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    now_ms: float = 0.0

    def __post_init__(self) -> None:
        partitions = len(self.traffic.shares)
        if not len(self.site):
            self.site = np.arange(partitions) * self.hardware.machines // partitions
        self.waiting: Floats = np.zeros(partitions)
        self.aside: Floats = np.zeros(partitions)
        self.last_turn_ms: Floats = np.zeros(partitions)
        self.stalled: Flags = np.zeros(partitions, dtype=np.bool_)
        self.on_disk: Flags = np.zeros(partitions, dtype=np.bool_)
        self.io_until_ms: Floats = np.zeros(self.hardware.machines)
        self.next_turn_ms: Floats = np.zeros(self.hardware.machines)
        self.busy_ms: Floats = np.zeros(self.hardware.machines)
        self.processed: Floats = np.zeros(partitions)
        self.total_processed, self.total_waited_ms = 0.0, 0.0

    def step(self, slice_ms: float, speeds: Floats, memories: Floats) -> None:
        """Let some time pass."""
        self._spill(memories)
        self._produce()
        can = (self.now_ms >= self.io_until_ms) * speeds * slice_ms / self.hardware.tuple_ms
        noise = self.hardware.tuple_deviation_ms / self.hardware.tuple_ms * np.sqrt(np.maximum(can, 0.0))
        can = np.maximum(can + noise * self.rng.standard_normal(len(can)), 0.0)
        ready = np.where(self.stalled | self.on_disk, 0.0, self.waiting)
        have = self._by_machine(ready)
        done = np.minimum(have, can)
        part = np.divide(done, have, out=np.zeros(len(have)), where=have > 0)
        now_done = ready * part[self.site]
        self.waiting -= now_done
        self.processed += now_done
        self._count(float(now_done.sum()), self.hardware.tuple_ms)
        used = np.divide(done, can, out=np.zeros(len(can)), where=can > 0)
        self.busy_ms += slice_ms * np.where(self.now_ms < self.io_until_ms, 1.0, used)
        self.now_ms += slice_ms

    def taken(self) -> tuple[Floats, Floats]:
        """Busy times and tuples since the last time; they begin anew."""
        found = self.busy_ms, self.processed
        self.busy_ms, self.processed = np.zeros(len(self.busy_ms)), np.zeros(len(self.processed))
        return found

    def _count(self, tuples: float, latency_ms: float) -> None:
        self.total_processed += tuples
        self.total_waited_ms += tuples * latency_ms

    def memory_bytes(self, memories: Floats) -> Floats:
        """What every machine may hold."""
        found: Floats = memories * self.hardware.memory_bytes
        return found

    def _by_machine(self, values: Floats) -> Floats:
        return np.bincount(self.site, values, minlength=self.hardware.machines).astype(np.float64)

    def _produce(self) -> None:
        """Fill queues and buffer up: find how many tuples there is room for, and draw their partitions."""
        waits = self._by_machine(self.waiting)
        goes = self._by_machine(np.where(self.on_disk, 0.0, self.traffic.shares))
        own = self.hardware.queue_tuples
        if self.is_exchange:
            room = own + self.buffer_tuples / self.hardware.machines - waits
            count = float(np.min(np.divide(room, goes, out=np.full(len(room), np.inf), where=goes > 0)))
        else:
            stalled = min(float(self.waiting[self.stalled].sum()), own)
            count = _fitting(waits, goes, own, self.buffer_tuples - stalled)
        if count < 1:
            return
        came = self.rng.multinomial(int(count), self.traffic.shares)
        self.waiting += np.where(self.on_disk, 0, came)
        self.aside += np.where(self.on_disk, came, 0)

    def _spill(self, memories: Floats) -> None:
        """Keep every machine within its memory, and take turns with what is on disk."""
        size, limits = self.traffic.partition_bytes, self.memory_bytes(memories)
        held = self._by_machine(np.where(self.on_disk, 0.0, size))
        is_short = held > limits
        if not is_short.any() and not self.on_disk.any():
            return
        for machine in np.flatnonzero(is_short | (self._by_machine(self.on_disk.astype(np.float64)) > 0)).tolist():
            if self.now_ms < self.io_until_ms[machine]:
                continue
            here = np.flatnonzero((self.site == machine) & ~self.stalled)
            inside, outside = here[~self.on_disk[here]], here[self.on_disk[here]]
            if is_short[machine] and len(inside):
                self._write(machine, inside[:1])
            elif len(outside) and held[machine] + size <= limits[machine]:
                self._read(machine, outside[self.last_turn_ms[outside].argmin()], self.hardware.disk_ms(size))
            elif len(outside) and len(inside) and self.now_ms >= self.next_turn_ms[machine]:
                out = inside[self.last_turn_ms[inside].argmin()]
                self._read(machine, outside[self.last_turn_ms[outside].argmin()], 2 * self.hardware.disk_ms(size))
                self.on_disk[out], self.aside[out], self.waiting[out] = True, self.waiting[out], 0.0
                self.last_turn_ms[out] = self.now_ms

    def _write(self, machine: int, out: Ints) -> None:
        self.on_disk[out] = True
        self.aside[out] += self.waiting[out]
        self.waiting[out], self.last_turn_ms[out] = 0.0, self.now_ms
        self.io_until_ms[machine] = self.now_ms + self.hardware.disk_ms(self.traffic.partition_bytes)

    def _read(self, machine: int, back: int, io_ms: float) -> None:
        """A partition comes back, and what was kept aside for it is processed at once."""
        count, absent_ms = self.aside[back], self.now_ms - self.last_turn_ms[back]
        took_ms = io_ms + count * self.hardware.tuple_ms
        self.processed[back] += count
        self._count(float(count), float(absent_ms) / 2 + took_ms)
        self.on_disk[back], self.aside[back], self.last_turn_ms[back] = False, 0.0, self.now_ms
        self.io_until_ms[machine] = self.now_ms + took_ms
        self.next_turn_ms[machine] = self.io_until_ms[machine] + BETWEEN_TURNS * io_ms


def _fitting(waits: Floats, goes: Floats, own: float, shared: float) -> float:
    """How many tuples fit in queues and a shared buffer: n with ``sum(max(waits + n * goes - own, 0)) = shared``.

    It is linear between the numbers at which another queue is full.

    >>> round(_fitting(np.array([0.0, 5.0]), np.array([0.5, 0.5]), own=10.0, shared=3.0), 6)
    16.0
    """
    sent = goes > 0
    left = shared - float(np.maximum(waits[~sent] - own, 0.0).sum())
    room, part = own - waits[sent], goes[sent]
    order = np.argsort(room / part)
    full_at, rooms, parts = (room / part)[order], np.cumsum(room[order]), np.cumsum(part[order])
    active = int(np.searchsorted(parts * full_at - rooms, left, side="right"))
    return float((left + rooms[active - 1]) / parts[active - 1]) if active else 0.0
