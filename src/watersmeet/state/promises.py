"""Promises: which rows will not come any more, and which stored rows can thus take part in no result any more.

A stream's *watermark* promises that no row earlier than it comes: the latest time of all rows accepted so far, less the
delay the user allows. A stream that has ended promises everything. From promises of streams follow those of operators,
and the end of stored rows:

- What an operator will give begins no earlier than the earliest row that may still come to any of its inputs. Results
  that spilled groups miss are still to come, too.
- A stored row is joined only with rows that begin before it ends, and no later than the join's conditions allow. Once
  all *other* inputs have promised that none of these comes, its end has come.
- A row that comes out alone if it has no match is *decided* in the step after that. Until then it stays, and so do the
  rows that may be its matches.
- Of an aggregate over a range of time, a row ends that is so much earlier than any row that may still come.

That a row's end has come is told by its *last* column, the begin of a stream's row, the end of a result's: it is not
greater than a *limit*. (`watersmeet.model.plan.Life.last`)
"""

from collections.abc import Iterator, Mapping

from watersmeet.model.ids import InputName, OperatorId
from watersmeet.model.plan import Input, Operator
from watersmeet.state.decided import decided_until, has_undecided_rows
from watersmeet.state.ends import FOREVER, bounds_of, last_bounds
from watersmeet.state.inputs import streams_of
from watersmeet.state.manifest import Manifest, RunFile

Limits = dict[tuple[OperatorId, InputName], int]
"""By operator and input: rows whose last column is not greater can take part in no result any more."""

Begins = Mapping[InputName, int | None]


def watermark(manifest: Manifest, stream: str) -> int | None:
    """The time before which no row of a stream comes any more; None where nothing is promised."""
    if manifest.has_ended or stream in manifest.ended:
        return FOREVER
    times = (lateness_limit(manifest, stream), manifest.promised_until.get(stream))
    return max((time for time in times if time is not None), default=None)


def lateness_limit(manifest: Manifest, stream: str) -> int | None:
    """The time before which rows of a stream are late."""
    latest, delay = manifest.latest.get(stream), manifest.plan.stream(stream).delay_us
    return None if latest is None or delay is None else latest - delay


def limits(manifest: Manifest) -> Limits:
    """Which rows have come to their end, for all inputs of which any have."""
    found: Limits = {}
    for operator, begins in _by_operator(manifest):
        for source in operator.inputs:
            limit = _limit(source, operator, begins) if operator.kind != "aggregate" else _over(operator, begins)
            if limit is not None:
                found[operator.id, source.name] = limit
    for operator in manifest.plan.operators:
        if operator.kind == "aggregate":
            final = FOREVER if manifest.has_ended else _final(manifest, operator, found)
            if has_undecided_rows(manifest, operator.inputs[0]) and final == FOREVER:
                final = None
            if final is not None:
                found[operator.id, operator.inputs[0].name] = final
    return found


def _over(operator: Operator, begins: Begins) -> int | None:
    """Which rows are in the range of time of no group any more that changes, as its latest row is then a later one."""
    begin, history = begins[operator.inputs[0].name], operator.history
    if begin is None or history is None or history.time_us is None or operator.final is not None:
        return None
    return begin if begin == FOREVER else begin - history.time_us


def _final(manifest: Manifest, operator: Operator, found: Limits) -> int | None:
    """The time before which no row of a stream comes to an aggregate any more, from the stream or out of state."""
    if operator.final is None:
        return None
    stream = operator.final.stream
    return _least([watermark(manifest, stream), *_stored_below(manifest, operator.inputs[0], stream, found)])


def given_from(manifest: Manifest, source: Input, stream: str, found: Limits) -> int | None:
    """The time of a stream from which rows are stored that may still come to an input of another operator."""
    return _least(list(_stored_below(manifest, source, stream, found)))


def _stored_below(manifest: Manifest, source: Input, stream: str, found: Limits) -> Iterator[int | None]:
    while source.operator:
        below = manifest.plan.operator(source.operator)
        source = next(each for each in below.inputs if stream in streams_of(manifest, each))
        yield from _stored_from(manifest, below, source, stream, found)


def _stored_from(
    manifest: Manifest, operator: Operator, source: Input, stream: str, found: Limits
) -> Iterator[int | None]:
    """The earliest time of a stream in what an input of an operator holds that can still give results."""
    limit, window = found.get((operator.id, source.name)), manifest.plan.longest_us(stream)
    if limit is not None and any(operator.inputs[place] is source for place in operator.preserved):
        known = decided_until(manifest, operator, source)
        limit = None if known is None else min(limit, known)
    missing = manifest.needed(operator.id)
    runs = (
        [manifest.runs[part.run] for part in manifest.operators[operator.id].slices if part.groups & missing]
        if missing
        else []
    )
    firsts = [last_bounds(run, source) for run in runs if run.input == source.name]
    known = _held_from(manifest, operator, source) if limit is None else limit + 1
    lasts = [known, *(None if span is None else span[0] for span in firsts)]
    if source.stream:
        yield from lasts
    else:
        yield from (None if last is None or window is None else last - window for last in lasts)


def _held_from(manifest: Manifest, operator: Operator, source: Input) -> int | None:
    """The earliest of the rows that an operator holds of an input, which may go by promised keys if by no time.

    None where runs do not tell.
    """
    parts = (manifest.runs[part.run] for part in manifest.operators[operator.id].slices)
    spans = [last_bounds(run, source) for run in parts if run.input == source.name]
    firsts = [span[0] for span in spans if span is not None]
    return None if len(firsts) < len(spans) else min(firsts, default=FOREVER)


