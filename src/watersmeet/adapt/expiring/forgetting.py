"""Suggests to forget promises that are old: a stream's own watermark has left their arrival far behind.

A row that breaks a forgotten promise counts as new, so nothing may be left in the state that the promise lets go:
whether the row finds it must not depend on when runs were written anew. So first all rows are decided and purged, and
only what misses no results is. Promises go in few steps, of an eighth of the time they are kept for.

In a full outer join, rows stay as the possible matches of others after they came out alone. A new row must not find
these: so the promises of its streams are kept for ever.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from watersmeet.adapt.merging.purging import Purging
from watersmeet.adapt.policy import Moment, Suggestion, View
from watersmeet.model.plan import Operator
from watersmeet.planning.durations import written
from watersmeet.state.changes import ForgetPromises
from watersmeet.state.inputs import streams_of
from watersmeet.state.manifest import UNDECIDED, Manifest
from watersmeet.state.promises import watermark

PARTS = 8


@dataclass(frozen=True)
class ForgetPolicy:
    """Forgets what is older than ``retention_us``, after a thorough purge."""

    retention_us: int
    purging: Purging
    moments: frozenset[Moment] = frozenset({"step"})

    def suggest(self, view: View) -> Iterator[Suggestion]:
        """A change for every stream with promises that are old, if nothing is left that they let go."""
        manifest, retention = view.manifest, self.retention_us
        old = {stream: upto for stream in manifest.marks if (upto := _old(manifest, stream, retention))}
        if not old or not _is_settled(manifest, max(old.values())):
            return
        if self.purging.thorough_at != manifest.version:
            self.purging.be_thorough()
            return
        for stream, upto in old.items():
            reason = f"the watermark of {stream} is more than {written(retention)} later than they came"
            yield Suggestion(ForgetPromises(stream, manifest.forgotten.get(stream, 0), upto, reason))


def _old(manifest: Manifest, stream: str, retention_us: int) -> int | None:
    """The version up to which promises of a stream are old enough, if they are many."""
    now, known = watermark(manifest, stream), manifest.forgotten.get(stream, 0)
    above = [each for each in manifest.plan.operators if _is_full(each) and stream in _streams(manifest, each)]
    if now is None or above:
        return None
    times = dict(manifest.marks[stream])
    since = times[known] + retention_us // PARTS if known in times else None
    found = [version for version, time in times.items() if time + retention_us <= now and version > known]
    newest = max(found, default=None)
    return newest if newest is not None and (since is None or times[newest] >= since) else None


def _is_full(operator: Operator) -> bool:
    return operator.kind == "outer" and len(operator.preserved) > 1


def _streams(manifest: Manifest, operator: Operator) -> frozenset[str]:
    return frozenset().union(*(streams_of(manifest, source) for source in operator.inputs))


def _is_settled(manifest: Manifest, upto: int) -> bool:
    """Whether no operator misses results, and rows alone are decided as far as they can be by promises."""
    if any(manifest.generations(operator) for operator in manifest.operators):
        return False
    for operator in manifest.plan.operators:
        state = manifest.operators[operator.id]
        for place in operator.preserved:
            source = operator.inputs[place].name
            held = any(manifest.runs[part.run].input == source for part in state.slices)
            known = state.decided_keys.get(source)
            if held and (UNDECIDED if known is None else int(known.array.min())) < upto:
                return False
    return True
