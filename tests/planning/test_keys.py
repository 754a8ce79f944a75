import pyarrow as pa
import pytest
from tests.planning.queries import DOUBLE, FLOAT, INT, LONG, TEXT, A, B, C, columns, join, keys, planned, stream

from watersmeet.model.errors import TypeMismatchError, UnsupportedError
from watersmeet.model.plan import Column
from watersmeet.model.query import Query
from watersmeet.planning import plan

PAIR = pa.struct([("f", LONG), ("g", TEXT)])


def joined(left: pa.DataType, right: pa.DataType):
    return planned(join(stream("A", k=left), stream("B", k=right), on="A.k = B.k"))


def key_columns(made, operator="join1"):
    return [[key.column for key in source.keys] for source in made.operator(operator).inputs]


def test_a_key_of_the_common_type_is_the_column_itself():
    made = joined(LONG, LONG)
    assert keys(made) == [["`A`.`k`"], ["`B`.`k`"]]
    assert made.root.hash_decides
    assert key_columns(made) == [[None], [None]]


def test_the_narrower_side_is_cast():
    made = joined(INT, LONG)
    assert keys(made) == [["CAST(`A`.`k` AS BIGINT)"], ["`B`.`k`"]]
    assert {key.type for source in made.root.inputs for key in source.keys} == {LONG}


def test_decimals_are_cast_to_the_one_that_holds_both():
    made = joined(pa.decimal128(10, 2), pa.decimal128(8, 4))
    assert keys(made) == [["CAST(`A`.`k` AS DECIMAL(12,4))"], ["CAST(`B`.`k` AS DECIMAL(12,4))"]]
    assert made.root.hash_decides
    assert not joined(pa.decimal128(19, 2), pa.decimal128(8, 2)).root.hash_decides


def test_the_zeros_of_floats_are_made_one():
    assert keys(joined(FLOAT, FLOAT))[0] == ["CASE WHEN `A`.`k` = 0 THEN CAST(0 AS FLOAT) ELSE `A`.`k` END"]
    narrow, wide = keys(joined(FLOAT, DOUBLE))
    cast = "CAST(`A`.`k` AS DOUBLE)"
    assert narrow == [f"CASE WHEN {cast} = 0 THEN CAST(0 AS DOUBLE) ELSE {cast} END"]
    assert wide == ["CASE WHEN `B`.`k` = 0 THEN CAST(0 AS DOUBLE) ELSE `B`.`k` END"]
    assert joined(FLOAT, DOUBLE).root.hash_decides


def test_texts_of_all_arrow_types_are_one():
    made = joined(pa.large_string(), TEXT)
    assert keys(made) == [["`A`.`k`"], ["`B`.`k`"]]
    assert not made.root.hash_decides
    assert key_columns(made) == [[Column("A", "k")], [Column("B", "k")]]


def test_timestamps_of_all_zones_are_one():
    made = joined(pa.timestamp("ns", tz="Europe/Rome"), pa.timestamp("us", tz="UTC"))
    assert keys(made) == [["`A`.`k`"], ["`B`.`k`"]]
    assert made.types[Column("A", "k")] == pa.timestamp("us", tz="UTC")


def test_several_keys_are_kept_to_be_compared():
    a, b = stream("A", x=INT, d=DOUBLE, t=TEXT), stream("B", x=LONG, d=DOUBLE, t=TEXT)
    made = planned(join(a, b, on="A.x = B.x AND A.d = B.d AND A.t = B.t"), "A.x")
    assert not made.root.hash_decides
    assert key_columns(made) == [
        list(columns("A.#join1.0 A.#join1.1 A.t")),
        list(columns("B.x B.#join1.1 B.t")),
    ]
    assert [made.types[column] for column in columns("A.#join1.0 A.#join1.1 B.#join1.1")] == [LONG, DOUBLE, DOUBLE]
    assert [source.state for source in made.root.inputs] == [
        columns("A.x A.t A.#join1.0 A.#join1.1"),
        columns("B.x B.t B.#join1.1"),
    ]


def test_a_struct_is_a_key_that_is_compared():
    made = joined(PAIR, PAIR)
    assert keys(made) == [["`A`.`k`"], ["`B`.`k`"]]
    assert not made.root.hash_decides


def test_a_field_of_a_struct_is_a_key_and_kept_as_a_computed_column():
    made = planned(join(stream("A", s=PAIR), stream("B", t=TEXT), on="A.s.g = B.t"), "B.t")
    assert keys(made) == [["`A`.`s`.`g`"], ["`B`.`t`"]]
    assert key_columns(made) == [list(columns("A.#join1.0")), list(columns("B.t"))]
    assert made.types[Column("A", "#join1.0")] == TEXT


def test_the_engine_is_asked_for_the_type_of_an_expression_once():
    asked = []

    def type_of(sql: str, name: str) -> pa.DataType:
        asked.append((sql, name))
        return pa.large_string()

    made = plan(Query(join(A, B, C, on="lower(A.t) = B.t AND LOWER(a.t) = C.t")), type_of)
    assert asked == [("LOWER(`A`.`t`)", "A")]
    assert keys(made) == [["LOWER(`A`.`t`)"], ["`B`.`t`"], ["`C`.`t`"]]
    assert made.root.inputs[0].keys[0].column == Column("A", "#join1.0")


