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

import numpy as np

from watersmeet.model.ids import InputName, OperatorId
from watersmeet.model.plan import Input, Life, Operator
from watersmeet.state.groups import GroupSet
from watersmeet.state.manifest import UNDECIDED, Manifest, RunFile
from watersmeet.state.vectors import Vector

FOREVER = (1 << 63) - 1

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
        known = _decided(manifest, operator, source)
        limit = None if known is None else min(limit, known)
    missing = manifest.needed(operator.id)
    runs = (
        [manifest.runs[part.run] for part in manifest.operators[operator.id].slices if part.groups & missing]
        if missing
        else []
    )
    firsts = [_last_bounds(run, source) for run in runs if run.input == source.name]
    lasts = [None if limit is None else limit + 1, *(None if span is None else span[0] for span in firsts)]
    if source.stream:
        yield from lasts
    else:
        yield from (None if last is None or window is None else last - window for last in lasts)


def _last_bounds(run: RunFile, source: Input) -> tuple[int, int] | None:
    return None if source.life is None else ends(run, source.life)


def streams_of(manifest: Manifest, source: Input) -> frozenset[str]:
    """The streams that an input brings."""
    if source.stream:
        return frozenset({source.stream})
    below = manifest.plan.operator(str(source.operator))
    return frozenset().union(*(streams_of(manifest, each) for each in below.inputs))


def decidable(manifest: Manifest) -> Limits:
    """Which rows of preserved inputs have come to their end, and are decided in the next step."""
    found = limits(manifest)
    pairs = [
        (operator.id, operator.inputs[number].name)
        for operator in manifest.plan.operators
        for number in operator.preserved
    ]
    return {pair: found[pair] for pair in pairs if pair in found}


def decided(manifest: Manifest, operator: OperatorId, source: InputName) -> Vector:
    """Up to which value of their last column rows of an input are decided, by group."""
    known = manifest.operators[operator].decided.get(source)
    return Vector.of(np.full(manifest.groups, UNDECIDED)) if known is None else known


def has_decided(manifest: Manifest, operator: OperatorId, source: InputName) -> bool:
    """Whether any rows of an input were ever decided."""
    state = manifest.operators[operator]
    return source in state.decided or source in state.decided_keys


def promising_input(operator: Operator, source: Input) -> Input:
    """The input whose promises decide on rows of another one; of an aggregate, its own."""
    return next((each for each in operator.inputs if each is not source), source)


def newest_promise(manifest: Manifest, operator: Operator, source: Input) -> int:
    """The last version that brought a promise of any stream an input is made of, if nothing is missing of it."""
    if misses_results(manifest, source) or gives_rows_alone(manifest, source):
        return UNDECIDED  # what they miss may still come
    passed, streams = manifest.operators[operator.id].passed, streams_of(manifest, source)
    ends = (passed[stream][-1][1] for stream in streams & passed.keys())
    return max(*(manifest.promised.get(stream, UNDECIDED) for stream in streams), *ends, UNDECIDED)


def gives_rows_alone(manifest: Manifest, source: Input) -> bool:
    """Whether an operator that an input is made of has results that are decided some time after their rows came."""
    return any(manifest.plan.operator(below).preserved for below in operators_below(manifest, source))


def has_undecided_rows(manifest: Manifest, source: Input) -> bool:
    """Whether an operator that an input is made of holds rows that may come out alone, later."""
    below = [manifest.plan.operator(name) for name in operators_below(manifest, source)]
    return any(_has_undecided(manifest, each, each.inputs[place]) for each in below for place in each.preserved)


def _has_undecided(manifest: Manifest, operator: Operator, source: Input) -> bool:
    """Whether any run has rows that are not decided; in groups with missing results, some may not be."""
    known, missing = decided(manifest, operator.id, source.name).array, manifest.spilled(operator.id)
    for part in manifest.operators[operator.id].slices:
        run = manifest.runs[part.run]
        if run.input == source.name and part.groups:
            span = _last_bounds(run, source)
            before = int(known[part.groups.mask(manifest.groups)].min())
            if part.groups & missing or before < (FOREVER if span is None else span[1]):
                return True
    return False


def misses_results(manifest: Manifest, source: Input) -> bool:
    """Whether an operator that an input is made of has results missing."""
    return any(manifest.spilled(below) for below in operators_below(manifest, source))


def undecided_keys(manifest: Manifest) -> Iterator[tuple[OperatorId, InputName]]:
    """The preserved inputs that have rows, and were not asked yet about the last keys that the others have promised."""
    for operator in manifest.plan.operators if manifest.promised else ():
        missing = manifest.spilled(operator.id)
        for source in (operator.inputs[number] for number in operator.preserved):
            known = manifest.operators[operator.id].decided_keys.get(source.name)
            newest = newest_promise(manifest, operator, promising_input(operator, source))
            held = GroupSet.union(
                part.groups - missing
                for part in manifest.operators[operator.id].slices
                if manifest.runs[part.run].input == source.name
            )
            before = UNDECIDED if known is None or not held else int(known.array[held.mask(manifest.groups)].min())
            if held and before < newest:
                yield operator.id, source.name


def operators_below(manifest: Manifest, source: Input) -> Iterator[OperatorId]:
    """The operators that an input is made of."""
    if source.operator:
        yield source.operator
        for each in manifest.plan.operator(source.operator).inputs:
            yield from operators_below(manifest, each)


def droppable(manifest: Manifest) -> Limits:
    """Which rows can go: those that have come to their end, and are decided, if they are of the kind."""
    found = unasked(manifest)
    for operator in manifest.plan.operators:
        for place in operator.preserved:
            own = operator.inputs[place]
            _narrow(found, (operator.id, own.name), _decided(manifest, operator, own))
    return found


def unasked(manifest: Manifest) -> Limits:
    """Which rows have come to their end, and can be the match of no row that is still to be decided."""
    found = limits(manifest)
    for operator in manifest.plan.operators:
        for place in operator.preserved if operator.kind != "aggregate" else ():
            own, other = operator.inputs[place], operator.inputs[1 - place]
            known = _decided(manifest, operator, own)
            _narrow(found, (operator.id, other.name), _asked_until(manifest, own, other, known))
    return found


def _narrow(found: Limits, key: tuple[OperatorId, InputName], most: int | None) -> None:
    if most is None:
        found.pop(key, None)
    elif key in found:
        found[key] = min(found[key], most)


def _decided(manifest: Manifest, operator: Operator, source: Input) -> int | None:
    """Up to where all rows of an input are decided; those of groups with missing results are not looked at here."""
    vector = manifest.operators[operator.id].decided.get(source.name)
    if vector is None:
        return None
    groups = manifest.spilled(operator.id)
    known = vector.array[~groups.mask(manifest.groups)] if groups else vector.array
    return int(known.min()) if len(known) else None


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


def ends(run: RunFile, life: Life) -> tuple[int, int] | None:
    """The least and the greatest value of a run's last column."""
    return _bounds(run, life.last.name)


def _bounds(run: RunFile, column: str) -> tuple[int, int] | None:
    bounds = run.bounds.get(column)
    if bounds is None or not isinstance(bounds.least, int) or not isinstance(bounds.most, int):
        return None
    return bounds.least, bounds.most


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
    found = [_bounds(run, source.life.begin.name) for run in runs if run.input == source.name]
    return min((each[0] for each in found if each is not None), default=None)


def _least(times: list[int | None]) -> int | None:
    known = [time for time in times if time is not None]
    return min(known) if len(known) == len(times) else None
