"""Which rows have come to their end, by hand: for each rule the case that shows it."""

import pyarrow as pa
import pytest
from msgspec.structs import replace

from watersmeet.model.ids import InputName, OperatorId, RunId, SiteId
from watersmeet.model.query import Aggregate, AggregateNode, JoinNode, Query, StreamNode
from watersmeet.planning import plan
from watersmeet.state.decided import decided
from watersmeet.state.ends import FOREVER, ends
from watersmeet.state.groups import GroupSet
from watersmeet.state.manifest import LIVE, UNDECIDED, Bounds, Manifest, OperatorState, RowSet, RunFile, Slice
from watersmeet.state.promises import decidable, droppable, limits, watermark
from watersmeet.state.vectors import Vector

GROUPS = 2
JOIN1, JOIN2 = OperatorId("join1"), OperatorId("join2")
SCHEMA = pa.schema([("k", pa.int64()), ("m", pa.int64()), ("ts", pa.timestamp("us", "UTC"))])
BETWEEN = "A.k = B.k AND B.ts BETWEEN A.ts AND A.ts + INTERVAL 8 MICROSECONDS"


def stream(name, window=None, delay=None, time="ts"):
    return StreamNode(name, SCHEMA, time, window, delay)


def join(*inputs, on="A.k = B.k", how="inner"):
    return JoinNode(inputs, on, how)


def state(node, decided_until=None, *, has_ended=False, **latest):
    """A query after rows with some latest times."""
    made = plan(Query(node), lambda *_: SCHEMA.field("ts").type)
    operators = {each.id: OperatorState((SiteId(0),) * GROUPS) for each in made.operators}
    known = {InputName(name): Vector.of(values) for name, values in (decided_until or {}).items()}
    operators[made.root.id] = replace(operators[made.root.id], decided=known)
    return Manifest("q", made, GROUPS, 1, operators, latest=latest, has_ended=has_ended)


def of(found, operator=JOIN1):
    return {source: limit for (each, source), limit in found.items() if each == operator}


# --- watermarks -------------------------------------------------------------------------------------------------------


def test_a_watermark_is_the_latest_time_less_the_delay():
    manifest = state(join(stream("A", 10, 3), stream("B", 10)), A=100, B=100)
    assert watermark(manifest, "A") == 97
    assert watermark(manifest, "B") is None, "without a delay nothing is promised"


def test_a_stream_without_rows_promises_nothing_until_it_has_ended():
    node = join(stream("A", 10, 3), stream("B", 10, 3))
    assert watermark(state(node, B=5), "A") is None
    assert watermark(state(node, has_ended=True), "A") == FOREVER


# --- ends of rows -----------------------------------------------------------------------------------------------------


def test_nothing_ends_before_there_are_rows_and_without_promises():
    node = join(stream("A", 10, 3), stream("B", 10, 3))
    assert limits(state(node)) == {}
    assert limits(state(join(stream("A", time=None), stream("B", time=None)))) == {}


def test_rows_end_by_the_watermark_of_the_other_side_and_their_own_window():
    node = join(stream("A", 10, 3), stream("B", 20, 5))
    assert of(limits(state(node, A=100, B=200))) == {"A": 195 - 10, "B": 97 - 20}
    assert of(limits(state(node, B=200))) == {"A": 185}, "A has no row yet, and may bring any"


def test_rows_without_a_window_and_rows_that_meet_streams_without_times_never_end():
    assert of(limits(state(join(stream("A", None, 3), stream("B", 20, 5)), A=100, B=200))) == {"B": 77}
    assert limits(state(join(stream("A", 10, 3), stream("B", time=None)), A=100)) == {}


def test_a_condition_between_times_ends_rows_too():
    node = join(stream("A", None, 0), stream("B", None, 0), on=BETWEEN)
    assert of(limits(state(node, A=100, B=100))) == {"A": 100 - 9, "B": 100 - 1}


def test_of_a_window_and_a_condition_the_shorter_counts():
    node = join(stream("A", 5, 0), stream("B", 5, 0), on=BETWEEN)
    assert of(limits(state(node, A=100, B=100))) == {"A": 95, "B": 99}


def test_all_other_inputs_have_to_promise():
    node = join(stream("A", 10, 0), stream("B", 10, 0), stream("C", 10, 0), on="A.k = B.k AND B.k = C.k")
    assert of(limits(state(node, A=100, B=50, C=70))) == {"A": 40, "B": 60, "C": 40}
    assert of(limits(state(node, A=100, B=50))) == {"C": 40}


def test_an_operator_promises_what_all_its_inputs_promise():
    below = join(stream("A", 10, 0), stream("B", 10, 0))
    manifest = state(join(below, stream("C", 30, 0), on="A.m = C.m"), A=100, B=50, C=70)
    assert of(limits(manifest)) == {"A": 40, "B": 90}
    assert of(limits(manifest), JOIN2) == {"join1": 70, "C": 50 - 30}


def test_when_the_input_has_ended_all_rows_have():
    manifest = state(join(stream("A"), stream("B", time=None)), has_ended=True)
    assert set(limits(manifest).values()) == {FOREVER}


# --- results that spilled groups miss ---------------------------------------------------------------------------------


def run(name, source, begins, operator=JOIN1):
    bounds = {f"{source}.ts": Bounds(*begins)} if begins else {}
    group = GroupSet.of([0])
    return RunFile(RunId(name), name, operator, InputName(source), group, 1, 1, 0, bounds=bounds)