def decidable(manifest: Manifest) -> Limits:
    """Which rows of preserved inputs have come to their end, and are decided in the next step."""
    found = limits(manifest)
    pairs = [
        (operator.id, operator.inputs[number].name)
        for operator in manifest.plan.operators
        for number in operator.preserved
    ]
    return {pair: found[pair] for pair in pairs if pair in found}


def droppable(manifest: Manifest) -> Limits:
    """Which rows can go: those that have come to their end, and are decided, if they are of the kind."""
    found = unasked(manifest)
    for operator in manifest.plan.operators:
        for place in operator.preserved:
            own = operator.inputs[place]
            _narrow(found, (operator.id, own.name), decided_until(manifest, operator, own))
    return found


def unasked(manifest: Manifest) -> Limits:
    """Which rows have come to their end, and can be the match of no row that is still to be decided."""
    found = limits(manifest)
    for operator in manifest.plan.operators:
        for place in operator.preserved if operator.kind != "aggregate" else ():
            own, other = operator.inputs[place], operator.inputs[1 - place]
            known = decided_until(manifest, operator, own)
            _narrow(found, (operator.id, other.name), _asked_until(manifest, own, other, known))
    return found


def _narrow(found: Limits, key: tuple[OperatorId, InputName], most: int | None) -> None:
    if most is None:
        found.pop(key, None)
    elif key in found:
        found[key] = min(found[key], most)


def _asked_until(manifest: Manifest, own: Input, other: Input, known: int | None) -> int | None:
    """Which rows no undecided row of the other side can have as its match."""
    if known is None or known == FOREVER:
        return known
    length, spread = _length(other, own), _spread(manifest, own)
    if other.life is not None and other.life.end is not None and own.life is not None:
        length = 0  # its last column tells the end itself
    return None if length is None or spread is None else known - length + 1 - spread


def _spread(manifest: Manifest, source: Input) -> int | None:
    """By how much the last column of a row may be later than its beginning."""
    if source.life is None or source.life.end is None:
        return 0
    own = streams_of(manifest, source)
    lengths = [
        manifest.plan.longest_us(stream.name) for stream in manifest.plan.streams if stream.time and stream.name in own
    ]
    known = [length for length in lengths if length is not None]
    return max(known) if known and len(known) == len(lengths) else None


def _by_operator(manifest: Manifest) -> Iterator[tuple[Operator, Begins]]:
    """The operators bottom-up, with the times before which no row of any input below comes any more."""
    if not (manifest.latest or manifest.has_ended or manifest.ended or manifest.promised_until):
        return
    begins: dict[InputName, int | None] = {}
    for operator in manifest.plan.operators:
        for source in operator.inputs:
            if source.stream:
                begins[source.name] = watermark(manifest, source.stream)
        yield operator, begins
        held = list(_held(manifest, operator))
        begins[InputName(operator.id)] = _least([*(begins[each.name] for each in operator.inputs), *held])


def limit_by(manifest: Manifest, operator: Operator, source: Input, other: Input) -> int | None:
    """Up to which value of their last column rows of an input have ended for another one."""
    begins = next((found for each, found in _by_operator(manifest) if each.id == operator.id), None)
    return None if begins is None else _limit_by(source, other, begins[other.name])


def _limit(source: Input, operator: Operator, begins: Begins) -> int | None:
    others = [_limit_by(source, other, begins[other.name]) for other in operator.inputs if other is not source]
    return _least(others)


def _limit_by(source: Input, other: Input, begin: int | None) -> int | None:
    """Which rows of an input no row of another can be joined with that begins no earlier."""
    if begin is None or begin == FOREVER:
        return begin
    if source.life is not None and source.life.end is not None:
        return begin
    length = _length(source, other)
    return None if length is None else begin - length


def length_by(source: Input, other: Input) -> int | None:
    """How long after what its last column tells a row cannot be joined with one of another input that begins then."""
    if source.life is None or other.life is None:
        return None
    return _length(source, other) if source.life.end is None else 0


def asked_length(manifest: Manifest, source: Input, other: Input) -> int | None:
    """How long after what its last column tells all rows of another input have ended that a row can be joined with."""
    parts = (length_by(source, other), _spread(manifest, other), length_by(other, source))
    known = [part for part in parts if part is not None]
    return sum(known) - 1 if len(known) == len(parts) else None


def _length(source: Input, other: Input) -> int | None:
    """How long after its beginning a row of an input cannot be joined with one of another any more."""
    life = source.life
    lengths = [later + 1 for name, later in source.reach if name == other.name]
    if life is not None and life.window_us is not None and other.life is not None:
        lengths.append(life.window_us)
    return min(lengths, default=None)


def _held(manifest: Manifest, operator: Operator) -> Iterator[int | None]:
    """When the first result begins that spilled groups miss: not before the rows of any one input."""
    missing = manifest.needed(operator.id)
    if missing:
        runs = [manifest.runs[part.run] for part in manifest.operators[operator.id].slices if part.groups & missing]
        firsts = [first for source in operator.inputs if (first := _first(source, runs)) is not None]
        yield max(firsts, default=None)


def _first(source: Input, runs: list[RunFile]) -> int | None:
    if source.life is None:
        return None
    found = [bounds_of(run, source.life.begin.name) for run in runs if run.input == source.name]
    return min((each[0] for each in found if each is not None), default=None)


def _least(times: list[int | None]) -> int | None:
    known = [time for time in times if time is not None]
    return min(known) if len(known) == len(times) else None
