import pyarrow as pa
import pytest
from tests.planning.queries import DOUBLE, INT, LONG, TEXT, A, B, C, columns, join, stream

from watersmeet.model.errors import NoEqualityError, QueryError, TypeMismatchError, UnsupportedError
from watersmeet.model.plan import Test as Condition
from watersmeet.model.query import FilterNode, JoinNode, Query
from watersmeet.planning import explain, plan

BOTH = ("A.#join1.test0",) * 2


def outer(on, how="left", inputs=(A, B), kind=LONG):
    """The plan of an outer join; an expression is of some kind."""
    return plan(Query(JoinNode(inputs, on, how)), lambda *_: kind)


def computed(made):
    return [sql for source in made.root.inputs for _, sql in source.computed]


@pytest.mark.parametrize(
    ("sign", "function"),
    [("<", "lt"), ("<=", "le"), (">", "gt"), (">=", "ge"), ("<>", "ne"), ("!=", "ne"), ("<=>", "null_safe_eq")],
)
def test_columns_are_compared(sign, function):
    made = outer(f"A.x = B.x AND A.y {sign} B.y")
    if function == "null_safe_eq":  # it is an equality, and thus a key
        assert made.root.tests == ()
        return
    assert made.root.tests == (Condition(function, ("A.y", "B.y")),)
    assert made.root.tests[0].columns == {"A.y", "B.y"}
    assert not computed(made)
    assert columns("A.y")[0] in made.root.inputs[0].state
    assert made.root.filters == ()


def test_conditions_are_combined():
    [test] = outer("A.x = B.x AND (A.y < B.y OR NOT (A.z BETWEEN B.y AND B.z))").root.tests
    low, high = Condition("ge", ("A.z", "B.y")), Condition("le", ("A.z", "B.z"))
    inside = Condition("not", (Condition("and", (low, high)),))
    assert test == Condition("or", (Condition("lt", ("A.y", "B.y")), inside))


def test_what_reads_one_stream_is_computed_before():
    made = outer("A.x = B.x AND A.y + 1 < B.y * 2")
    assert computed(made) == ["`A`.`y` + 1", "`B`.`y` * 2"]
    assert made.root.tests[0].arguments == ("A.#join1.test0", "B.#join1.test1")
    assert made.types[columns("A.#join1.test0")[0]] == LONG


def test_the_same_value_is_computed_once():
    made = outer("A.x = B.x AND A.y + 1 < B.y AND A.y + 1 < B.z")
    assert computed(made) == ["`A`.`y` + 1"]


def test_sides_of_different_types_are_cast_to_the_one_they_share():
    made = outer("A.x = B.x AND A.n < B.y", inputs=(stream("A", x=LONG, n=INT), B))
    assert computed(made) == ["CAST(`A`.`n` AS BIGINT)"]


def test_a_condition_on_the_preserved_side_makes_keys_null_and_on_the_other_it_is_a_filter():
    made = outer("A.x = B.x AND A.y > 1 AND B.y > 2", kind=pa.bool_())
    assert (made.root.tests, computed(made)) == ((), [])
    assert [key.sql for each in made.root.inputs for key in each.keys] == [
        "CASE WHEN `A`.`y` > 1 THEN `A`.`x` END",
        "`B`.`x`",
    ]
    assert (made.stream("A").filters, made.stream("B").filters) == ((), ("`B`.`y` > 2",))


@pytest.mark.parametrize(
    ("how", "filtered"), [("left", "B"), ("right", "A"), ("full", ""), ("semi", "B"), ("anti", "B")]
)
def test_only_rows_that_come_out_with_a_match_are_filtered_before(how, filtered):
    made = outer("A.x = B.x AND A.y > 1 AND B.y > 1", how, kind=pa.bool_())
    assert "".join(each.name for each in made.streams if each.filters) == filtered
    excluded = [each.name for each in made.root.inputs if each.keys[0].bare is not None]
    assert [*excluded, *filtered] == sorted("AB", key=lambda name: name in filtered)
    assert made.root.tests == ()


def test_filters_above_stay_above_and_filters_below_below():
    node = FilterNode(JoinNode((FilterNode(A, "A.y > 1"), B), "A.x = B.x", "left"), "B.y > 2 AND A.z > 3")
    made = plan(Query(node))
    assert made.stream("A").filters == ("`A`.`y` > 1",)
    assert made.stream("B").filters == ()
    assert set(made.root.filters) == {"`B`.`y` > 2", "`A`.`z` > 3"}


def test_an_outer_join_is_the_last_step_over_a_join():
    made = outer("B.y = C.y AND A.z < C.z", inputs=(join(A, B, on="A.x = B.x"), C))
    assert [operator.how for operator in made.operators] == ["inner", "left"]
    assert made.root.tests == (Condition("lt", ("A.z", "C.z")),)


