"""The merges a site is told to do, by the policy of `watersmeet.adapt.merging`.

Of each input, an epoch has at most one merge of live runs and one of a closed generation, the oldest that needs it.
"""

from collections.abc import Iterable, Iterator

from watersmeet.adapt import merging
from watersmeet.engine.spec import MergeOrder, OperatorSpec
from watersmeet.model.ids import RunId, SiteId
from watersmeet.state.groups import groups_at, to_ranges
from watersmeet.state.manifest import LIVE, Manifest, RunFile, Slice

CLOSED_PARTS = 4
"""What was spilled is not in memory: a merge of it may take this part of a round."""

Pair = tuple[RunFile, Slice]


def merge_orders(manifest: Manifest, operator: OperatorSpec, site: SiteId, round_bytes: int) -> Iterator[MergeOrder]:
    """All merges of an operator's inputs at a site."""
    local = to_ranges(groups_at(manifest.operators[operator.id].routing, site))
    live = manifest.live(operator.id, site)
    closed = [] if manifest.cleaning else manifest.closed(operator.id, site)
    limit_bytes = round_bytes // CLOSED_PARTS
    for source in operator.inputs:
        runs = _live(pair for pair in live if pair[0].input == source.name)
        if runs:
            yield MergeOrder(operator.id, source.name, runs, local)
        generation, runs = _oldest((pair for pair in closed if pair[0].input == source.name), limit_bytes)
        if runs:
            yield MergeOrder(operator.id, source.name, runs, local, generation, limit_bytes)


def _live(pairs: Iterable[Pair]) -> tuple[Pair, ...]:
    runs = {run.id: (run, part) for run, part in pairs}
    return tuple(runs[each] for each in merging.choose({run.id: run.bytes for run, _ in runs.values()}))


def _oldest(pairs: Iterable[Pair], limit_bytes: int) -> tuple[int, tuple[Pair, ...]]:
    """The oldest closed generation with something to merge, and what."""
    generations: dict[int, dict[RunId, Pair]] = {}
    for run, part in pairs:
        generations.setdefault(part.generation, {})[run.id] = (run, part)
    for generation, runs in sorted(generations.items()):
        sizes = {run.id: merging.slice_bytes(run, part) for run, part in runs.values()}
        chosen = merging.choose_closed(sizes, limit_bytes)
        if chosen:
            return generation, tuple(runs[each] for each in chosen)
    return LIVE, ()
