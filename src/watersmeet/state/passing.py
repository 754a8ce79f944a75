"""Promises that operators pass on by expiry (CAPE, section 3.3).

A result has a row of every stream below its operator. Once all of these have promised a key, no result with it comes.
One of them is enough where windows and punctuations meet: the rows of that stream with the key are all there, and once
they have come to their end, nothing is joined with them any more, whatever the others bring.

To know when that is, a *mark* is made of each version that brings promises: the latest time of the stream then. No row
that these promises speak of is later. There are at most `MARKS_MOST`; of neighbours the later one stands for both.
"""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from watersmeet.model.ids import OperatorId
from watersmeet.state.changes import PassPromises
from watersmeet.state.inputs import misses_results, streams_of
from watersmeet.state.manifest import UNDECIDED, Manifest
from watersmeet.state.promises import given_from, limits

MARKS_MOST = 64

Marks = tuple[tuple[int, int], ...]


def with_marks(manifest: Manifest, streams: Sequence[str]) -> Manifest:
    """The manifest with marks of streams that promise something in the next version."""
    version, marks = manifest.version + 1, dict(manifest.marks)
    for stream in streams:
        if stream in manifest.latest:
            known = tuple(mark for mark in marks.get(stream, ()) if mark[0] != version)
            marks[stream] = _thinned((*known, (version, manifest.latest[stream])))
    return replace(manifest, marks=marks)


def _thinned(marks: Marks) -> Marks:
    return marks if len(marks) <= MARKS_MOST else marks[::-1][::2][::-1]


def newly_passed(manifest: Manifest) -> Iterator[PassPromises]:
    """What operators are given no results for any more since the last version."""
    if not manifest.marks:
        return
    found = limits(manifest)
    for operator in manifest.plan.operators:
        for source in operator.inputs if operator.kind != "ring" else ():
            if not source.operator or misses_results(manifest, source):
                continue
            for stream in sorted(streams_of(manifest, source) & manifest.marks.keys()):
                begin = given_from(manifest, source, stream, found)
                known = manifest.operators[operator.id].passed.get(stream, ())
                upto = max(
                    (version for version, latest in manifest.marks[stream] if _is_before(latest, begin)), default=0
                )
                if upto > (known[-1][0] if known else 0) and len(known) < MARKS_MOST:
                    yield PassPromises(operator.id, stream, upto)


def _is_before(latest: int, begin: int | None) -> bool:
    return begin is not None and latest < begin


def passed_with(manifest: Manifest, operator: OperatorId, stream: str, upto: int) -> Marks:
    """Up to which versions promises of a stream are passed on, and since when; what all rows are told of is one."""
    state, known = manifest.operators[operator], manifest.operators[operator].passed.get(stream, ())
    preserved = manifest.plan.operator(operator).preserved
    vectors = [state.decided_keys.get(manifest.plan.operator(operator).inputs[place].name) for place in preserved]
    told = min((UNDECIDED if each is None else int(each.array.min()) for each in vectors), default=manifest.version)
    old = tuple(each for each in known if each[1] <= told)
    return (*old[-1:], *known[len(old) :], (upto, manifest.version + 1))


def is_passed_on(manifest: Manifest, stream: str) -> bool:
    """Whether promises of a stream may be passed on, one after the other: then they are told apart."""
    sources = (source for operator in manifest.plan.operators for source in operator.inputs if source.operator)
    return any(stream in streams_of(manifest, source) for source in sources)
