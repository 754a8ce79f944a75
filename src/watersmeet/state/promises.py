"""Promises: which rows will not come any more, and which stored rows can thus take part in no result any more.

A stream's *watermark* promises that no row earlier than it comes: the latest time of all rows accepted so far, less the
delay the user allows. From promises of streams follow those of operators, and the end of stored rows:

- What an operator will give begins no earlier than the earliest row that may still come to any of its inputs. Results
  that spilled groups miss are still to come, too.
- A stored row can be joined only with rows that begin before it ends. Once all *other* inputs have promised that none
  of these comes, it can go, unless its group misses results that it may be part of.
"""

from collections.abc import Iterator

from watersmeet.model.ids import InputName, OperatorId
from watersmeet.model.plan import Input, Life, Operator
from watersmeet.state.manifest import Manifest, RunFile

Ends = dict[tuple[OperatorId, InputName], int]
"""By operator and input: rows that have ended by then can take part in no result any more."""


def watermark(manifest: Manifest, stream: str) -> int | None:
    """The time before which no row of a stream comes any more; None where nothing is promised."""
    latest, delay = manifest.latest.get(stream), manifest.plan.stream(stream).delay_us
    return None if latest is None or delay is None else latest - delay


def over_by(manifest: Manifest) -> Ends:
    """Until when rows have to have ended that can go, for all inputs of which any can."""
    if not manifest.latest:
        return {}
    begins: dict[InputName, int | None] = {}
    found: Ends = {}
    for operator in manifest.plan.operators:
        for source in operator.inputs:
            if source.stream:
                begins[source.name] = watermark(manifest, source.stream)
        for source in operator.inputs:
            others = [begins[each.name] for each in operator.inputs if each is not source]
            least = _least(others)
            if source.life is not None and not source.life.is_endless and least is not None:
                found[operator.id, source.name] = least
        begins[InputName(operator.id)] = _least(
            [*(begins[each.name] for each in operator.inputs), *_held(manifest, operator)]
        )
    return found


def ends(run: RunFile, life: Life) -> tuple[int, int] | None:
    """When the first and the last of a run's rows end; None where some never do."""
    column = life.begin if life.end is None else life.end
    bounds = run.bounds.get(column.name)
    length = 0 if life.end is not None else life.window_us
    if bounds is None or length is None or not isinstance(bounds.least, int) or not isinstance(bounds.most, int):
        return None
    return bounds.least + length, bounds.most + length


def begins(run: RunFile, life: Life) -> tuple[int, int] | None:
    """When the first and the last of a run's rows begin."""
    bounds = run.bounds.get(life.begin.name)
    if bounds is None or not isinstance(bounds.least, int) or not isinstance(bounds.most, int):
        return None
    return bounds.least, bounds.most


def _held(manifest: Manifest, operator: Operator) -> Iterator[int | None]:
    """When the first result begins that spilled groups miss: not before the rows of any one input."""
    missing = manifest.spilled(operator.id)
    if missing:
        runs = [manifest.runs[part.run] for part in manifest.operators[operator.id].slices if part.groups & missing]
        firsts = [first for source in operator.inputs if (first := _first(source, runs)) is not None]
        yield max(firsts, default=None)


def _first(source: Input, runs: list[RunFile]) -> int | None:
    if source.life is None:
        return None
    found = [begins(run, source.life) for run in runs if run.input == source.name]
    return min((each[0] for each in found if each is not None), default=None)


def _least(times: list[int | None]) -> int | None:
    known = [time for time in times if time is not None]
    return min(known) if len(known) == len(times) else None
