from tests.planning.queries import A, B, C, join, planned

from watersmeet.model.query import FilterNode

ABC = join(join(A, B, on="A.x = B.x"), C, on="B.y = C.y")


def filters(made):
    streams = {stream.name: stream.filters for stream in made.streams if stream.filters}
    return streams | {operator.id: operator.filters for operator in made.operators if operator.filters}


def test_a_filter_sinks_to_the_stream_it_is_about():
    made = planned(FilterNode(ABC, "A.x > 1 AND C.x > 2 AND A.y > 3"))
    assert filters(made) == {"A": ("`A`.`x` > 1", "`A`.`y` > 3"), "C": ("`C`.`x` > 2",)}


def test_a_filter_on_two_streams_sinks_to_the_operator_that_joins_them():
    made = planned(FilterNode(ABC, "A.z > B.z AND A.z > C.z"))
    assert filters(made) == {"join1": ("`A`.`z` > `B`.`z`",), "join2": ("`A`.`z` > `C`.`z`",)}


def test_conditions_of_a_join_that_are_no_equalities_are_filters():
    made = planned(join(A, B, on="A.x = B.x AND A.y < B.y AND (A.z = B.z OR A.t = B.t) AND B.t = 'b'"))
    assert filters(made) == {
        "B": ("`B`.`t` = 'b'",),
        "join1": ("`A`.`y` < `B`.`y`", "(`A`.`z` = `B`.`z` OR `A`.`t` = `B`.`t`)"),
    }


def test_a_filter_below_a_join_is_the_same_as_one_above():
    below = join(FilterNode(A, "A.x > 1"), B, on="A.x = B.x")
    above = FilterNode(join(A, B, on="A.x = B.x"), "A.x > 1")
    assert planned(below) == planned(above)


def test_random_filters_are_evaluated_once_at_the_root():
    made = planned(FilterNode(ABC, "rand() < 0.5 AND A.x > randn() AND A.x > 1"))
    assert filters(made) == {"A": ("`A`.`x` > 1",), "join2": ("RAND() < 0.5", "`A`.`x` > RANDN()")}


def test_a_random_filter_that_stands_twice_is_evaluated_twice():
    assert filters(planned(FilterNode(ABC, "rand() < 0.5 AND rand() < 0.5")))["join2"] == ("RAND() < 0.5",) * 2


def test_the_same_filter_twice_is_one():
    assert filters(planned(FilterNode(FilterNode(ABC, "A.x > 1"), "a.X>1 AND A.x > 1"))) == {"A": ("`A`.`x` > 1",)}


def test_a_filter_about_no_column_stays_at_the_root():
    assert filters(planned(FilterNode(ABC, "1 = 1"))) == {"join2": ("1 = 1",)}


def test_an_equality_with_columns_of_three_streams_is_a_filter():
    made = planned(FilterNode(ABC, "A.z = B.z + C.z"))
    assert filters(made) == {"join2": ("`A`.`z` = `B`.`z` + `C`.`z`",)}
