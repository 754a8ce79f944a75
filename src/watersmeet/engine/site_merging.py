"""A merge at a site: several runs of an input become one, as far as they hold some groups of a generation.

What was spilled shall leave memory, and stays out of it: of a closed generation no more is merged than the order's
limit allows, by what the runs really hold, and the runs are let go of afterwards.
"""

from watersmeet.engine.spec import MergeOrder
from watersmeet.model.ids import RunId
from watersmeet.state.changes import MergeRuns
from watersmeet.state.groups import Ranges, members, to_ranges
from watersmeet.state.manifest import LIVE, RunFile, Slice
from watersmeet.state.rows import SortedRows, merge_rows
from watersmeet.state.runs import open_run, release_run, write_run
from watersmeet.storage.base import Storage


def merge(
    storage: Storage, order: MergeOrder, groups: int, name: RunId, live: frozenset[str]
) -> tuple[MergeRuns, SortedRows] | None:
    """Carry out an order; None where no two runs are within its limit. ``live`` are the paths that are probed here."""
    taken, pieces = _within_limit(storage, order, groups)
    found = None
    if len(taken) > 1:
        rows = merge_rows(pieces)
        run = write_run(storage, name, order.operator, order.input, rows, groups)
        found = MergeRuns(tuple(each.id for each in taken), order.groups, run, order.generation), rows
    if order.generation != LIVE:
        paths = {run.path for run, _ in order.runs} | ({found[0].run.path} if found else set())
        for run, _ in order.runs:
            release_run(storage, run)
        storage.forget(paths - live)
    return found


def _within_limit(storage: Storage, order: MergeOrder, groups: int) -> tuple[list[RunFile], list[SortedRows]]:
    taken: list[RunFile] = []
    pieces: list[SortedRows] = []
    size = 0
    for run, part in order.runs:
        mine = open_run(storage, run).of_groups(_shared(part, order), groups)
        size += sum(piece.bytes for piece in mine)
        if order.limit_bytes is not None and size > order.limit_bytes:
            break
        taken.append(run)
        pieces += mine
    return taken, pieces


def _shared(part: Slice, order: MergeOrder) -> Ranges:
    return to_ranges(members(part.groups) & members(order.groups))
