"""The figures the project promises for `adaptive`, and which cells keep them."""

from collections.abc import Sequence

import msgspec

from watersmeet.lab.spill.trial import CLAIRVOYANT, INFORMED, Cell

OURS = "adaptive"
OF_BEST = 0.97
OF_CLAIRVOYANT = 0.90
TIMES_LRU = 1.5
LRU_BUDGET = 0.1


class Verdict(msgspec.Struct, frozen=True):
    """A bound in one cell: the ratio, the least it should be, and what it was compared with.

    ``knowable`` is the ratio of the policy that knows the present exactly, where it was run.
    """

    bound: str
    setting: str
    budget: float
    against: str
    ratio: float
    least: float
    knowable: float | None = None

    @property
    def met(self) -> bool:
        """Whether it holds."""
        return self.ratio >= self.least


def judge(cells: Sequence[Cell]) -> list[Verdict]:
    """All bounds in all cells."""
    return [verdict for cell in cells for verdict in _judge(cell)]


def _judge(cell: Cell) -> list[Verdict]:
    others = [name for name in cell.scores if name not in {OURS, CLAIRVOYANT, INFORMED}]
    best = max(others, key=lambda name: cell.scores[name].results)
    found = [_verdict("best of the others", cell, best, OF_BEST)]
    found.append(_verdict("clairvoyant", cell, CLAIRVOYANT, OF_CLAIRVOYANT))
    if cell.unequal and cell.budget == LRU_BUDGET:
        found.append(_verdict("recency", cell, "lru", TIMES_LRU))
    return found


def _verdict(bound: str, cell: Cell, against: str, least: float) -> Verdict:
    goal = cell.scores[against].results
    known = cell.scores[INFORMED].results if INFORMED in cell.scores and against == CLAIRVOYANT else None
    ratio, knowable = _times(cell.scores[OURS].results, goal), None if known is None else _times(known, goal)
    return Verdict(bound, cell.setting, cell.budget, against, ratio, least, knowable)


def _times(results: float, goal: float) -> float:
    return results / goal if goal > 0 else float("inf")


def beyond(cell: Cell) -> bool:
    """Whether the clairvoyant is out of reach in a cell, so that one would know if the present alone is enough."""
    return any(not verdict.met and verdict.against == CLAIRVOYANT for verdict in _judge(cell))