def test_an_operator_in_an_expression_survives_the_cast():
    made = plan(Query(join(A, B, on="A.x + 1 = B.y")), lambda *_: INT)
    assert keys(made) == [["CAST((`A`.`x` + 1) AS BIGINT)"], ["`B`.`y`"]]


def test_an_expression_is_refused_where_nobody_knows_its_type():
    with pytest.raises(UnsupportedError, match=r"the type of LOWER\(A.t\) is not known"):
        planned(join(A, B, on="lower(A.t) = B.t"))


@pytest.mark.parametrize(
    ("left", "right", "remedy"),
    [
        (LONG, TEXT, "CAST(A.k AS STRING) = B.k"),
        (TEXT, LONG, "A.k = CAST(B.k AS STRING)"),
        (INT, DOUBLE, "CAST(A.k AS DOUBLE) = B.k"),
        (INT, pa.decimal128(10, 2), "CAST(A.k AS DECIMAL(10, 0)) = B.k"),
        (pa.date32(), pa.timestamp("us", tz="UTC"), "CAST(A.k AS TIMESTAMP) = B.k"),
        (LONG, pa.decimal128(38, 30), "CAST(A.k AS DECIMAL(38, 19)) = CAST(B.k AS DECIMAL(38, 19))"),
        (pa.decimal128(38, 0), pa.decimal128(20, 2), "CAST(A.k AS DECIMAL(38, 0)) = CAST(B.k AS DECIMAL(38, 0))"),
    ],
)
def test_types_that_are_not_compared_exactly_are_refused_with_a_cast_that_helps(left, right, remedy):
    with pytest.raises(TypeMismatchError) as refused:
        joined(left, right)
    assert "A.k is " in str(refused.value)
    assert "B.k is " in str(refused.value)
    assert remedy in str(refused.value)
    streams = stream("A", k=left), stream("B", k=right)
    casts = {"STRING": TEXT, "DOUBLE": DOUBLE, "TIMESTAMP": pa.timestamp("us", tz="UTC")}
    decimals = {"DECIMAL(10, 2)": pa.decimal128(10, 2), "DECIMAL(38, 0)": pa.decimal128(38, 0)}
    decimals |= {"DECIMAL(10, 0)": pa.decimal128(10, 0), "DECIMAL(38, 19)": pa.decimal128(38, 19)}

    def type_of(sql: str, _: str) -> pa.DataType:
        return next(type_ for name, type_ in (casts | decimals).items() if f"AS {name})" in sql)

    assert plan(Query(join(*streams, on=remedy)), type_of).root.inputs


def test_structs_of_other_types_are_compared_field_by_field():
    with pytest.raises(TypeMismatchError, match="compare their fields one by one"):
        joined(PAIR, pa.struct([("f", LONG), ("h", TEXT)]))


def test_the_sides_that_do_not_match_are_the_ones_the_user_wrote():
    with pytest.raises(TypeMismatchError, match=r"B\.x is bigint and C\.t is string"):
        planned(join(A, B, C, on="A.x = B.x AND B.x = C.t"))


@pytest.mark.parametrize("type_", [pa.map_(TEXT, LONG), pa.list_(pa.map_(TEXT, LONG))])
def test_types_that_cannot_be_hashed_are_refused(type_):
    with pytest.raises(UnsupportedError, match=r"A\.k of type .* cannot be joined on"):
        joined(type_, type_)


def test_structs_with_maps_are_refused():
    with pytest.raises(UnsupportedError, match=r"as in A\.k\.f"):
        joined(pa.struct([("f", pa.map_(TEXT, DOUBLE))]), pa.struct([("f", pa.map_(TEXT, DOUBLE))]))


def test_arrays_and_structs_are_cast_as_a_whole():
    made = joined(pa.list_(INT), pa.list_(LONG))
    assert made.root.inputs[0].keys[0].sql == "CAST(`A`.`k` AS ARRAY<BIGINT>)"
    made = joined(pa.struct([("odd name", INT)]), pa.struct([("odd name", LONG)]))
    assert made.root.inputs[0].keys[0].sql == "CAST(`A`.`k` AS STRUCT<`odd name`: BIGINT>)"


def test_a_joined_input_is_keyed_on_the_column_that_needs_no_cast():
    narrow = stream("A", x=INT, y=LONG, t=TEXT)
    made = planned(join(join(narrow, B, on="A.x = B.x"), C, on="B.x = C.x AND A.t = C.t"))
    assert keys(made, "join2") == [["`B`.`x`", "`A`.`t`"], ["`C`.`x`", "`C`.`t`"]]
    assert key_columns(made, "join2")[0] == list(columns("B.x A.t"))


def test_a_wider_type_above_does_not_reach_the_joins_below():
    narrow = stream("A", x=INT), stream("B", x=INT)
    made = planned(join(join(*narrow, on="A.x = B.x"), C, on="B.x = C.x"))
    assert keys(made, "join1") == [["`A`.`x`"], ["`B`.`x`"]]
    assert keys(made, "join2") == [["CAST(`A`.`x` AS BIGINT)"], ["`C`.`x`"]]


@pytest.mark.parametrize("condition", ["A.t COLLATE UTF8_LCASE = B.t", "collate(A.t, 'UTF8_LCASE') = B.t"])
def test_an_equality_under_a_collation_is_a_filter(condition):
    made = planned(join(A, B, on=f"A.x = B.x AND {condition}"))
    assert keys(made) == [["`A`.`x`"], ["`B`.`x`"]]
    assert len(made.root.filters) == 1
