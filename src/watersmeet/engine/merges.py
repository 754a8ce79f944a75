"""The merges a site is told to do, by the policy of `watersmeet.adapt.merging`.

Of each input, an epoch has at most one merge of live runs and one of a closed generation, the oldest that needs it. A
run counts with what is still used of it: after spills a large file may hold little that is live. Where there is no
budget, and so no ledger, that is all of it.
"""

from collections.abc import Iterable, Iterator

from watersmeet.adapt import merging
from watersmeet.engine.spec import MergeOrder, OperatorSpec
from watersmeet.model.ids import RunId, SiteId
from watersmeet.state.groups import groups_at, to_ranges
from watersmeet.state.ledger import Ledger
from watersmeet.state.manifest import Manifest, RunFile, Slice

CLOSED_PARTS = 4
"""What was spilled is not in memory: a merge of it may take this part of a round."""

Pair = tuple[RunFile, Slice]


def live_merges(
    manifest: Manifest, operator: OperatorSpec, site: SiteId, ledger: Ledger | None
) -> Iterator[MergeOrder]:
    """The merges of an operator's live runs at a site."""
    here = groups_at(manifest.operators[operator.id].routing, site)
    local = to_ranges(here)
    for source in operator.inputs:
        runs = _by_id(pair for pair in manifest.live(operator.id, site) if pair[0].input == source.name)
        sizes = {
            run.id: run.bytes if ledger is None else ledger.slice_bytes(manifest, part, here)
            for run, part in runs.values()
        }
        chosen = merging.choose(sizes)
        if chosen:
            yield MergeOrder(operator.id, source.name, tuple(runs[each] for each in chosen), local)


def closed_merges(
    manifest: Manifest, operator: OperatorSpec, site: SiteId, ledger: Ledger, round_bytes: int
) -> Iterator[MergeOrder]:
    """The merges of an operator's closed generations at a site; none while some are being cleaned."""
    here = groups_at(manifest.operators[operator.id].routing, site)
    local = to_ranges(here)
    closed = [] if manifest.cleaning else manifest.closed(operator.id, site)
    for source in operator.inputs:
        mine = [pair for pair in closed if pair[0].input == source.name]
        for generation in sorted({part.generation for _, part in mine}):
            runs = _by_id(pair for pair in mine if pair[1].generation == generation)
            if len(runs) >= merging.CLOSED_FAN_IN:
                sizes = {run.id: ledger.slice_bytes(manifest, part, here) for run, part in runs.values()}
                chosen = merging.choose_closed(sizes, round_bytes // CLOSED_PARTS)
                if chosen:
                    yield MergeOrder(operator.id, source.name, tuple(runs[each] for each in chosen), local, generation)
                    break


def _by_id(pairs: Iterable[Pair]) -> dict[RunId, Pair]:
    return {run.id: (run, part) for run, part in pairs}
