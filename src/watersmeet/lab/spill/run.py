"""`watersmeet bench spill`: every cell of the table, in as many processes as there are processors."""

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import msgspec

from watersmeet.lab.spill.judge import beyond, judge
from watersmeet.lab.spill.order import ORDER_SETTINGS, Order, order_of
from watersmeet.lab.spill.score_table import SpillReport
from watersmeet.lab.spill.settings import SETTINGS, Setting, Size
from watersmeet.lab.spill.trial import INFORMED, Cell, try_out

BUDGETS = (0.3, 0.1, 0.04)
"""Parts of the state that an unlimited run has in the end."""
FULL, QUICK = Size(), Size(epochs=12, rows=150, tuple_range=900, groups=20)
SEEDS, QUICK_SEEDS = (11, 12), (11,)
"""`adaptive` was tuned on others, but for how it tells chance from nature (`model.fates`): on four others and these."""


def run_spill(quick: bool, progress: Callable[[str], None]) -> SpillReport:  # noqa: FBT001 -- the seam
    """Try all strategies on all settings and budgets; ``quick`` takes tiny sizes and judges nothing."""
    size, seeds = (QUICK, QUICK_SEEDS) if quick else (FULL, SEEDS)
    tasks = [(setting, size, seeds) for setting in SETTINGS]
    places = [(setting, size, seeds) for setting in ORDER_SETTINGS]
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        rows = list(_told(pool.map(_cells, *zip(*tasks, strict=True)), progress))
        orders = list(pool.map(_orders, *zip(*places, strict=True)))
        cells = [cell for row in rows for cell in row]
        if not quick:
            missed = [cell for cell in cells if beyond(cell)]
            known = pool.map(informed_too, missed, [size] * len(missed), [seeds] * len(missed))
            told = {(cell.setting, cell.budget): cell for cell in known}
            cells = [told.get((cell.setting, cell.budget), cell) for cell in cells]
    return SpillReport(tuple(cells), tuple(judge(cells)), tuple(order for row in orders for order in row), quick)


def _cells(setting: Setting, size: Size, seeds: Sequence[int]) -> list[Cell]:
    """One process's share: all budgets, as they have the data in common."""
    return [try_out(setting, budget, size, seeds) for budget in BUDGETS]


def informed_too(cell: Cell, size: Size, seeds: Sequence[int]) -> Cell:
    """The cell with one more policy, to tell what can be known there."""
    [setting] = [each for each in SETTINGS if each.name == cell.setting]
    more = try_out(setting, cell.budget, size, seeds, [INFORMED]).scores
    return msgspec.structs.replace(cell, scores=cell.scores | more)


def _orders(setting: Setting, size: Size, seeds: Sequence[int]) -> list[Order]:
    return [order_of(setting, budget, size, seeds) for budget in BUDGETS]


def _told(rows: Iterable[list[Cell]], progress: Callable[[str], None]) -> Iterable[list[Cell]]:
    for row in rows:
        shares = ", ".join(f"{cell.scores['adaptive'].results:.1%} at {cell.budget:.0%}" for cell in row)
        progress(f"spill: {row[0].setting}: adaptive has {shares}")
        yield row
