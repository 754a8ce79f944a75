"""Suggests to drop runs whose rows have all ended: no file is read for that, as a run tells when its last row ends.

Rows that have ended in a run with others that have not go when it is merged (`watersmeet.adapt.merging`). Groups with
missing results keep all their rows until they are cleaned.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from watersmeet.adapt.policy import Moment, Suggestion, View
from watersmeet.model.plan import Input, Operator
from watersmeet.state.changes import DropRows
from watersmeet.state.groups import GroupSet
from watersmeet.state.manifest import Manifest, RunFile, Slice
from watersmeet.state.passing import newly_passed
from watersmeet.state.promises import droppable, ends
from watersmeet.state.sizes import rows_and_bytes


@dataclass(frozen=True)
class ExpirePolicy:
    """Drops what has ended."""

    moments: frozenset[Moment] = frozenset({"step"})

    def suggest(self, view: View) -> Iterator[Suggestion]:
        """Of each input, all runs that are over; and what operators pass on since."""
        manifest = view.manifest
        yield from map(Suggestion, newly_passed(manifest))
        for (operator, source), moment in droppable(manifest).items():
            planned = manifest.plan.operator(operator)
            own = next(each for each in planned.inputs if each.name == source)
            yield from _dropped(manifest, planned, own, moment)


def _dropped(manifest: Manifest, operator: Operator, source: Input, moment: int) -> Iterator[Suggestion]:
    slices = [part for part in manifest.operators[operator.id].slices if _is_over(manifest, part, source, moment)]
    if not slices:
        return
    groups = GroupSet.of(range(manifest.groups)) - manifest.needed(operator.id)
    going = [part for part in slices if part.groups & groups]
    if going:
        rows, sizes = rows_and_bytes(manifest, going)
        mask = groups.mask(manifest.groups)
        runs = tuple(dict.fromkeys(part.run for part in going))
        reason = f"rows of {source.name} have ended, and no other input brings any for them"
        yield Suggestion(DropRows(operator.id, runs, groups, int(rows[mask].sum()), int(sizes[mask].sum()), reason))


def _is_over(manifest: Manifest, part: Slice, source: Input, moment: int) -> bool:
    run: RunFile = manifest.runs[part.run]
    if run.input != source.name or source.life is None:
        return False
    span = ends(run, source.life)
    return span is not None and span[1] <= moment
