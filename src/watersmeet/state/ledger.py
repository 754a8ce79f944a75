"""How many bytes each partition group holds: what the runs of a manifest add up to, by group.

A task that writes a run tells the sizes of its groups; of runs that were there before, the ledger looks into the file.
It is derived from the runs, so it is never stored.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from watersmeet.model.ids import OperatorId, RunId
from watersmeet.state.groups import members
from watersmeet.state.manifest import LIVE, Manifest, RunFile, Slice
from watersmeet.state.rows import bytes_by_group
from watersmeet.state.runs import open_run, release_run
from watersmeet.storage.base import Storage

Bytes = npt.NDArray[np.float64]


@dataclass
class Ledger:
    """The sizes of the groups of all runs of one query."""

    storage: Storage
    groups: int
    _sizes: dict[RunId, Bytes] = field(default_factory=dict)

    def add(self, run: RunFile, sizes: Iterable[int]) -> None:
        """Note what the task that wrote a run tells: the bytes of its groups, in order."""
        by_group = np.zeros(self.groups)
        by_group[sorted(members(run.groups))] = list(sizes)
        self._sizes[run.id] = by_group

    def keep(self, manifest: Manifest) -> None:
        """Forget the runs a manifest no longer names."""
        self._sizes = {name: sizes for name, sizes in self._sizes.items() if name in manifest.runs}

    def live(self, manifest: Manifest, operator: OperatorId) -> Bytes:
        """The bytes of each group's live generation."""
        return self._sum(manifest, (p for p in manifest.operators[operator].slices if p.tier == "memory"))

    def live_by_input(self, manifest: Manifest, operator: OperatorId, inputs: list[str]) -> Bytes:
        """The same ``[input, group]``."""
        live = np.zeros((len(inputs), self.groups))
        for part in manifest.operators[operator].slices:
            if part.generation == LIVE:
                live[inputs.index(manifest.runs[part.run].input)] += self._slice(manifest, part)
        return live

    def total(self, manifest: Manifest, operator: OperatorId) -> Bytes:
        """The bytes of each group in all generations."""
        return self._sum(manifest, manifest.operators[operator].slices)

    def by_generation(self, manifest: Manifest, operator: OperatorId, inputs: list[str]) -> dict[int, Bytes]:
        """For every generation the bytes ``[input, group]``."""
        found: dict[int, Bytes] = {}
        for part in manifest.operators[operator].slices:
            total = found.setdefault(part.generation, np.zeros((len(inputs), self.groups)))
            total[inputs.index(manifest.runs[part.run].input)] += self._slice(manifest, part)
        return found

    def slice_bytes(self, manifest: Manifest, part: Slice, groups: Iterable[int]) -> int:
        """What a slice holds of some groups."""
        return int(self._slice(manifest, part)[list(groups)].sum())

    def _sum(self, manifest: Manifest, slices: Iterable[Slice]) -> Bytes:
        total: Bytes = np.zeros(self.groups)
        for part in slices:
            total += self._slice(manifest, part)
        return total

    def _slice(self, manifest: Manifest, part: Slice) -> Bytes:
        run = manifest.runs[part.run]
        if run.id not in self._sizes:
            _, measured = bytes_by_group(open_run(self.storage, run), self.groups)
            self._sizes[run.id] = measured.astype(np.float64)
            release_run(self.storage, run)
            if part.tier == "disk":
                self.storage.forget([run.path])
        sizes = self._sizes[run.id]
        if part.groups == run.groups:
            return sizes
        counted = np.zeros(self.groups)
        chosen = list(members(part.groups))
        counted[chosen] = sizes[chosen]
        return counted
