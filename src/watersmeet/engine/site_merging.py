"""A merge at a site: several runs of an input become one, as far as they hold some groups of a generation.

What was spilled shall leave memory, and stays out of it: the runs of a closed generation are let go of afterwards.
"""

from watersmeet.engine.spec import MergeOrder
from watersmeet.model.ids import RunId
from watersmeet.state.changes import MergeRuns
from watersmeet.state.groups import members, to_ranges
from watersmeet.state.manifest import LIVE
from watersmeet.state.rows import SortedRows, merge_rows
from watersmeet.state.runs import open_run, release_run, write_run
from watersmeet.storage.base import Storage


def merge(
    storage: Storage, order: MergeOrder, groups: int, name: RunId, live: frozenset[str]
) -> tuple[MergeRuns, SortedRows]:
    """Carry out an order; gives the rows too. ``live`` are the paths of the runs that are probed here."""
    pieces = [
        piece
        for run, part in order.runs
        for piece in open_run(storage, run).of_groups(to_ranges(members(part.groups) & members(order.groups)), groups)
    ]
    rows = merge_rows(pieces)
    merged = write_run(storage, name, order.operator, order.input, rows, groups)
    if order.generation != LIVE:
        for run, _ in order.runs:
            release_run(storage, run)
        storage.forget({merged.path, *(run.path for run, _ in order.runs)} - live)
    return MergeRuns(tuple(run.id for run, _ in order.runs), order.groups, merged, order.generation), rows
