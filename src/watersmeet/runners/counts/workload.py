"""A query and its data, ready to be simulated under any budget and strategy."""

from collections.abc import Sequence
from dataclasses import dataclass

from watersmeet.runners.counts.hashing import key_group
from watersmeet.runners.counts.paths import GroupOf, Paths, find_paths, number_keys
from watersmeet.runners.counts.streams import Ints, Level


@dataclass(frozen=True)
class Workload:
    """A chain of levels, the root last, with keys numbered from 0 at every level; made by ``prepare``."""

    levels: tuple[Level, ...]
    key_groups: tuple[Ints, ...]
    paths: tuple[Paths, ...]
    epochs: int
    groups: int

    @classmethod
    def prepare(cls, levels: Sequence[Level], epochs: int, groups: int, group_of: GroupOf = key_group) -> "Workload":
        """Number the keys, find their groups and the paths."""
        numbered, key_groups = number_keys(levels, groups, group_of)
        return cls(numbered, key_groups, find_paths(numbered, key_groups, epochs), epochs, groups)

    def result_bytes(self, level: int) -> int:
        """The size of a result of a level, without projection: all rows it is made of (Spill 2.2)."""
        return sum(each.row_bytes for each in self.levels[: level + 1])