def holding(manifest, *runs, operator=JOIN1):
    """The same with runs of which every second one is closed, so that results are missing."""
    slices = tuple(Slice(each.id, RowSet(each.groups), place % 2 or LIVE) for place, each in enumerate(runs))
    operators = manifest.operators | {operator: replace(manifest.operators[operator], slices=slices)}
    return replace(manifest, operators=operators, runs={each.id: each for each in runs})


def test_missing_results_hold_back_the_promise_of_their_operator():
    below = join(stream("A", 10, 0), stream("B", 10, 0))
    manifest = state(join(below, stream("C", 30, 0), on="A.m = C.m"), A=100, B=100, C=100)
    assert of(limits(manifest), JOIN2)["C"] == 70
    missing = holding(manifest, run("r1", "A", (20, 60)), run("r2", "A", (5, 9)), run("r3", "B", (45, 99)))
    assert of(limits(missing), JOIN2)["C"] == 45 - 30, "no result begins before the first row of any one input"
    assert of(limits(missing)) == of(limits(manifest)), "rows of streams still end as before"


def test_missing_results_of_unknown_times_hold_back_everything():
    below = join(stream("A", time=None), stream("B", time=None))
    manifest = state(join(below, stream("C", 30, 0), on="A.m = C.m"), C=100)
    missing = holding(manifest, run("r1", "A", None), run("r2", "A", None))
    assert of(limits(missing), JOIN2) == {}


# --- rows that come alone ---------------------------------------------------------------------------------------------

OUTER = join(stream("A", 10, 0), stream("B", 20, 0), how="left")


def test_rows_of_preserved_inputs_are_decided_when_they_have_ended():
    assert of(decidable(state(OUTER, A=100, B=100))) == {"A": 90}
    full = replace(OUTER, how="full")
    assert of(decidable(state(full, A=100, B=100))) == {"A": 90, "B": 80}
    assert decidable(state(replace(OUTER, how="inner"), A=100, B=100)) == {}
    assert decidable(state(OUTER, A=100)) == {}


def test_what_was_decided_is_known_by_group():
    manifest = state(OUTER, {"A": [70, 80]}, A=100, B=100)
    assert decided(manifest, JOIN1, InputName("A")).array.tolist() == [70, 80]
    assert decided(manifest, JOIN1, InputName("B")).array.tolist() == [UNDECIDED] * GROUPS


def test_rows_stay_until_they_are_decided_and_their_matches_as_long():
    assert of(droppable(state(OUTER, A=100, B=100))) == {}
    later = state(OUTER, {"A": [70, 80]}, A=100, B=100)
    assert of(droppable(later)) == {"A": 70, "B": 70 - 20 + 1}
    done = state(OUTER, {"A": [90, 90]}, A=100, B=100)
    assert of(droppable(done)) == {"A": 90, "B": 90 - 20 + 1}


def test_rows_of_groups_with_missing_results_do_not_keep_others():
    manifest = state(OUTER, {"A": [UNDECIDED, 80]}, A=100, B=100)
    missing = holding(manifest, run("r1", "A", (20, 60)), run("r2", "A", (5, 9)))
    assert of(droppable(missing))["A"] == 80


def test_matches_without_a_window_stay_for_ever_unless_the_input_has_ended():
    node = join(stream("A", 10, 0), stream("B", None, 0), how="left")
    assert of(droppable(state(node, {"A": [90, 90]}, A=100, B=100))) == {"A": 90}
    ended = state(node, {"A": [FOREVER, FOREVER]}, has_ended=True)
    assert of(droppable(ended)) == {"A": FOREVER, "B": FOREVER}


def test_matches_of_results_stay_as_long_as_the_longest_life():
    below = join(stream("A", 10, 0), stream("B", 15, 0))
    node = join(below, stream("C", 30, 0), on="A.m = C.m", how="left")
    manifest = state(node, {"join1": [90, 90]}, A=200, B=200, C=200)
    assert of(droppable(manifest), JOIN2) == {"join1": 90, "C": 90 - 30 + 1 - 15}


def over_outer(decided_until):
    """Groups over an outer join whose input has ended, with one run of A up to 60."""
    count = AggregateNode(OUTER, (), (Aggregate("n", "count", pa.int64()),))
    manifest = holding(state(count, has_ended=True, A=100, B=100), run("r1", "A", (20, 60)))
    known = {InputName("A"): Vector.of(decided_until)}
    return replace(manifest, operators=manifest.operators | {JOIN1: replace(manifest.operators[JOIN1], decided=known)})


@pytest.mark.parametrize(("decided_until", "is_final"), [([60, UNDECIDED], True), ([59, 60], False)])
def test_groups_over_an_outer_join_are_final_once_all_rows_it_holds_are_decided(decided_until, is_final):
    manifest = over_outer(decided_until)
    own = of(limits(manifest), manifest.plan.root.id)
    assert own == ({JOIN1: FOREVER} if is_final else {})


@pytest.mark.parametrize("bounds", [{}, {"A.ts": Bounds(None, None)}])
def test_a_run_that_does_not_tell_its_times_never_ends(bounds):
    made = state(OUTER).plan
    life = made.root.inputs[0].life
    assert ends(replace(run("r", "A", (3, 7)), bounds=bounds), life) is None
    assert ends(run("r", "A", (3, 7)), life) == (3, 7)
