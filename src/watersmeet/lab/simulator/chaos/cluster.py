"""Executors that come and go, and are slow at times: where the sites of a query are, and how long they take.

As on Spark, a site stays on its executor as long as there is one; sites of a lost one come to one that is left, and an
executor that joins has none, until the driver has the sites spread anew (`watersmeet.adapt.moving.executors`).
"""

from dataclasses import dataclass, field

MS_A_TUPLE = 2.0
"""Long, so that what policies gain and pay is as for epochs of some seconds."""


@dataclass
class Executors:
    """Those there are, the one of each site, and how many times as long slow sites take, until which epoch."""

    names: list[str] = field(default_factory=lambda: ["e0", "e1"])
    sites: list[str] = field(default_factory=list)
    slow: dict[int, tuple[float, int]] = field(default_factory=dict)
    _placement: int = -1
    _made: int = 2

    def lose(self, number: int) -> None:
        """One dies, unless it is the last."""
        if len(self.names) > 1:
            gone = self.names.pop(number % len(self.names))
            self.sites = [self.names[0] if each == gone else each for each in self.sites]

    def join(self) -> None:
        """One comes; it has no site."""
        self.names.append(f"e{self._made}")
        self._made += 1

    def place(self, sites: int, placement: int) -> None:
        """Spread the sites, if that was asked for, or if there are others."""
        if placement != self._placement or len(self.sites) != sites:
            self.sites = [self.names[site % len(self.names)] for site in range(sites)]
            self._placement = placement

    def busy_ms(self, site: int, tuples: float, epoch: int) -> float:
        """How long a site takes for some tuples."""
        times, until = self.slow.get(site, (1.0, 0))
        return tuples * MS_A_TUPLE * (times if epoch <= until else 1.0)
