"""For any query: the plan's outcome on any rows is the query's answer, and the tree has the shape it must have."""

from itertools import combinations, pairwise, product

import pyarrow as pa
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tests.planning.interpreter import answer, outcome
from tests.support.examples import examples

from watersmeet.model.errors import NoEqualityError
from watersmeet.model.plan import Column, Plan
from watersmeet.model.query import FilterNode, JoinNode, Node, Query, StreamNode
from watersmeet.planning import difference, explain, fingerprint, plan
from watersmeet.planning.tree import streams_of

SCHEMA = pa.schema([("x", pa.int32()), ("y", pa.int64()), ("z", pa.int64())])
SEVERAL = settings(max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.too_slow])


def names_of(node: Node) -> list[str]:
    return [stream.name for stream in streams_of(node)]


def column_of(names: list[str]):
    return st.tuples(st.sampled_from(names), st.sampled_from(SCHEMA.names)).map(".".join)


@st.composite
def equalities(draw, names: list[str]) -> str:
    """An equality between two of the streams."""
    left, right = draw(st.sampled_from(list(combinations(names, 2))))
    return f"{draw(column_of([left]))} = {draw(column_of([right]))}"


@st.composite
def filters(draw, names: list[str]) -> str:
    right = draw(st.one_of(st.integers(0, 2).map(str), column_of(names)))
    return f"{draw(column_of(names))} {draw(st.sampled_from('<='))} {right}"


@st.composite
def trees(draw, names: list[str], *, connected: bool) -> Node:
    if len(names) == 1:
        node: Node = StreamNode(names[0], SCHEMA)
    else:
        node = draw(joins(names, connected=connected))
    return FilterNode(node, draw(filters(names))) if draw(st.integers(0, 4)) == 0 else node


@st.composite
def joins(draw, names: list[str], *, connected: bool) -> JoinNode:
    cuts = sorted(draw(st.sets(st.integers(1, len(names) - 1), min_size=1)))
    parts = [names[start:end] for start, end in zip([0, *cuts], [*cuts, len(names)], strict=True)]
    inputs = tuple(draw(trees(part, connected=connected)) for part in parts)
    conditions = draw(
        st.lists(st.one_of(equalities(names), filters(names)), min_size=0 if connected else 1, max_size=3)
    )
    for place in range(1, len(parts)) if connected else ():
        earlier = [name for part in parts[:place] for name in part]
        conditions.append(f"{draw(column_of(earlier))} = {draw(column_of(parts[place]))}")
    return JoinNode(inputs, " AND ".join(draw(st.permutations(conditions))))


@st.composite
def queries(draw, *, connected: bool = True, streams_max: int = 5) -> Query:
    names = list("ABCDE"[: draw(st.integers(2, streams_max))])
    needed = draw(st.lists(column_of(names), max_size=3))
    return Query(draw(joins(names, connected=connected)), tuple(needed))


@st.composite
def crossing_queries(draw) -> Query:
    """One join of four streams, two columns each, equated this way and that."""
    names = list("ABCD")
    chain = [f"{left}.y = {right}.y" for left, right in pairwise(draw(st.permutations(names)))]
    columns = [f"{name}.{field}" for name in names for field in "xy"]
    pairs = [pair for pair in combinations(columns, 2) if pair[0][0] != pair[1][0]]
    more = draw(st.lists(st.sampled_from(pairs).map(" = ".join), min_size=1, max_size=4))
    kept = draw(st.integers(0, len(chain)))
    inputs = tuple(StreamNode(name, SCHEMA) for name in names)
    return Query(JoinNode(inputs, " AND ".join([*chain[:kept], *more])), ("A.z", "D.z"))


@st.composite
def rows(draw, stream: str):
    numbers = st.one_of(st.integers(0, 1), st.none()) if draw(st.booleans()) else st.integers(0, 1)
    drawn = draw(st.lists(st.tuples(numbers, numbers, numbers), max_size=4))
    return [{Column(stream, field): value for field, value in zip(SCHEMA.names, row, strict=True)} for row in drawn]


