"""What the promises of a version drop: until when rows of each input have ended, and which rows are decided.

It is told to the tasks of the step that reads the version (`watersmeet.driver.task_specs`).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from watersmeet.driver.promises import KeyPromises
from watersmeet.driver.topology import Topology
from watersmeet.model.ids import OperatorId
from watersmeet.site.deciding import Decision
from watersmeet.site.promise_spec import PurgeRule
from watersmeet.state.decided import decided, has_decided, newest_promise, promising_input
from watersmeet.state.groups import GroupSet
from watersmeet.state.manifest import UNDECIDED, Manifest
from watersmeet.state.promises import Limits, decidable, droppable, length_by, unasked


@dataclass(frozen=True)
class Expiry:
    """Until when rows of each input have ended that can go, and the groups that were spilled, whose rows all stay.

    Rows that arrive are decided at once if they have ended: they need not be kept if they are ``unasked`` for.
    What comes to a spilled group has not met what was spilled.
    """

    limits: Limits
    unasked: Limits
    spilled: Mapping[OperatorId, GroupSet]
    ends: Limits
    keys: KeyPromises
    purges: Mapping[int, PurgeRule]

    @classmethod
    def of(cls, manifest: Manifest, topology: Topology, *, tells_apart: bool = False) -> "Expiry":
        """The ends of rows after a version."""
        over, ends, keys = droppable(manifest), decidable(manifest), KeyPromises(manifest, topology, tells_apart)
        rules = {tag: keys.purge(operator, source) for tag, (operator, source) in topology.inputs.items()}
        purges = {tag: rule for tag, rule in rules.items() if rule is not None}
        is_any = bool(over or ends or keys.is_any) or any(each.kind == "aggregate" for each in manifest.plan.operators)
        closed = {name: _not_met(manifest, name) for name in manifest.operators if is_any}
        return cls(over, unasked(manifest), closed, ends, keys, purges)

    def by_tag(self, topology: Topology) -> dict[int, int]:
        """Which rows that arrive need not be kept, by the tag of the input; those of preserved inputs are decided."""
        pairs = {tag: (operator.id, source.name) for tag, (operator, source) in topology.inputs.items()}
        return {tag: self.unasked[pair] for tag, pair in pairs.items() if pair in self.unasked}

    def decisions(self, manifest: Manifest, topology: Topology) -> dict[int, Decision]:
        """Which rows of preserved inputs are decided, by the tag of the input."""
        found: dict[int, Decision] = {}
        preserved = {tag: pair for tag, pair in topology.inputs.items() if topology.is_preserved(tag)}
        for tag, (operator, source) in preserved.items():
            promising = promising_input(operator, source)
            pair, newest = (operator.id, source.name), newest_promise(manifest, operator, promising)
            if pair in self.ends or newest > UNDECIDED or has_decided(manifest, *pair):
                found[tag] = Decision(
                    self.ends.get(pair, UNDECIDED),
                    decided(manifest, *pair),
                    self.spilled.get(operator.id, GroupSet()),
                    self.keys.of_input(operator, promising, length_by(source, promising)),
                    UNDECIDED if newest == UNDECIDED else manifest.version,
                    newest,
                    self.keys.decided(operator, source),
                )
        return found


def _not_met(manifest: Manifest, operator: OperatorId) -> GroupSet:
    """The groups whose rows, those that arrive too, have not met all there is; of a ring, all if any was spilled."""
    closed = GroupSet.union(manifest.generations(operator).values())
    return GroupSet.all(manifest.groups) if closed and manifest.is_ring(operator) else closed
