"""When to look for rows that can go because of punctuations, and to write their runs anew without them.

Which rows a punctuation lets go is not known until they are looked at. So all live runs of an operator are looked at
once new promises have come, or rows were decided because of them, but only as often as it pays: at once while there is
little, else when the state has grown by `GROWTH` since, so that what looking costs follows what came in. When memory is
short it is done at once, too: purging comes before spilling. Any merge drops such rows as well.
"""

from dataclasses import dataclass, field

from watersmeet.model.ids import OperatorId, SiteId
from watersmeet.model.plan import Operator
from watersmeet.state.manifest import Manifest
from watersmeet.state.promises import streams_of
from watersmeet.state.sizes import live_bytes_by_site

SMALL_BYTES = 64 << 10
GROWTH = 1.5
SHORT = 0.8
"""Memory is short when this part of the budget is used."""


@dataclass
class Purging:
    """Tells when it pays to look; ``growth`` is by how much state has to have grown since the last time.

    Asked to be thorough, it looks at everything in the next step, and remembers the version this step began with.
    """

    budget_bytes: int | None = None
    growth: float = GROWTH
    thorough_at: int | None = None
    _is_thorough: bool = False
    _looked: dict[tuple[OperatorId, SiteId], tuple[tuple[int, ...], int]] = field(default_factory=dict)

    def due(self, manifest: Manifest) -> set[tuple[OperatorId, SiteId]]:
        """The operators and sites whose runs are looked at in the next step."""
        if not manifest.promised:
            return set()
        short = self._short_sites(manifest)
        concerned = [operator.id for operator in manifest.plan.operators if _is_concerned(manifest, operator)]
        pairs = [(name, SiteId(site)) for name in concerned for site in range(manifest.sites)]
        if self._is_thorough:
            self._is_thorough, self.thorough_at = False, manifest.version
            return set(pairs)
        return {pair for pair in pairs if self._is_due(manifest, pair, is_short=pair[1] in short)}

    def be_thorough(self) -> None:
        """Look at everything in the next step."""
        self._is_thorough = True

    def _is_due(self, manifest: Manifest, pair: tuple[OperatorId, SiteId], *, is_short: bool) -> bool:
        state = manifest.operators[pair[0]]
        decided = max((int(each.array.max()) for each in state.decided_keys.values()), default=0)
        passed = max((marks[-1][1] for marks in state.passed.values()), default=0)
        newest = max(manifest.promised.values()), decided, passed
        size = sum(run.bytes for run, _ in manifest.live(*pair))
        looked, before = self._looked.get(pair, ((0, 0, 0), 0))
        is_due = looked != newest and (is_short or size <= SMALL_BYTES or size >= self.growth * before)
        if is_due:
            self._looked[pair] = newest, size
        return is_due

    def _short_sites(self, manifest: Manifest) -> set[int]:
        budget = self.budget_bytes
        if budget is None:
            return set()
        return {site for site, size in enumerate(live_bytes_by_site(manifest)) if size > SHORT * budget}


def _is_concerned(manifest: Manifest, operator: Operator) -> bool:
    """Whether rows of an operator may go because of what its streams have promised of keys; a ring has none."""
    streams = frozenset().union(*(streams_of(manifest, source) for source in operator.inputs))
    return operator.kind != "ring" and not streams.isdisjoint(manifest.promised)
