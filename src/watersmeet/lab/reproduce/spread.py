"""The three-way query of Lazy/Active on several machines (3.4, 5.2 and 6.1), on real executors.

The paper has a tuple of each stream every 10 to 30 ms, for 40 to 60 minutes. Here there are fewer tuples, and an epoch
stands for one or two minutes of them. Where adaptations may follow each other every 15, 30 or 45 seconds, an epoch
stands for 15 seconds, and so 30 epochs are the eighth part of its hour.
"""

from dataclasses import dataclass

from watersmeet.adapt.moving.distribution import spread
from watersmeet.lab.alternating import AlternatingColumn
from watersmeet.lab.generator import three_way, three_way_of
from watersmeet.lab.grouping import engine_group
from watersmeet.lab.reproduce.setting import Size, Streams
from watersmeet.lab.reproduce.threeway import QUICK, SEED, ThreeWay

NO_BUDGET = 1 << 40


@dataclass(frozen=True)
class Spread(ThreeWay):
    """The query on several sites; ``label`` names it, ``full`` is its size.

    With a ``phase``, the halves of the groups get ``times`` as many tuples in turn, for so many epochs. Where there are
    ratios ``by_site``, they are those of the groups that each site has at first.
    """

    budget: int = NO_BUDGET
    label: str = ""
    full: Size = QUICK
    phase: int = 0
    times: float = 10.0
    by_site: bool = False

    @property
    def name(self) -> str:
        """What the paper calls it, and the number of sites."""
        return f"{self.label}, {self.sites} site{'s' if self.sites > 1 else ''}"

    def size(self, *, quick: bool) -> Size:
        """How much data to make."""
        return QUICK if quick else self.full

    def streams(self, size: Size) -> Streams:
        """Make the data."""
        if self.phase:
            column = AlternatingColumn(size.tuple_range, self.ratios, size.groups, engine_group, self.phase, self.times)
            return three_way_of(column, SEED, size.epochs, size.rows)
        if not self.by_site:
            return super().streams(size)
        ratios = [self.ratios[site] for site in spread(size.groups, self.sites, self.weights)]
        groups = {"partitions": size.groups, "partition_of": engine_group}
        return three_way(SEED, size.epochs, size.rows, size.tuple_range, ratios, **groups)  # type: ignore[arg-type]
