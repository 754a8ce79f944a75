import pyarrow as pa
import pytest
from tests.planning.queries import LONG, TEXT, A, B, columns, parsed, stream, texts

from watersmeet.model.errors import QueryError, UnsupportedError
from watersmeet.planning import columns_of

NESTED = stream(
    "N",
    s=pa.struct([("f", LONG), ("G", pa.struct([("h", TEXT)]))]),
    l=pa.list_(LONG),
    ls=pa.list_(pa.struct([("f", LONG)])),
    m=pa.map_(TEXT, LONG),
    x=LONG,
)


def read(expression: str) -> set[str]:
    return {column.name for column in columns_of(expression, [A, NESTED])}


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("A.x = 1 AND A.y = 2", ["`A`.`x` = 1", "`A`.`y` = 2"]),
        ("(A.x = 1 AND (A.y = 2 AND A.z = 3))", ["`A`.`x` = 1", "`A`.`y` = 2", "`A`.`z` = 3"]),
        ("A.x BETWEEN 1 AND 2 AND A.y = 2", ["`A`.`x` BETWEEN 1 AND 2", "`A`.`y` = 2"]),
        ("A.x = 1 OR A.y = 2 AND A.z = 3", ["(`A`.`x` = 1 OR `A`.`y` = 2 AND `A`.`z` = 3)"]),
        ("NOT (A.x = 1 AND A.y = 2)", ["NOT (`A`.`x` = 1 AND `A`.`y` = 2)"]),
        ("CASE WHEN A.x = 1 AND A.y = 2 THEN TRUE END", ["CASE WHEN `A`.`x` = 1 AND `A`.`y` = 2 THEN TRUE END"]),
    ],
)
def test_a_condition_falls_apart_at_its_outer_ands(condition, expected):
    assert texts(condition) == expected


@pytest.mark.parametrize(
    "spelling", ["A.x > 3", "a.X>3", "`A`.x  >  3", "(A . x > 3)", "A.x > 3 -- note", "A.x /* */ > 3"]
)
def test_spellings_of_one_condition_have_one_text(spelling):
    assert texts(spelling) == ["`A`.`x` > 3"]


def test_names_are_exact_in_a_case_sensitive_query():
    lower, upper = stream("a", x=LONG), stream("A", X=LONG, x=LONG)
    assert texts("a.x = A.X AND A.x = 1", lower, upper, case_sensitive=True) == ["`a`.`x` = `A`.`X`", "`A`.`x` = 1"]


def test_names_with_odd_characters_are_written_in_backquotes():
    odd = stream("my stream", **{"unit price": LONG, "a`b": LONG, "dotted.name": LONG})
    [conjunct] = parsed("`my stream`.`unit price` + `my stream`.`a``b` > `my stream`.`dotted.name`", odd)
    assert conjunct.sql == "`my stream`.`unit price` + `my stream`.`a``b` > `my stream`.`dotted.name`"
    assert {column.field for column in conjunct.columns} == {"unit price", "a`b", "dotted.name"}


def test_nested_fields_belong_to_their_column_and_are_spelled_as_the_schema_does():
    [conjunct] = parsed("n.S.g.H = 'a'", NESTED)
    assert conjunct.sql == "`N`.`s`.`G`.`h` = 'a'"
    assert conjunct.columns == frozenset(columns("N.s"))
    assert conjunct.sides[0].type == TEXT
    assert conjunct.sides[0].column is None


@pytest.mark.parametrize(
    "condition", ["N.ls.f[0] = 1", "N.ls[0].f = 1", "N.m.anything = 1", "N.m['k'] = N.x", "N.l[N.x] = 1"]
)
def test_elements_of_arrays_and_maps_are_left_to_spark(condition):
    [conjunct] = parsed(condition, NESTED)
    assert conjunct.sides[0].type is None
    assert {column.stream for column in conjunct.columns} == {"N"}


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("exists(N.l, e -> e > N.x)", "N.l N.x"),
        ("exists(N.l, E -> e > 1)", "N.l"),
        ("exists(N.ls, N -> N.f > 1)", "N.ls"),
        ("aggregate(N.l, 0, (acc, e) -> acc + e) > 1", "N.l"),
        ("size(transform(N.ls, e -> filter(N.l, x -> x > e.f))) > 1", "N.ls N.l"),
        ("size(map_filter(N.m, (k, v) -> v > N.x)) > 1", "N.m N.x"),
    ],
)
def test_variables_of_lambda_functions_are_no_columns(condition, expected):
    [conjunct] = parsed(condition, NESTED)
    assert conjunct.columns == frozenset(columns(expected))


def test_a_variable_hides_a_stream_only_if_case_does_not_tell_them_apart():
    [conjunct] = parsed("exists(N.l, n -> n > N.x)", NESTED, case_sensitive=True)
    assert conjunct.columns == frozenset(columns("N.l N.x"))


