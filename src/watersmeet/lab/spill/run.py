"""`watersmeet bench spill`: every cell of the table, in as many processes as there are processors."""

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from watersmeet.lab.spill.judge import judge
from watersmeet.lab.spill.order import ORDER_SETTINGS, Order, order_of
from watersmeet.lab.spill.report import SpillReport
from watersmeet.lab.spill.settings import SETTINGS, Setting, Size
from watersmeet.lab.spill.trial import Cell, try_out

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
        cells = list(_told(pool.map(_cells, *zip(*tasks, strict=True)), progress))
        orders = list(pool.map(_orders, *zip(*places, strict=True)))
    flat = tuple(cell for row in cells for cell in row)
    return SpillReport(flat, tuple(judge(flat)), tuple(order for row in orders for order in row), quick)


def _cells(setting: Setting, size: Size, seeds: Sequence[int]) -> list[Cell]:
    """One process's share: all budgets, as they have the data in common."""
    return [try_out(setting, budget, size, seeds) for budget in BUDGETS]


def _orders(setting: Setting, size: Size, seeds: Sequence[int]) -> list[Order]:
    return [order_of(setting, budget, size, seeds) for budget in BUDGETS]


def _told(rows: Iterable[list[Cell]], progress: Callable[[str], None]) -> Iterable[list[Cell]]:
    for row in rows:
        shares = ", ".join(f"{cell.scores['adaptive'].results:.1%} at {cell.budget:.0%}" for cell in row)
        progress(f"spill: {row[0].setting}: adaptive has {shares}")
        yield row
