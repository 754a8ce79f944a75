"""What a name means in a view, and that a view on a view is flat."""

import pyarrow as pa
import pytest

from watersmeet.model.errors import QueryError, UnknownNameError, UnsupportedError
from watersmeet.model.query import FilterNode, JoinNode, StreamNode
from watersmeet.planning.rename import renamed_node, renamed_view
from watersmeet.planning.views import Output, View, item_rewritten, joined_view, selected, stream_view

LONG = pa.int64()
A = StreamNode("A", pa.schema([("id", LONG), ("x", LONG), ("at", pa.struct([("day", LONG)]))]))
B = StreamNode("B", pa.schema([("id", LONG), ("y", LONG)]))
ROW = joined_view([stream_view(A, case_sensitive=False), stream_view(B, case_sensitive=False)])
USING = joined_view([stream_view(A, case_sensitive=False), stream_view(B, case_sensitive=False)], ["id"])


def select(view, *items, name=None):
    return View(selected(view, items, str.lower), name=name)


@pytest.mark.parametrize(
    ("view", "sql", "wanted"),
    [
        (ROW, "A.x > 1", "`A`.`x` > 1"),
        (ROW, "x > y", "`A`.`x` > `B`.`y`"),
        (ROW, "a.X + B.Y > 1", "`A`.`x` + `B`.`y` > 1"),
        (ROW, "at.day = 3", "`A`.`at`.`day` = 3"),
        (USING, "id = 3", "`A`.`id` = 3"),
        (ROW, "transform(array(x), id -> id + x)[0] = 1", "TRANSFORM(ARRAY(`A`.`x`), `id` -> `id` + `A`.`x`)[0] = 1"),
        (select(ROW, "A.x + 1 AS z", "B.id"), "z * 2 = id", "(`A`.`x` + 1) * 2 = `B`.`id`"),
        (select(ROW, "A.x", "B.y AS x2"), "A.x = x2", "`A`.`x` = `B`.`y`"),
        (select(ROW, "A.at AS t"), "t.day > 1", "`A`.`at`.`day` > 1"),
        (select(ROW, "A", "y"), "A.x = y", "`A`.`x` = `B`.`y`"),
        (select(ROW, "A AS Q"), "Q.x = 1", "`A`.`x` = 1"),
        (select(ROW, "*"), "x = y", "`A`.`x` = `B`.`y`"),
        (select(ROW, "A.*"), "x = 1", "`A`.`x` = 1"),
        (select(select(ROW, "A.x AS z", "B.y"), "z AS w", "y"), "w = y", "`A`.`x` = `B`.`y`"),
        (ROW.called("V"), "V.A.x = V.y", "`A`.`x` = `B`.`y`"),
        (joined_view([select(ROW, "A.x AS k"), View((Output("m", "`C`.`m`"),), "C")]), "k = C.m", "`A`.`x` = `C`.`m`"),
    ],
)
def test_a_name_means_a_column_of_a_stream(view, sql, wanted):
    assert view.rewritten(sql) == wanted


def test_a_view_that_was_changed_is_a_struct_of_its_columns():
    changed = select(stream_view(A, case_sensitive=False), "id", "x + 1 AS `it's`", name="A")
    assert changed.sql == r"NAMED_STRUCT('id', `A`.`id`, 'it\'s', `A`.`x` + 1)"
    assert joined_view([changed, stream_view(B, case_sensitive=False)]).outputs[1] == Output("B", "`B`")


def test_names_are_made_by_the_last_part_or_by_spark():
    assert [each.name for each in select(ROW, "A.at.day", "upper(x)", "B.y AS z").outputs] == [
        "day",
        "upper(`a`.`x`)",
        "z",
    ]


def test_a_select_item_is_rewritten_with_its_alias():
    assert item_rewritten(ROW, "explode(array(x)) AS e") == "EXPLODE(ARRAY(`A`.`x`)) AS `e`"
    assert item_rewritten(ROW, "A.*") == "A.*"


@pytest.mark.parametrize(
    ("view", "sql", "error", "message"),
    [
        (ROW, "id = 1", QueryError, "write A.id or B.id"),
        (ROW, "A.z = 1", UnknownNameError, "A has no field z"),
        (ROW, "C.z = 1", UnknownNameError, "the streams joined here are A, B"),
        (ROW, "z = 1", UnknownNameError, "no stream joined here has it"),
        (select(ROW, "x"), "z = 1", UnknownNameError, "the relation does not have it"),
        (joined_view([select(ROW, "x"), select(ROW, "y AS x")]), "x = 1", QueryError, "rename all but one"),
    ],
)
def test_a_name_that_means_nothing_or_too_much_is_refused(view, sql, error, message):
    with pytest.raises(error, match=message):
        view.rewritten(sql)


def test_only_a_stream_is_taken_apart_by_a_star():
    with pytest.raises(QueryError, match="which is one column"):
        select(ROW, "A.x.*")


def test_case_matters_where_the_session_says_so():
    strict = joined_view([stream_view(A, case_sensitive=True)])
    assert strict.rewritten("A.x = 1") == "`A`.`x` = 1"
    with pytest.raises(UnknownNameError):
        strict.rewritten("a.X = 1")


def test_a_stream_is_renamed_with_its_filters_and_columns():
    node = renamed_node(FilterNode(A, "`A`.`x` > 1 AND 'A.x' = 'A.x'"), "A", "Z")
    assert isinstance(node, FilterNode)
    assert node.condition == "`Z`.`x` > 1 AND 'A.x' = 'A.x'"
    assert node.input.name == "Z"
    view = renamed_view(select(stream_view(A, case_sensitive=False), "id", "x + 1 AS n", name="A"), "A", "Z")
    assert view.rewritten("Z.id > n") == "`Z`.`id` > (`Z`.`x` + 1)"
    with pytest.raises(UnsupportedError, match="several streams"):
        renamed_node(JoinNode((A, B), "A.id = B.id"), "A", "Z")


def test_columns_stand_by_their_streams_where_spark_has_to_look_at_them():
    opened = select(ROW, "A.x", "B.y", "A.x + 1 AS n").opened()
    assert [(view.name, [each.name for each in view.members]) for view in opened] == [
        ("A", ["x"]),
        ("B", ["y"]),
        (None, ["n"]),
    ]
    assert [view.name for view in ROW.opened()] == ["A", "B"]
    assert ROW.called("V").opened() == [ROW.called("V")]