def all_rows(stream: str):
    """A row for every way to choose x and y, so that whatever is not enforced shows."""
    return [
        {Column(stream, "x"): x, Column(stream, "y"): y, Column(stream, "z"): 2 * x + y}
        for x, y in product(range(2), repeat=2)
    ]


@SEVERAL
@given(st.data(), queries())
def test_the_outcome_of_a_plan_is_the_answer_of_its_query(data, query):
    tables = {name: data.draw(rows(name)) for name in names_of(query.node)}
    assert outcome(plan(query), query, tables) == answer(query, tables)


@SEVERAL
@given(crossing_queries())
def test_equalities_that_cross_are_all_enforced(query):
    assume(is_connected(query.node))
    tables = {name: all_rows(name) for name in "ABCD"}
    assert outcome(plan(query), query, tables) == answer(query, tables)


@SEVERAL
@given(queries())
def test_every_stream_and_operator_feeds_exactly_one_input(query):
    made = plan(query)
    fed = [source.name for operator in made.operators for source in operator.inputs]
    assert sorted(fed) == sorted([*names_of(query.node), *(operator.id for operator in made.operators[:-1])])


@SEVERAL
@given(queries())
def test_levels_fall_by_one_and_children_come_first(query):
    made = plan(query)
    places = {operator.id: place for place, operator in enumerate(made.operators)}
    for operator in made.operators:
        for child in (made.operator(source.operator) for source in operator.inputs if source.operator):
            assert child.level == operator.level - 1
            assert places[child.id] < places[operator.id]
    assert min(operator.level for operator in made.operators) == 0


@SEVERAL
@given(queries())
def test_all_inputs_of_an_operator_have_the_same_kinds_of_keys(query):
    for operator in plan(query).operators:
        assert len(operator.inputs) >= 2
        assert len({tuple(key.type for key in source.keys) for source in operator.inputs}) == 1
        assert all(source.keys for source in operator.inputs)
        assert all((key.column is None) == operator.hash_decides for source in operator.inputs for key in source.keys)


@SEVERAL
@given(queries())
def test_every_column_of_a_plan_has_a_type_and_comes_once(query):
    made = plan(query)
    for kept in kept_columns(made):
        assert len(set(kept)) == len(kept)
        assert all(column in made.types for column in kept)


def kept_columns(made: Plan):
    for operator in made.operators:
        yield operator.output
        yield from (source.state for source in operator.inputs)


@SEVERAL
@given(queries(connected=False))
def test_a_query_is_planned_if_and_only_if_equalities_connect_it(query):
    try:
        plan(query)
    except NoEqualityError:
        assert not is_connected(query.node)
    else:
        assert is_connected(query.node)


def is_connected(node: Node) -> bool:
    if isinstance(node, StreamNode):
        return True
    if isinstance(node, FilterNode):
        return is_connected(node.input)
    parts = [set(names_of(each)) for each in node.inputs]
    for condition in node.on.split(" AND "):
        sides = condition.split(" = ")
        if len(sides) == 2 and not sides[1].isdigit():
            touched = [part for part in parts if {side[0] for side in sides} & part]
            parts = [part for part in parts if part not in touched] + [set().union(*touched)]
    return len(parts) == 1 and all(is_connected(each) for each in node.inputs)


@SEVERAL
@given(queries(), queries())
def test_plans_differ_in_words_if_and_only_if_their_fingerprints_do(first, second):
    before, after = fingerprint(plan(first)), fingerprint(plan(second))
    assert (difference(before, after) == "") == (before == after)


@SEVERAL
@given(queries())
def test_every_plan_can_be_explained(query):
    made = plan(query)
    text = explain(made, 300, 4)
    assert all(operator.id in text for operator in made.operators)
    assert all(f"input {stream.name} keeps" in text for stream in made.streams)
