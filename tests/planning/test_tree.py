import pyarrow as pa
import pytest
from tests.planning.queries import LONG, A, B, C, D, E, join, keys, planned, shape, stream

from watersmeet.model.errors import NoEqualityError, QueryError
from watersmeet.model.query import FilterNode


def test_one_class_is_one_operator():
    made = planned(join(A, B, C, on="A.x = B.x AND B.x = C.x"))
    assert shape(made) == {"join1": ("A", "B", "C")}
    assert keys(made) == [["`A`.`x`"], ["`B`.`x`"], ["`C`.`x`"]]
    assert made.root.level == 0


def test_nested_joins_stay_nested():
    made = planned(join(join(A, B, C, on="A.x = B.x AND B.x = C.x"), D, on="C.y = D.x"))
    assert shape(made) == {"join1": ("A", "B", "C"), "join2": ("join1", "D")}
    assert [source.operator for source in made.root.inputs] == ["join1", None]
    assert [source.stream for source in made.root.inputs] == [None, "D"]
    assert [operator.level for operator in made.operators] == [0, 1]


def test_two_classes_are_two_operators():
    made = planned(join(A, B, C, on="A.x = B.x AND B.y = C.y"))
    assert shape(made) == {"join1": ("A", "B"), "join2": ("join1", "C")}


def test_inputs_that_share_more_keys_are_joined_first():
    made = planned(join(A, B, C, on="A.x = B.x AND B.x = C.x AND B.y = C.y"))
    assert shape(made) == {"join1": ("B", "C"), "join2": ("A", "join1")}
    assert keys(made) == [["`B`.`x`", "`B`.`y`"], ["`C`.`x`", "`C`.`y`"]]


def test_of_equally_many_keys_the_larger_join_comes_first():
    made = planned(join(A, B, C, D, on="A.y = B.y AND B.x = C.x AND C.x = D.x"))
    assert shape(made) == {"join1": ("B", "C", "D"), "join2": ("A", "join1")}


def test_of_equals_the_first_in_the_query_comes_first():
    made = planned(join(D, C, B, A, on="A.x = B.x AND C.x = D.x AND B.y = C.y"))
    assert shape(made) == {"join1": ("D", "C"), "join2": ("join1", "B"), "join3": ("join2", "A")}
    assert [operator.level for operator in made.operators] == [0, 1, 2]


def test_a_class_that_is_no_key_is_a_filter_where_its_terms_meet():
    made = planned(
        join(A, B, C, D, on="A.x = B.x AND B.x = C.x AND B.y = C.y AND C.y = D.y AND A.z = D.z AND B.z = A.z")
    )
    assert shape(made) == {"join1": ("A", "B", "C"), "join2": ("join1", "D")}
    assert made.operator("join1").filters == ("`B`.`y` = `C`.`y`", "`A`.`z` = `B`.`z`")
    assert keys(made, "join2") == [["`B`.`y`", "`A`.`z`"], ["`D`.`y`", "`D`.`z`"]]
    assert made.root.filters == ()


def test_two_columns_of_one_stream_in_a_class_are_compared_on_the_stream():
    made = planned(join(A, B, on="A.x = B.x AND A.y = B.x"))
    assert made.stream("A").filters == ("`A`.`x` = `A`.`y`",)
    assert keys(made) == [["`A`.`x`"], ["`B`.`x`"]]
    assert made.root.filters == ()


def test_an_equality_inside_one_stream_is_a_filter():
    made = planned(join(A, B, on="A.x = B.x AND A.x = A.y"))
    assert made.stream("A").filters == ("`A`.`x` = `A`.`y`",)
    assert made.root.hash_decides


def test_an_equality_inside_one_input_is_enforced_below():
    made = planned(join(join(A, B, on="A.x = B.x"), C, on="A.y = B.y AND B.z = C.z"))
    assert made.operator("join1").filters == ("`A`.`y` = `B`.`y`",)
    assert keys(made, "join2") == [["`B`.`z`"], ["`C`.`z`"]]


def test_columns_of_one_input_that_equal_the_same_column_are_compared_below():
    made = planned(join(join(A, B, on="A.x = B.x"), C, on="A.y = C.z AND B.y = C.z"))
    assert made.operator("join1").filters == ("`A`.`y` = `B`.`y`",)
    assert keys(made, "join2") == [["`A`.`y`"], ["`C`.`z`"]]


def test_what_is_equal_below_makes_one_class_above():
    made = planned(join(join(A, B, on="A.x = B.x"), C, D, on="A.x = C.x AND B.x = D.x"))
    assert shape(made) == {"join1": ("A", "B"), "join2": ("join1", "C", "D")}
    assert all(operator.filters == () for operator in made.operators)


def test_an_equality_that_follows_from_others_costs_nothing():
    made = planned(join(A, B, C, on="A.x = B.x AND B.x = C.x AND A.x = C.x AND A.x = B.x"))
    assert shape(made) == {"join1": ("A", "B", "C")}
    assert made.root.filters == ()
    assert made.root.hash_decides


def test_children_sit_one_level_below_their_parents():
    deep = join(join(A, B, on="A.x = B.x"), C, on="B.y = C.y")
    made = planned(join(join(D, E, on="D.x = E.x"), deep, on="E.y = C.z"))
    assert {operator.id: operator.level for operator in made.operators} == {
        "join1": 0,
        "join2": 1,
        "join3": 1,
        "join4": 2,
    }
    assert shape(made) == {
        "join1": ("A", "B"),
        "join2": ("D", "E"),
        "join3": ("join1", "C"),
        "join4": ("join2", "join3"),
    }
    assert made.operators[-1] is made.root
    assert [len(level) for level in made.levels] == [1, 2, 1]


def test_operators_are_not_named_as_streams():
    made = planned(join(join(stream("Join1", x=LONG), A, on="Join1.x = A.x"), B, on="A.y = B.y"))
    assert shape(made) == {"join2": ("Join1", "A"), "join3": ("join2", "B")}


def test_an_input_no_equality_connects_is_named():
    with pytest.raises(NoEqualityError) as refused:
        planned(join(A, B, C, stream("D", q=LONG), on="A.x = B.x AND B.y = C.y"))
    assert "no equality connects D with A, B, C" in str(refused.value)
    assert "add a condition such as A.x = D.q" in str(refused.value)


@pytest.mark.parametrize(
    "on", ["A.x > B.x", "A.x <=> 3", "A.x = B.x OR A.y = B.y", "TRUE", "A.x = 1 AND B.x = 1", "A.x = rand() + B.x"]
)
def test_a_join_needs_an_equality(on):
    with pytest.raises(NoEqualityError, match=r"no equality connects B with A: .* such as A\.x = B\.x"):
        planned(join(A, B, on=on))


def test_a_filter_above_does_not_connect():
    with pytest.raises(NoEqualityError):
        planned(FilterNode(join(A, B, on="A.x > B.x"), "A.x = B.x"))


def test_the_example_of_an_equality_has_columns_that_can_be_compared():
    left = stream("A", l=pa.list_(LONG), t=pa.string())
    right = stream("B", n=LONG, u=pa.string())
    with pytest.raises(NoEqualityError, match=r"such as A\.t = B\.u"):
        planned(join(left, right, on="TRUE"))


def test_a_stream_alone_is_no_join():
    with pytest.raises(QueryError, match="joins it with nothing"):
        planned(FilterNode(A, "A.x = 1"))


def test_a_join_has_two_inputs():
    with pytest.raises(QueryError, match="a join has 1 input"):
        planned(join(A, on="A.x = A.y"))
