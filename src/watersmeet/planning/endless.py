"""State that nothing bounds: rows of rings that never end, and why; and conditions that look as if they bounded it.

A stored row has come to its end once no row that it lives with can come to any other input any more
(`watersmeet.state.promises`). That takes two things of each pair of inputs: an end of the row, by its own life or by
how much later the condition allows the others to be, and event times of the others, which tell that they are later.
Rows without an end wait for ever, and each new row of a ring meets all of them.

Some conditions between event times mean what SQL says, and the engine does not know how far they reach. They decide
which rows are joined, and bound no state: whoever wrote them may think that they do.
"""

from collections.abc import Iterator, Mapping
from itertools import permutations

from watersmeet.model.ids import InputName
from watersmeet.model.plan import Input, Operator, Plan, Test
from watersmeet.planning.describe import sql_of_test
from watersmeet.planning.expressions import conjuncts
from watersmeet.planning.names import Scope, readable
from watersmeet.planning.reach import closed, reach_of, untold

Streams = Mapping[InputName, frozenset[str]]


def reasons(plan: Plan, ring: Operator, streams: Streams) -> Iterator[tuple[str, str]]:
    """For each input whose rows never end, the stream that could change that, and why they do not."""
    for source, other in permutations(ring.inputs, 2):
        yield from _never_ends(plan, source, other, streams)


def _never_ends(plan: Plan, source: Input, other: Input, streams: Streams) -> Iterator[tuple[str, str]]:
    named, others = (_listed(plan, streams[each.name]) for each in (source, other))
    untimed = [name for name in others if plan.stream(name).time is None]
    if other.life is None and len(untimed) == len(others):
        yield untimed[0], f"rows of {_and(named)} meet all rows of {_and(others)}, which has no event times, for ever"
    elif other.life is None:
        yield (
            others[0],
            f"rows of {_and(named)} meet all that was joined of {_and(others)}, without any window, for ever",
        )
    elif not _has_end(plan, source, other, streams):
        unbounded = f"there is no window, and no condition says how much later rows of {_and(others)} may be"
        yield named[0], f"rows of {_and(named)} live for ever: {unbounded}"
    else:
        yield from (
            (name, f"rows of {_and(named)} wait for ever for rows of {name}, which has no watermark")
            for name in others
            if _is_never_told(plan, name)
        )


def _has_end(plan: Plan, source: Input, other: Input, streams: Streams) -> bool:
    """Whether a row's own life ends, or the condition says how late those of the other input may be."""
    has_window = any(plan.stream(name).window_us is not None for name in streams[source.name])
    return (source.life is not None and has_window) or any(name == other.name for name, _ in source.reach)


def _is_never_told(plan: Plan, name: str) -> bool:
    """Whether nobody ever says that rows of a stream are later; of windows without watermarks users are warned."""
    stream = plan.stream(name)
    return stream.delay_us is None and stream.window_us is None and stream.punctuated is None


def _listed(plan: Plan, names: frozenset[str]) -> list[str]:
    return [each.name for each in plan.streams if each.name in names]


def _and(names: list[str]) -> str:
    return " and ".join(names)


def unbounded(plan: Plan) -> Iterator[tuple[str, str]]:
    """Conditions that could bound how long rows of a stream are kept, and do not: each with the stream.

    Streams with a window are not meant, nor those of which another condition says how far they reach.
    """
    times = {each.name: each.time for each in plan.streams if each.time}
    endless = {each.name for each in plan.streams if each.window_us is None}
    promising = {each.name for each in plan.streams if each.delay_us is not None}
    scope = Scope(plan.streams, case_sensitive=True)
    conditions = [
        each for operator in plan.operators for text in _conditions(operator) for each in conjuncts(text, scope)
    ]
    known = closed(reach_of(conditions, times))
    for condition in conditions:
        for pair in untold(condition, times):
            if pair not in known and pair[0] in endless and pair[1] in promising:
                yield readable(condition.sql), pair[0]


def _conditions(operator: Operator) -> Iterator[str]:
    yield from operator.filters
    yield from operator.time_conditions
    told = (each for each in operator.tests if not each.leads and not _calls(each))
    yield from (sql_of_test(each, operator, quoted=True) for each in told)


def _calls(test: Test | str) -> bool:
    """Whether a function of the user's decides it, which says nothing of times."""
    return not isinstance(test, str) and (test.function == "call" or any(map(_calls, test.arguments)))
