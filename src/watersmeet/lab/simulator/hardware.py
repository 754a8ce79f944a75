"""The machines of Flux, section 3 and 5.4. Times are in milliseconds."""

from dataclasses import dataclass

BITS = 8


@dataclass(frozen=True)
class Hardware:
    """A shared-nothing cluster: every machine has a producer and a consumer of the one operator.

    >>> round(Hardware().peak_per_second)
    711111
    """

    machines: int = 32
    tuple_ms: float = 0.045
    tuple_deviation_ms: float = 0.003
    tuple_bytes: int = 80
    packets: int = 2
    packet_bytes: int = 1024
    memory_bytes: float = 1024.0 * (1 << 20)
    disk_bytes_per_ms: float = 20e6 / 1e3
    seek_ms: float = 5.0
    point_to_point_bytes_per_ms: float = 250e6 / BITS / 1e3
    cross_section_bytes_per_ms: float = 500e6 / BITS / 1e3
    installed_tuple_ms: float = 0.0002

    @property
    def queue_tuples(self) -> float:
        """What the connections of all producers to one machine hold."""
        return float(self.packets * (self.packet_bytes // self.tuple_bytes) * self.machines)

    @property
    def peak_per_second(self) -> float:
        """Tuples that all machines can process."""
        return self.machines * 1000.0 / self.tuple_ms

    def disk_ms(self, size_bytes: float) -> float:
        """How long it takes to read or write so much."""
        return self.seek_ms + size_bytes / self.disk_bytes_per_ms

    def move_ms(self, sizes: list[float], in_flight: float, on_disk_bytes: float) -> float:
        """How long it takes until partitions have moved, all at once, between different pairs of machines.

        Tuples in flight are processed first; what is on disk is read; state is extracted, sent and installed.
        """
        sent = max(max(sizes) / self.point_to_point_bytes_per_ms, sum(sizes) / self.cross_section_bytes_per_ms)
        installed = 2 * self.installed_tuple_ms * max(sizes) / self.tuple_bytes
        read = self.disk_ms(on_disk_bytes) if on_disk_bytes else 0.0
        return in_flight * self.tuple_ms + read + sent + installed
