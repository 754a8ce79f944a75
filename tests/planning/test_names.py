import pyarrow as pa
import pytest
from tests.planning.queries import LONG, A, B, join, parsed, planned, stream

from watersmeet.model.errors import DuplicateNameError, QueryError, UnknownNameError, UnsupportedError
from watersmeet.model.plan import Column
from watersmeet.model.query import FilterNode
from watersmeet.planning.names import Scope, readable, spelled


def complaint(condition, *streams):
    with pytest.raises(UnknownNameError) as refused:
        parsed(condition, *streams)
    return str(refused.value)


def test_an_unknown_column_is_answered_with_the_nearest():
    assert "did you mean 'T.price'?" in complaint("T.prize > 1", stream("T", price=LONG, size=LONG))


def test_an_unknown_stream_is_answered_with_the_nearest():
    assert "did you mean 'orders'?" in complaint("order_s.x = 1", stream("orders", x=LONG))


def test_a_column_without_its_stream_is_answered_with_the_streams_that_have_it():
    message = complaint("x = 1", A, stream("B", x=LONG), stream("C", z=LONG))
    assert "write A.x or B.x" in message


def test_a_nested_column_without_its_stream_is_answered_with_its_path():
    assert "write A.s.f" in complaint("s.f = 1", stream("A", s=pa.struct([("f", LONG)])))


def test_a_bare_name_no_stream_has_is_an_unknown_column():
    assert "there is no column nowhere" in complaint("nowhere = 1")


def test_an_unknown_nested_field_is_answered_with_the_nearest():
    assert "did you mean 'A.s.first'?" in complaint("A.s.frist = 1", stream("A", s=pa.struct([("first", LONG)])))


def test_a_number_has_no_fields():
    assert "it is no struct but bigint" in complaint("A.x.f = 1")


def test_a_condition_is_about_columns_not_streams():
    with pytest.raises(QueryError, match=r"such as A\.x"):
        parsed("A = 1")
    with pytest.raises(QueryError, match=r"such as A\.x"):
        parsed("A.* = 1")


def test_a_name_that_only_case_tells_apart_is_ambiguous():
    with pytest.raises(QueryError, match="it can mean x or X"):
        parsed("A.x = 1", stream("A", x=LONG, X=LONG))


def test_a_condition_speaks_only_of_streams_below_it():
    with pytest.raises(UnknownNameError, match="the streams joined here are A"):
        planned(join(FilterNode(A, "B.x = 1"), B, on="A.x = B.x"))


def test_a_stream_is_joined_once():
    with pytest.raises(DuplicateNameError, match=r'flow.stream\("A2", df\)'):
        planned(join(A, A, on="A.x = A.y"))
    with pytest.raises(DuplicateNameError, match="self-join"):
        planned(join(join(A, B, on="A.x = B.x"), A, on="A.x = B.x"))


def test_stream_names_that_only_case_tells_apart_are_duplicates():
    with pytest.raises(DuplicateNameError, match="differ only in case"):
        planned(join(A, stream("a"), on="A.x = a.x"))


def test_a_stream_has_no_two_columns_of_one_name():
    twice = stream("A")
    schema = pa.schema([("x", LONG), ("x", LONG)])
    with pytest.raises(DuplicateNameError, match="2 columns named x"):
        planned(join(type(twice)("A", schema), B, on="B.x = B.y"))


def test_names_of_computed_columns_are_reserved():
    with pytest.raises(UnsupportedError, match="withColumnRenamed"):
        planned(join(stream("A", **{"#x": LONG}), B, on="A.`#x` = B.x"))


def test_columns_come_in_query_order_then_schema_order_then_computed():
    scope = Scope([B, A])
    given = [Column("A", "#join1.0"), Column("A", "y"), Column("A", "x"), Column("B", "z"), Column("A", "y")]
    assert [column.name for column in scope.ordered(given)] == ["B.z", "A.x", "A.y", "A.#join1.0"]


def test_backquotes_are_shown_where_they_are_needed():
    assert spelled(["A", "2x"]) == "A.`2x`"
    assert readable("`A`.`x` = `A`.`a``b`") == "A.x = A.`a``b`"
