"""Where groups are and how they move, in words: for people (`explain`)."""

from collections.abc import Iterator

import numpy as np

from watersmeet.adapt.moving.policies import MEANINGS
from watersmeet.state.manifest import Manifest


def placement(manifest: Manifest, adaptation: str) -> Iterator[str]:
    """Which policy moves groups, and how many groups of each operator are on each site.

    >>> from watersmeet.model.plan import Plan
    >>> from watersmeet.state.manifest import OperatorState
    >>> manifest = Manifest("q", Plan((), (), ()), 4, 2, {"join1": OperatorState((0, 0, 0, 1))})
    >>> list(placement(manifest, "flux"))
    ['adaptation flux: busy sites give groups to idle ones; bursts are parked', '    groups of join1 by site: 3, 1']
    """
    yield f"adaptation {adaptation}: {MEANINGS[adaptation]}"
    for name, state in manifest.operators.items():
        groups = np.bincount(state.routing, minlength=manifest.sites).tolist()
        yield f"    groups of {name} by site: {', '.join(map(str, groups))}"
        for split in state.splits:
            sites = ", ".join(map(str, split.sites))
            yield f"    group {split.group} of {name} is split over sites {sites}: rows of {split.input} are dealt out"
        if parked := manifest.parked(name):
            yield f"    {len(parked)} groups of {name} are parked: what they hold is joined when there is time"
