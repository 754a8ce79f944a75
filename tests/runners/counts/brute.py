"""The same query row by row, with loops that anyone can check."""

from collections import defaultdict
from itertools import product

import numpy as np

from watersmeet.runners.counts import key_group


class BruteForce:
    """Chains of levels, as the simulator has; state is a list of rows for each operator, group and input."""

    def __init__(self, levels, groups):
        self.levels, self.groups = levels, groups
        self.state = [defaultdict(list) for _ in levels]

    def step(self, epoch):
        """Give the results of every level, each a tuple of groups it came through."""
        results, made = [], []
        for number, level in enumerate(self.levels):
            arrived = [
                (place, int(stream.key[row]), (stream, row))
                for place, stream in enumerate(level.streams)
                for row in np.flatnonzero(stream.epoch == epoch).tolist()
            ]
            arrived += [(len(level.streams), self._next_key(number - 1, rows), rows) for rows in made]
            made = []
            for place, key, rows in arrived:
                made += self._add(number, place, key, rows)
            results.append([self._trace(number, rows) for rows in made])
        return results

    def spill(self, level, group):
        self.state[level] = defaultdict(
            list, {place: rows for place, rows in self.state[level].items() if self._group(place[1]) != group}
        )

    def live_bytes(self, level, group):
        return sum(
            sum(stream.row_bytes for stream, _ in _flat(rows))
            for (_, key), held in self.state[level].items()
            if self._group(key) == group
            for rows in held
        )

    def _add(self, level, place, key, rows):
        inputs = len(self.levels[level].streams) + (level > 0)
        others = [[rows] if other == place else self.state[level][other, key] for other in range(inputs)]
        self.state[level][place, key].append(rows)
        return [tuple(_flat(joined)) for joined in product(*others)]

    def _next_key(self, level, rows):
        carrier = self.levels[level].carrier
        [row] = [row for stream, row in _flat(rows) if stream is carrier]
        return int(carrier.next_key[row])

    def _trace(self, level, rows):
        found = []
        for below in range(level + 1):
            streams = self.levels[below].streams
            keys = {int(stream.key[row]) for stream, row in _flat(rows) if any(stream is each for each in streams)}
            assert len(keys) == 1
            found.append(self._group(keys.pop()))
        return tuple(found)

    def _group(self, key):
        return int(key_group(np.array([key]), self.groups)[0])


def _flat(rows):
    if len(rows) == 2 and hasattr(rows[0], "row_bytes"):
        return [rows]
    return [pair for part in rows for pair in _flat(part)]
