"""A merge at a site: several runs of an input become one, as far as they hold some groups of a generation.

What was spilled shall leave memory, and stays out of it: the runs of a closed generation are let go of afterwards.
"""

from collections.abc import Callable

from watersmeet.model.ids import RunId
from watersmeet.site.expiry import End
from watersmeet.site.spec import MergeOrder
from watersmeet.state.changes import MergeRuns
from watersmeet.state.manifest import LIVE
from watersmeet.state.rows import SortedRows, merge_rows
from watersmeet.state.runs import RunName, open_groups, release_run, write_run
from watersmeet.storage.base import Storage

Combine = Callable[[SortedRows], SortedRows]


def merge(
    storage: Storage,
    order: MergeOrder,
    groups: int,
    run_id: RunId,
    live: frozenset[str],
    end: End | None = None,
    combine: Combine | None = None,
) -> MergeRuns:
    """Carry out an order; ``live`` are the paths of the runs that are probed here, ``combine`` makes rows fewer.

    At their ``end`` rows go.
    """
    asked = [(run, part.groups & order.groups) for run, part in order.runs]
    pieces = [piece for run, some in asked for piece in open_groups(storage, run, some, groups, once=True)]
    source = order.source
    name = RunName(run_id, source.operator, source.name, source.bounded, source.ending)
    rows = pieces[0] if len(pieces) == 1 else merge_rows(pieces)  # one piece is in order
    rows = rows if combine is None else combine(rows)
    needed = (end or order.end(groups)).still_needed(rows)
    merged = write_run(storage, name, needed, groups)
    if order.generation != LIVE:
        for run, _ in order.runs:
            release_run(storage, run)
        storage.forget({merged.path, *(run.path for run, _ in order.runs)} - live)
    ids = tuple(run.id for run, _ in order.runs)
    dropped, is_purge = len(rows) - len(needed), order.look is not None
    return MergeRuns(ids, order.groups, merged, order.generation, order.reason, dropped, is_purge, order.since)