@pytest.mark.parametrize(
    "text",
    [
        "LOG10(`A`.`x`) > 1",
        "DATE_FORMAT(`A`.`t`, 'y') = '1'",
        "UNIX_DATE(`A`.`x`) = 1",
        "DATE_SUB(`A`.`x`, 1) = 1",
        "DATE_TRUNC(`A`.`t`, `A`.`x`) = 1",
        "LEVENSHTEIN(`A`.`t`, `B`.`t`, 2) < 3",
        "NAMED_STRUCT('a', `A`.`x`).`a` = 1",
        "ARRAY(1, 2)[0] = `A`.`x`",
        "LOCALTIMESTAMP() > `A`.`x`",
        "TO_CHAR(`A`.`x`, '999') = 'a'",
        "DATEDIFF(DAY, `A`.`x`, `B`.`x`) > 1",
        "TIMESTAMPADD(HOUR, 1, `A`.`x`) > `B`.`x`",
        "MY_OWN_FUNCTION(`A`.`x`, 1, 2, 3)",
        "`A`.`x` + INTERVAL '3' DAYS > `B`.`x`",
        "`A`.`t` RLIKE 'a\\\\d'",
        "TRY_CAST(`A`.`t` AS INT) = CAST(`B`.`t` AS DECIMAL(10, 2))",
    ],
)
def test_functions_are_written_as_they_were_read(text):
    assert texts(text) == [text]


def test_a_unit_is_a_column_where_a_stream_has_it():
    [conjunct] = parsed("datediff(A.day, A.day) > 1", stream("A", day=LONG))
    assert conjunct.sql == "DATEDIFF(`A`.`day`, `A`.`day`) > 1"


@pytest.mark.parametrize("call", ["rand()", "randn(3)", "random()", "uuid()", "shuffle(A.x)", "spark_partition_id()"])
def test_random_functions_are_not_repeatable(call):
    [conjunct] = parsed(f"{call} = B.x")
    assert not conjunct.repeatable


def test_the_time_of_an_epoch_is_repeatable():
    assert all(conjunct.repeatable for conjunct in parsed("current_timestamp() > A.x AND current_date > A.x"))


def test_the_sides_of_an_equality_can_be_put_anywhere():
    [conjunct] = parsed("(A.x + 1) == (B.x)")
    assert [side.sql for side in conjunct.sides] == ["(`A`.`x` + 1)", "`B`.`x`"]
    [conjunct] = parsed("lower(A.t) = B.t || 'x'")
    assert [side.sql for side in conjunct.sides] == ["LOWER(`A`.`t`)", "(`B`.`t` || 'x')"]


@pytest.mark.parametrize(
    "condition", ["A.x = B.x > 1", "A.x = B.x = TRUE", "A.x = B.x IS NULL", "A.x IN (B.x, 1)", "A.x > B.x"]
)
def test_what_is_no_plain_equality_has_no_sides(condition):
    [conjunct] = parsed(condition)
    assert conjunct.sides is None


@pytest.mark.parametrize(
    ("condition", "complaint"),
    [
        ("A.x = ", "missing at '='"),
        ("A.x = 1 2", "Unexpected token at '2' (line 1, column 9)"),
        ("A.x = 'a", "Error tokenizing"),
        ("A.select = 1", "in backquotes"),
        ("  ", "the expression is empty"),
        ("A.x = 1; A.y = 2", "combine them with AND"),
        ("SELECT 1", "Unexpected token at 'SELECT'"),
        ("A.x = ?", "has a parameter"),
    ],
)
def test_sql_that_does_not_parse_is_refused_with_the_parsers_complaint(condition, complaint):
    with pytest.raises(QueryError) as refused:
        parsed(condition)
    assert complaint in str(refused.value)


@pytest.mark.parametrize(
    ("condition", "kind"),
    [
        ("A.x = max(B.x)", "an aggregate, MAX(B.x)"),
        ("array_agg(A.x) = B.x", "an aggregate"),
        ("A.x IN (SELECT 1)", "a subquery"),
        ("row_number() OVER (ORDER BY A.x) = 1", "a window function"),
        ("explode(A.x) = 1", "a generator"),
    ],
)
def test_conditions_that_need_more_than_a_row_are_refused(condition, kind):
    with pytest.raises(UnsupportedError) as refused:
        parsed(condition)
    assert kind in str(refused.value)


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ("A.x", {"A.x"}),
        ("A.x AS y", {"A.x"}),
        ("upper(a.T) name", {"A.t"}),
        ("A", {"A.x", "A.y", "A.z", "A.t"}),
        ("A.*", {"A.x", "A.y", "A.z", "A.t"}),
        ("a AS b", {"A.x", "A.y", "A.z", "A.t"}),
        ("to_json(A) AS j", {"A.x", "A.y", "A.z", "A.t"}),
        ("struct(A.*, N.x)", {"A.x", "A.y", "A.z", "A.t", "N.x"}),
        ("N.s.*", {"N.s"}),
        ("N.s.G.h", {"N.s"}),
        ("explode(N.l) AS e", {"N.l"}),
        ("1 AS one", set()),
        ("rand()", set()),
    ],
)
def test_the_columns_of_a_select_item(item, expected):
    assert read(item) == expected


@pytest.mark.parametrize("item", ["*", "struct(*)", "* EXCEPT (A)"])
def test_a_star_reads_all_columns_of_all_streams(item):
    assert len(read(item)) == 9


def test_an_aggregate_is_no_select_item():
    with pytest.raises(UnsupportedError, match="an aggregate, SUM"):
        read("sum(A.x) AS total")


def test_the_columns_of_a_select_item_can_be_case_sensitive():
    both = stream("A", x=LONG, X=LONG)
    assert columns_of("A.X", [both, B], case_sensitive=True) == frozenset(columns("A.X"))
