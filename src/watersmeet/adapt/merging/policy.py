"""Suggests the merges of a step, for its tasks to do (`choice`).

Of each input, a step has at most one merge of live runs and one of a closed generation at a site, the oldest that needs
it. A run counts with what is still used of it: after spills a large file may hold little that is live.

What an aggregate holds of a key becomes less as it is merged, so its large runs are merged, too: some groups at a time.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from watersmeet.adapt.merging import choice
from watersmeet.adapt.merging.purging import Purging
from watersmeet.adapt.policy import Merge, Moment, Suggestion, View
from watersmeet.model.ids import InputName, OperatorId, RunId, SiteId
from watersmeet.model.plan import Input, Operator
from watersmeet.state.ends import ends
from watersmeet.state.groups import GroupSet, groups_at
from watersmeet.state.manifest import Manifest, RunFile, Slice
from watersmeet.state.promises import Limits, droppable
from watersmeet.state.sizes import rows_and_bytes, slice_bytes

CLOSED_PARTS = 4
"""What was spilled is not in memory: a merge of it may take this part of a round."""

Pair = tuple[RunFile, Slice]


@dataclass(frozen=True)
class MergePolicy:
    """Merges what is live, and, where there is a budget, what was spilled."""

    round_bytes: int
    merges_closed: bool
    purging: Purging = field(default_factory=Purging)
    moments: frozenset[Moment] = frozenset({"tasks"})

    def suggest(self, view: View) -> Iterator[Suggestion]:
        """A merge for every site and input that has too many runs; and runs that may hold rows which can go."""
        manifest, over = view.manifest, droppable(view.manifest)
        sites = [SiteId(site) for site in range(manifest.sites)]
        pairs = [(operator, site) for operator in manifest.plan.operators for site in sites]
        merges = [merge for operator, site in pairs for merge in self._at(view, operator, site, over)]
        least = view.rewrite_at.get("purge")
        looks = [] if least is None else self.purging.looks(manifest, merges, least)
        yield from map(Suggestion, (*merges, *looks))

    def _at(self, view: View, operator: Operator, site: SiteId, over: Limits) -> Iterator[Merge]:
        manifest, rewrite_at = view.manifest, view.rewrite_at.get("invalidation")
        live = manifest.live(operator.id, site)
        is_closing = self.merges_closed and manifest.cleaning is None
        closed = manifest.closed(operator.id, site) if is_closing else []
        for source in operator.inputs:
            limit = over.get((operator.id, source.name))
            ages = _by_age(pair for pair in live if pair[0].input == source.name)
            tried = (_live(manifest, operator.id, source, site, alike, limit, rewrite_at) for alike in ages)
            merges = list(next(filter(None, map(list, tried)), ()))
            is_growing = operator.kind == "aggregate" and not merges
            yield from merges if not is_growing else _large(manifest, operator.id, source.name, site, live)
            yield from self._closed(manifest, operator.id, source.name, site, closed)

    def _closed(
        self, manifest: Manifest, operator: OperatorId, source: InputName, site: SiteId, closed: Iterable[Pair]
    ) -> Iterator[Merge]:
        here = groups_at(manifest.operators[operator].routing, site)
        generations: dict[tuple[int, int], list[Pair]] = {}
        for pair in closed:
            if pair[0].input == source:
                generations.setdefault((pair[1].generation, pair[1].since), []).append(pair)
        for (generation, since), mine in sorted(generations.items()):
            runs = _by_id(mine)
            if len(runs) >= choice.CLOSED_FAN_IN:
                sizes = {run.id: slice_bytes(run, part, here) for run, part in runs.values()}
                chosen = choice.choose_closed(sizes, self.round_bytes // CLOSED_PARTS)
                if chosen:
                    reason = f"{len(runs)} runs of {source} in generation {generation}"
                    yield Merge(site, operator, source, tuple(chosen), here, generation, reason, since=since)
                    return


def _live(
    manifest: Manifest,
    operator: OperatorId,
    source: Input,
    site: SiteId,
    alike: Sequence[Pair],
    limit: int | None,
    rewrite_at: float | None,
) -> Iterator[Merge]:
    here = groups_at(manifest.operators[operator].routing, site)
    runs = _by_id(alike)
    sizes = {run.id: slice_bytes(run, part, here) for run, part in runs.values()}
    spans = _spans(source, (run for run, _ in runs.values()))
    if spans is None:
        chosen = choice.choose(sizes) if len(runs) >= choice.FAN_IN else []
        reason = f"{len(runs)} live runs of {source.name}"
    else:
        chosen = choice.choose_by_age(sizes, spans, limit, rewrite_at)
        reason = f"{len(runs)} live runs of {source.name}, by age"
    if chosen:
        yield Merge(site, operator, source.name, tuple(chosen), here, reason=reason, since=alike[0][1].since)


def _by_age(pairs: Iterable[Pair]) -> list[list[Pair]]:
    """Slices that are since the same version, most first; only those of rings are ever since different ones."""
    ages: dict[int, list[Pair]] = {}
    for pair in pairs:
        ages.setdefault(pair[1].since, []).append(pair)
    return sorted(ages.values(), key=len, reverse=True)


def _large(
    manifest: Manifest, operator: OperatorId, source: InputName, site: SiteId, live: Iterable[Pair]
) -> Iterator[Merge]:
    """Runs too large to be merged as a whole, as far as they hold some groups that lie in many of them."""
    here = groups_at(manifest.operators[operator].routing, site)
    least = choice.MERGED_LIMIT_BYTES // choice.FAN_IN
    runs = [(run, part) for run, part in _by_id(live).values() if slice_bytes(run, part, here) >= least]
    if len(runs) < choice.FAN_IN:
        return
    depth = np.sum([(part.groups & here).mask(manifest.groups) for _, part in runs], axis=0)
    order = np.argsort(-depth, kind="stable")
    deep = order[depth[order] >= choice.FAN_IN]
    _, sizes = rows_and_bytes(manifest, (part for _, part in runs))
    fitting = max(1, int(np.searchsorted(np.cumsum(sizes[deep]), choice.MERGED_LIMIT_BYTES, side="right")))
    groups = GroupSet.of(deep[:fitting].tolist())
    if groups:
        chosen = tuple(run.id for run, part in runs if part.groups & groups)
        reason = f"{len(groups)} groups of {source} lie in {choice.FAN_IN} large runs and more"
        yield Merge(site, operator, source, chosen, groups, reason=reason)


def _spans(source: Input, runs: Iterable[RunFile]) -> dict[RunId, tuple[int, int]] | None:
    """When the first and the last row of each run end; None where some rows never do."""
    if source.life is None:
        return None
    life = source.life
    spans = {run.id: ends(run, life) for run in runs}
    known = {run: span for run, span in spans.items() if span is not None and span[1] < choice.NEVER}
    return known if known and len(known) == len(spans) else None


def _by_id(pairs: Iterable[Pair]) -> dict[RunId, Pair]:
    return {run.id: (run, part) for run, part in pairs}
