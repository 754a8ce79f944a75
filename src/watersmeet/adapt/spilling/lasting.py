"""For how many epochs what is live goes on to count: rows with a window come to their end.

A run tells when its first and its last row end, and the limit up to which rows have ended moves on with the watermarks.
How far it moves in an epoch is learnt. So what a group holds lasts, on average, for as many epochs as the limit needs
to reach the middle of its runs. Rows are taken to end evenly, from now on until twice that.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from watersmeet.adapt.statistics import Floats
from watersmeet.model.ids import InputName, OperatorId
from watersmeet.model.plan import Input, Operator
from watersmeet.state.ends import FOREVER, ends
from watersmeet.state.manifest import Manifest
from watersmeet.state.promises import droppable
from watersmeet.state.sizes import live_bytes_of

LEARNT = 0.3
"""The part that an epoch has in what is known of how far limits move."""

LEAST_EPOCHS = 0.05
"""What is about to go lasts for so long."""

Pair = tuple[OperatorId, InputName]


@dataclass
class Lasting:
    """Learns how far limits move in an epoch, and tells for how many more what is held lasts."""

    _limits: dict[Pair, tuple[int, int]] = field(default_factory=dict)
    _moves: dict[Pair, float] = field(default_factory=dict)

    def see(self, manifest: Manifest) -> None:
        """Learn from the limits of an epoch."""
        for pair, limit in droppable(manifest).items():
            batch, before = self._limits.get(pair, (manifest.batch, limit))
            epochs = manifest.batch - batch
            if limit < FOREVER and epochs > 0:
                moved = (limit - before) / epochs
                known = self._moves.get(pair, moved)
                self._moves[pair] = known + LEARNT * (moved - known)
            if limit < FOREVER and (epochs > 0 or pair not in self._limits):
                self._limits[pair] = (manifest.batch, limit)

    def epochs(self, manifest: Manifest) -> Mapping[OperatorId, Floats]:
        """For how many epochs what is live of each group lasts on average, ``[input, group]``; endless if unknown."""
        return {operator.id: self._of(manifest, operator) for operator in manifest.plan.operators}

    def _of(self, manifest: Manifest, operator: Operator) -> Floats:
        return np.stack([self._of_input(manifest, operator.id, source) for source in operator.inputs])

    def _of_input(self, manifest: Manifest, operator: OperatorId, source: Input) -> Floats:
        pair = (operator, source.name)
        endless, move, life = np.full(manifest.groups, np.inf), self._moves.get(pair, 0.0), source.life
        if move <= 0 or life is None:
            return endless
        limit, total, weighed = self._limits[pair][1], np.zeros(manifest.groups), np.zeros(manifest.groups)
        for run, sizes in live_bytes_of(manifest, operator, source.name):
            span = ends(run, life)
            if span is None:
                return endless
            total += sizes
            weighed += sizes * max(((span[0] + span[1]) / 2 - limit) / move, LEAST_EPOCHS)
        found: Floats = np.divide(weighed, total, out=endless, where=total > 0)
        return found
