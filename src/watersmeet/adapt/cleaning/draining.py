"""When parked groups are drained: cleaned so that the results they miss come out, while input goes on.

Parking closes a group's generation, as spilling does, but for the sake of time: what comes meanwhile is stored, in
order, and joined with the rest when there is time again (`watersmeet.adapt.moving.parking`). Parked groups are drained
a slice after each epoch, unless they are *held*: their site is still short of time. Nobody holds a group for ever: one
is drained that has waited for `WAIT_EPOCHS`, and all of a site for which more than `WAIT_BYTES` have come.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from watersmeet.model.ids import OperatorId
from watersmeet.state.groups import GroupSet
from watersmeet.state.manifest import Manifest
from watersmeet.state.sizes import live_bytes

WAIT_EPOCHS = 16
"""So many epochs a parked group waits at most. What lasts for longer is no burst, and moves are for it."""

WAIT_BYTES = 64 << 20
"""So many bytes may have come for the parked groups of a site: as much as a slice or two of cleanup reads."""


@dataclass
class Draining:
    """Which parked groups wait, and which are due; ``held`` are those of sites that are short of time."""

    held: Mapping[OperatorId, GroupSet] = field(default_factory=dict)

    def due(self, manifest: Manifest, operator: OperatorId) -> GroupSet:
        """The parked groups of an operator that wait no longer."""
        parked = manifest.parked(operator)
        held = parked & self.held.get(operator, GroupSet())
        if not held:
            return parked
        waited = manifest.parked(operator, until=manifest.batch - WAIT_EPOCHS)
        return parked - (held - waited - _at_full_sites(manifest, operator))


def _at_full_sites(manifest: Manifest, operator: OperatorId) -> GroupSet:
    """The groups of an operator at sites where too much has come for parked ones, of all operators together."""
    came = np.zeros(manifest.sites)
    for name, state in manifest.operators.items():
        mask = manifest.parked(name).mask(manifest.groups)
        np.add.at(came, np.asarray(state.routing)[mask], live_bytes(manifest, name)[mask])
    return GroupSet.within((came > WAIT_BYTES)[np.asarray(manifest.operators[operator].routing)])
