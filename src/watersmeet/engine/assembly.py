"""From a manifest and a topology to what the site tasks of an epoch are told."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from watersmeet.adapt.cleaning import deal
from watersmeet.engine.crash import CrashPlan
from watersmeet.engine.direct import Direct
from watersmeet.engine.merges import closed_merges, live_merges
from watersmeet.engine.spec import (
    ROUND_LIMIT_BYTES,
    SITE_NUMBER,
    CleaningOrder,
    LevelSpec,
    OperatorSpec,
    Route,
    SiteSlice,
)
from watersmeet.engine.topology import Topology
from watersmeet.model.ids import EpochId, SiteId
from watersmeet.state.groups import members
from watersmeet.state.ledger import Ledger
from watersmeet.state.manifest import Cleaning, Manifest
from watersmeet.storage.base import Storage


@dataclass(frozen=True)
class Assembly:
    """What does not change between epochs; there is a ledger where there is a budget."""

    topology: Topology
    storage: Storage
    driver: str
    direct: Direct | None = None
    crash: CrashPlan | None = None
    forget_pairs: bool = False
    round_bytes: int = ROUND_LIMIT_BYTES
    ledger: Ledger | None = None

    def levels(self, manifest: Manifest, keys: Sequence[int], first: int = 0) -> list[LevelSpec]:
        """The specifications of the levels from the first on, for the epoch that reads this manifest."""
        return [self._level(level, manifest, keys) for level in range(first, self.topology.depth)]

    def cleaning(self, manifest: Manifest, keys: Sequence[int], sizes: Mapping[int, float]) -> list[LevelSpec]:
        """The levels of a step of cleanup: the operator's own, whose sites share the groups, and those above."""
        if manifest.cleaning is None:
            raise ValueError(manifest.version)
        name = manifest.cleaning.operator
        lowest, *above = self.levels(manifest, keys, self.topology.plan.operator(name).level)
        shares = deal(manifest.cleaning, sizes, manifest.sites)
        sites = {
            site: replace(part, cleaning=cleaning_order(manifest, manifest.cleaning, shares[site], sizes))
            for site, part in lowest.sites.items()
        }
        if manifest.cleaning.at_end:
            above = [replace(spec, only_stores=True, direct=None) for spec in above[:1]]
        return [replace(lowest, sites=sites), *above]

    def _level(self, level: int, manifest: Manifest, keys: Sequence[int]) -> LevelSpec:
        operators = self.topology.operators(level)
        return LevelSpec(
            driver=self.driver,
            epoch=EpochId(manifest.version),
            level=level,
            groups=manifest.groups,
            storage=self.storage,
            incoming=self.topology.incoming(level),
            inputs=self.topology.specs,
            operators=operators,
            outgoing=self.topology.outgoing(level),
            output=self.topology.output_schema(level),
            sites={SiteId(n): self._site_slice(manifest, operators, SiteId(n), key) for n, key in enumerate(keys)},
            direct=self.direct if level == self.topology.depth - 1 else None,
            crash=self.crash,
            forget_pairs=self.forget_pairs,
            round_bytes=self.round_bytes,
            weighs=self.ledger is not None,
            packed=self.topology.packs(level),
            routes=self._routes(level, manifest),
        )

    def _site_slice(self, manifest: Manifest, operators: Sequence[OperatorSpec], site: SiteId, key: int) -> SiteSlice:
        """What one site needs to know of the manifest for some operators."""
        live = {operator.id: tuple(manifest.live(operator.id, site)) for operator in operators}
        merges = [order for operator in operators for order in live_merges(manifest, operator, site, self.ledger)]
        if self.ledger is not None:
            for operator in operators:
                merges += closed_merges(manifest, operator, site, self.ledger, self.round_bytes)
        return SiteSlice(key, live, tuple(merges))

    def _routes(self, level: int, manifest: Manifest) -> Mapping[int, Route]:
        if not self.topology.packs(level + 1):
            return {}
        tables = {tag: manifest.operators[self.topology.inputs[tag][0].id] for tag in self.topology.fed_by_level(level)}
        return {
            tag: Route(tag, self.topology.plain_keys(tag), np.asarray(state.routing, dtype=SITE_NUMBER).tobytes())
            for tag, state in tables.items()
        }


def cleaning_order(
    manifest: Manifest, cleaning: Cleaning, groups: tuple[int, ...], sizes: Mapping[int, float]
) -> CleaningOrder:
    """What a site is told of its share of a step: its groups, and every slice that holds any of them."""
    wanted = frozenset(groups)
    slices = (part for part in manifest.operators[cleaning.operator].slices if members(part.groups) & wanted)
    found = tuple((manifest.runs[part.run], part) for part in slices)
    weights = tuple(int(sizes.get(group, 0)) for group in groups)
    return CleaningOrder(cleaning.operator, groups, weights, found, cleaning.gather_bytes)


def routing_keys(manifest: Manifest, keys: Sequence[int]) -> Mapping[str, tuple[int, ...]]:
    """Every operator's routing table in terms of site keys."""
    return {name: tuple(keys[site] for site in state.routing) for name, state in manifest.operators.items()}
