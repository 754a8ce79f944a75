"""Suggests to drop what has ended: no file is read for that, as a run tells when its last row ends.

A run of a ring tells it of each group besides (`watersmeet.state.ends`): those that are over do not count any more, and
the file goes with its last group. Other rows that have ended in a run with some that have not go when it is merged
(`watersmeet.adapt.merging`). Groups with missing results keep all their rows until they are cleaned.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from msgspec.structs import replace

from watersmeet.adapt.policy import Moment, Suggestion, View
from watersmeet.model.ids import RunId
from watersmeet.model.plan import Input, Operator
from watersmeet.state.changes import DropRows
from watersmeet.state.ends import FOREVER, ended_groups, ends
from watersmeet.state.groups import GroupSet
from watersmeet.state.manifest import Manifest, RowSet
from watersmeet.state.promises import droppable
from watersmeet.state.sizes import rows_and_bytes


@dataclass(frozen=True)
class ExpirePolicy:
    """Drops what has ended."""

    moments: frozenset[Moment] = frozenset({"step", "over"})

    def suggest(self, view: View) -> Iterator[Suggestion]:
        """Of each input, all runs and groups that are over."""
        manifest = view.manifest
        for (operator, source), moment in droppable(manifest).items():
            planned = manifest.plan.operator(operator)
            own = next(each for each in planned.inputs if each.name == source)
            yield from _dropped(manifest, planned, own, moment)


def _dropped(manifest: Manifest, operator: Operator, source: Input, moment: int) -> Iterator[Suggestion]:
    reason = f"rows of {source.name} have ended, and no other input brings any for them"
    spared = manifest.needed(operator.id)
    for drop in _together(_ended(manifest, operator, source, moment)):
        groups = drop.ended - spared
        slices = [part for part in manifest.operators[operator.id].slices if part.run in drop.runs]
        going = [replace(part, rows=RowSet(part.groups & groups)) for part in slices if part.groups & groups]
        if going:
            rows, sizes = rows_and_bytes(manifest, going)
            runs = tuple(dict.fromkeys(part.run for part in going))
            yield Suggestion(DropRows(operator.id, runs, groups, int(rows.sum()), int(sizes.sum()), reason))


@dataclass(frozen=True)
class _Ended:
    """Of all groups that runs have, those that are over."""

    runs: tuple[RunId, ...]
    held: GroupSet
    ended: GroupSet

    def agrees(self, other: "_Ended") -> bool:
        """Whether a group that both have is over in both, or in none."""
        return self.ended & other.held == other.ended & self.held

    def and_of(self, other: "_Ended") -> "_Ended":
        return _Ended((*self.runs, *other.runs), self.held | other.held, self.ended | other.ended)


def _ended(manifest: Manifest, operator: Operator, source: Input, moment: int) -> Iterator[_Ended]:
    """What is over of each run: all of it, or some groups."""
    everything, held = GroupSet.all(manifest.groups), dict[RunId, GroupSet]()
    for part in manifest.operators[operator.id].slices:
        held[part.run] = held.get(part.run, GroupSet()) | part.groups
    for run in (manifest.runs[each] for each in held):
        if run.input == source.name and moment == FOREVER:  # whatever its times
            yield _Ended((run.id,), everything, everything)
            continue
        span = None if run.input != source.name or source.life is None else ends(run, source.life)
        if span is None or source.life is None or span[0] > moment:
            continue
        if span[1] <= moment:
            yield _Ended((run.id,), everything, everything)
        elif some := ended_groups(run, source.life.last.name, moment) & held[run.id]:
            yield _Ended((run.id,), held[run.id], some)


def _together(found: Iterable[_Ended]) -> list[_Ended]:
    """Merge changes for runs with the same expired groups, such as those of several sites."""
    drops: list[_Ended] = []
    for each in found:
        place = next((place for place, drop in enumerate(drops) if drop.agrees(each)), None)
        if place is None:
            drops.append(each)
        else:
            drops[place] = drops[place].and_of(each)
    return drops