def test_an_equality_inside_a_side_decides_which_rows_can_match_and_is_no_key():
    made = outer("A.x = B.x AND A.y = A.z AND B.y = B.z", kind=pa.bool_())
    assert [len(source.keys) for source in made.root.inputs] == [1, 1]
    assert made.stream("B").filters == ("`B`.`y` = `B`.`z`",)
    assert made.root.inputs[0].keys[0].sql == "CASE WHEN `A`.`y` = `A`.`z` THEN `A`.`x` END"


@pytest.mark.parametrize(
    ("condition", "why"),
    [
        ("A.y / B.y < 5", "than compare, add or multiply whole numbers or doubles"),
        ("A.y % B.y < 5", "than compare, add or multiply whole numbers or doubles"),
        ("A.y + B.y < 5.5", "than compare, add or multiply whole numbers or doubles"),
        ("A.y + B.t < 5", "than compare, add or multiply whole numbers or doubles"),
        ("A.y < B.y + C.y", ""),
        ("A.t RLIKE B.t", "more with columns of two streams than can be done here"),
        ("A.t LIKE B.t ESCAPE '!'", "more with columns of two streams than can be done here"),
        ("coalesce(A.y, B.y) IS NULL", "more with columns of two streams than can be done here"),
        ("A.t COLLATE UTF8_LCASE = B.t", "under a collation"),
        ("A.t < collate(B.t, 'UNICODE')", "under a collation"),
        ("A.y < rand()", "changes from one evaluation to the next"),
    ],
)
def test_what_cannot_be_tested_on_pairs_of_rows_is_refused(condition, why):
    with pytest.raises(QueryError) as refused:
        outer(f"A.x = B.x AND {condition}")
    if why:
        assert isinstance(refused.value, UnsupportedError)
        assert why in refused.value.why
        assert "where() after the join" in refused.value.how


@pytest.mark.parametrize(
    ("left", "right"), [(LONG, TEXT), (LONG, DOUBLE), (pa.bool_(), pa.bool_()), (pa.list_(LONG), pa.list_(LONG))]
)
def test_types_that_are_not_compared_exactly_are_refused(left, right):
    with pytest.raises(TypeMismatchError, match=r"cast one side, as in CAST\(A\.v AS"):
        outer("A.x = B.x AND A.v < B.v", inputs=(stream("A", x=LONG, v=left), stream("B", x=LONG, v=right)))


def test_an_outer_join_needs_an_equality_between_its_sides():
    for condition in ("A.x < B.x", "A.x = A.y", "A.x = 1 AND B.x = 1"):
        with pytest.raises(NoEqualityError):
            outer(condition)


def test_an_outer_join_has_two_sides_and_nothing_above():
    with pytest.raises(QueryError, match=r"a join of 3 relations is 'left'.*two sides"):
        outer("A.x = B.x AND B.x = C.x", inputs=(A, B, C))
    below = JoinNode((A, B), "A.x = B.x", "anti")
    for how in ("inner", "left"):
        with pytest.raises(UnsupportedError, match="an anti join of A, B is joined with something else"):
            outer("A.x = C.x", how, inputs=(below, C))


def test_sums_of_columns_of_both_sides_are_computed_where_pairs_are_found():
    made = outer("A.x = B.x AND ABS(A.y + B.y * 2) < 5")
    [test] = made.root.tests
    assert test == Condition(
        "lt",
        (
            Condition("abs", (Condition("add", ("A.y", "B.#join1.test0")),)),
            Condition("number", (), low=5),
        ),
    )
    assert computed(made) == ["`B`.`y` * 2"]
    assert "and on ABS(A.y + B.y * 2) < 5" in explain(made, 1, 1)


def test_smaller_numbers_are_widened_and_doubles_stay():
    some = stream("A", x=LONG, n=INT, d=DOUBLE), stream("B", x=LONG, n=INT, d=DOUBLE)
    made = outer("A.x = B.x AND A.n - B.n + A.n > -1", inputs=some, kind=INT)
    assert computed(made) == ["CAST(`A`.`n` AS BIGINT)", "CAST(`B`.`n` AS BIGINT)"]
    made = outer("A.x = B.x AND A.d * B.n > 0.5", inputs=some)
    [test] = made.root.tests
    assert test.arguments[1] == Condition("number", (), low=0.5)
    assert computed(made) == ["CAST(`B`.`n` AS DOUBLE)"]


def test_a_difference_of_a_sum_is_a_band_too():
    made = outer("B.y = C.y AND ABS(A.x + B.x - C.x) < 3", inputs=(join(A, B, on="A.z = B.z"), C))
    [test] = made.root.tests
    assert (test.function, test.low, test.high) == ("within", -2, 2)


def test_texts_of_both_sides_may_be_like_each_other():
    [test] = outer("A.x = B.x AND NOT A.t LIKE B.t", inputs=TEXTS).root.tests
    assert test == Condition("not", (Condition("like", ("A.t", "B.t")),))


TEXTS = stream("A", x=LONG, t=TEXT), stream("B", x=LONG, t=TEXT)
