"""Suggests the merges of a step, for its tasks to do (`choice`).

Of each input, a step has at most one merge of live runs and one of a closed generation at a site, the oldest that needs
it. A run counts with what is still used of it: after spills a large file may hold little that is live.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from watersmeet.adapt.merging import choice
from watersmeet.adapt.policy import Merge, Moment, Suggestion, View
from watersmeet.model.ids import InputName, OperatorId, RunId, SiteId
from watersmeet.model.plan import Operator
from watersmeet.state.groups import groups_at
from watersmeet.state.manifest import Manifest, RunFile, Slice
from watersmeet.state.sizes import slice_bytes

CLOSED_PARTS = 4
"""What was spilled is not in memory: a merge of it may take this part of a round."""

Pair = tuple[RunFile, Slice]


@dataclass(frozen=True)
class MergePolicy:
    """Merges what is live, and, where there is a budget, what was spilled."""

    round_bytes: int
    merges_closed: bool
    moments: frozenset[Moment] = frozenset({"tasks"})

    def suggest(self, view: View) -> Iterator[Suggestion]:
        """A merge for every site and input that has too many runs."""
        manifest = view.manifest
        for operator in manifest.plan.operators:
            for site in range(manifest.sites):
                yield from map(Suggestion, self._at(manifest, operator, SiteId(site)))

    def _at(self, manifest: Manifest, operator: Operator, site: SiteId) -> Iterator[Merge]:
        live = manifest.live(operator.id, site)
        is_closing = self.merges_closed and manifest.cleaning is None
        closed = manifest.closed(operator.id, site) if is_closing else []
        for source in operator.inputs:
            yield from _live(manifest, operator.id, source.name, site, live)
            yield from self._closed(manifest, operator.id, source.name, site, closed)

    def _closed(
        self, manifest: Manifest, operator: OperatorId, source: InputName, site: SiteId, closed: Iterable[Pair]
    ) -> Iterator[Merge]:
        here = groups_at(manifest.operators[operator].routing, site)
        generations: dict[int, list[Pair]] = {}
        for pair in closed:
            if pair[0].input == source:
                generations.setdefault(pair[1].generation, []).append(pair)
        for generation, mine in sorted(generations.items()):
            runs = _by_id(mine)
            if len(runs) >= choice.CLOSED_FAN_IN:
                sizes = {run.id: slice_bytes(run, part, here) for run, part in runs.values()}
                chosen = choice.choose_closed(sizes, self.round_bytes // CLOSED_PARTS)
                if chosen:
                    reason = f"{len(runs)} runs of {source} in generation {generation}"
                    yield Merge(site, operator, source, tuple(chosen), here, generation, reason)
                    return


def _live(
    manifest: Manifest, operator: OperatorId, source: InputName, site: SiteId, live: Iterable[Pair]
) -> Iterator[Merge]:
    here = groups_at(manifest.operators[operator].routing, site)
    runs = _by_id(pair for pair in live if pair[0].input == source)
    if len(runs) < choice.FAN_IN:
        return
    chosen = choice.choose({run.id: slice_bytes(run, part, here) for run, part in runs.values()})
    if chosen:
        yield Merge(site, operator, source, tuple(chosen), here, reason=f"{len(runs)} live runs of {source}")


def _by_id(pairs: Iterable[Pair]) -> dict[RunId, Pair]:
    return {run.id: (run, part) for run, part in pairs}
