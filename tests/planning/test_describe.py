import json

import pyarrow as pa
import pytest
from tests.planning.queries import DOUBLE, INT, LONG, TEXT, A, B, C, join, planned, stream

from watersmeet.model.query import FilterNode, JoinNode, Query, StreamNode
from watersmeet.planning import difference, explain, fingerprint, plan

ABC = join(join(A, B, on="A.x = B.x"), C, on="B.t = C.t")


def told(old, new):
    return difference(json.loads(json.dumps(fingerprint(old))), fingerprint(new))


def test_an_explained_plan_reads_from_the_root_down():
    made = planned(FilterNode(ABC, "A.y > 3 AND A.z > C.z"), "A.z", "B.y")
    assert explain(made, groups=300, sites=4).splitlines() == [
        "2 operators over 3 streams; 300 partition groups an operator, on 4 sites",
        "",
        "join2 joins join1, C",
        "    on B.t = C.t (string, found by the hash, then compared)",
        "    where A.z > C.z",
        "    output A.z, B.y, C.z",
        "    input join1 keeps A.z, B.y, B.t",
        "        join1 joins A, B",
        "            on A.x = B.x (bigint, decided by the hash)",
        "            output A.z, B.y, B.t",
        "            input A keeps A.z",
        "                where A.y > 3",
        "            input B keeps B.y, B.t",
        "    input C keeps C.z, C.t",
    ]


def test_an_explained_plan_tells_the_kind_of_join_what_else_it_is_on_and_times():
    timed = [
        StreamNode(name, pa.schema([("x", LONG), ("y", LONG), ("ts", pa.timestamp("us", "UTC"))]), "ts", 5_000_000, 1)
        for name in "AB"
    ]
    node = JoinNode(tuple(timed), "A.x = B.x AND (A.y < B.y OR NOT A.y BETWEEN B.x AND B.y)", "left")
    assert explain(plan(Query(node, ("A.y",))), groups=1, sites=1).splitlines()[2:] == [
        "join1 joins A, B (left)",
        "    on A.x = B.x (bigint, decided by the hash)",
        "    and on (A.y < B.y) OR (NOT ((A.y >= B.x) AND (A.y <= B.y)))",
        "    output A.y",
        "    input A keeps A.y, A.ts",
        "        time A.ts",
        "        window 5 seconds",
        "        watermark 1 microsecond",
        "    input B keeps B.x, B.y, B.ts",
        "        time B.ts",
        "        window 5 seconds",
        "        watermark 1 microsecond",
    ]


def test_an_explained_plan_does_not_show_how_zeros_are_made_one():
    a, b = stream("A", d=DOUBLE), stream("B", d=DOUBLE)
    made = planned(join(a, b, on="A.d = B.d"), "1")
    assert explain(made, 1, 1).splitlines() == [
        "1 operator over 2 streams; 1 partition groups an operator, on 1 site",
        "",
        "join1 joins A, B",
        "    on A.d = B.d (double, decided by the hash)",
        "    output no columns, rows only",
        "    input A keeps the hash alone",
        "    input B keeps the hash alone",
    ]


def test_a_fingerprint_survives_json():
    print_ = fingerprint(planned(ABC))
    assert json.loads(json.dumps(print_)) == print_


def test_the_same_query_in_other_words_has_the_same_fingerprint():
    other = join(join(A, B, on="(a.X=b.x)"), C, on="`B`.T == C.t")
    assert fingerprint(planned(other)) == fingerprint(planned(ABC))
    assert told(planned(other), planned(ABC)) == ""


def test_filters_and_expressions_above_the_root_are_not_in_the_fingerprint():
    plain = planned(ABC)
    assert fingerprint(planned(FilterNode(ABC, "A.x > C.x"))) == fingerprint(plain)
    assert fingerprint(planned(ABC, "A", "B", "upper(C.t)", "C.*")) == fingerprint(plain)


def other_type(name, **fields):
    return stream(name, **({"x": LONG, "y": LONG, "z": LONG, "t": TEXT} | fields))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (
            planned(join(join(A, other_type("B", y=TEXT), on="A.x = B.x"), C, on="B.t = C.t")),
            "stream B has column y bigint in the checkpoint, string in the query",
        ),
        (
            planned(join(A, B, on="A.x = B.x")),
            "the query reads the streams A, B, C in the checkpoint, A, B in the query",
        ),
        (planned(ABC, "A.*", "B.*"), "stream C keeps t, x, y, z in the checkpoint, t in the query"),
        (
            planned(FilterNode(ABC, "A.x > 3")),
            "stream A is filtered by nothing in the checkpoint, A.x > 3 in the query",
        ),
        (
            planned(join(A, B, C, on="A.x = B.x AND A.x = C.x")),
            "the operators are join1, join2 in the checkpoint, join1 in the query",
        ),
        (
            planned(join(join(A, C, on="A.x = C.x"), B, on="B.t = C.t")),
            "join1 joins A, B in the checkpoint, A, C in the query",
        ),
        (
            planned(join(join(A, B, on="A.x = B.y"), C, on="B.t = C.t")),
            "input B of join1 is joined on B.x in the checkpoint, B.y in the query",
        ),
        (
            planned(join(FilterNode(join(A, B, on="A.x = B.x"), "A.z > B.z"), C, on="B.t = C.t")),
            "the output of join1 is filtered by nothing in the checkpoint, A.z > B.z in the query",
        ),
    ],
)
def test_the_first_difference_is_told_in_words(changed, words):
    assert told(planned(ABC), changed) == words


def test_a_key_that_became_wider_is_told():
    narrow, wide = (
        planned(join(stream("A", x=INT), stream("B", x=type_), on="A.x = B.x"), "1") for type_ in (INT, LONG)
    )
    assert told(narrow, wide) == "input A of join1 is joined on A.x in the checkpoint, CAST(A.x AS BIGINT) in the query"


def test_a_key_of_another_type_is_told():
    before, after = (
        planned(join(stream("A", x=each), stream("B", x=each), on="A.x = B.x"), "1") for each in (INT, LONG)
    )
    assert told(before, after) == "input A of join1 has keys of type int in the checkpoint, bigint in the query"


def test_columns_in_another_order_are_told():
    swapped = stream("A", y=LONG, x=LONG, z=LONG, t=TEXT)
    after = planned(join(join(swapped, B, on="A.x = B.x"), C, on="B.t = C.t"))
    assert told(planned(ABC), after).startswith("input A of join1 keeps A.x, A.y, A.z, A.t in the checkpoint, A.y, A.x")


def test_a_fingerprint_of_another_form_is_told():
    assert "in another way" in difference({"version": 7}, fingerprint(planned(ABC)))


def test_a_ring_finds_both_ends_of_a_between_by_binary_search():
    timed = [
        StreamNode(name, pa.schema([("x", LONG), ("y", LONG), ("ts", pa.timestamp("us", "UTC"))]), "ts", 5_000_000, 1)
        for name in "AB"
    ]
    lines = explain(plan(Query(JoinNode(tuple(timed), "A.x BETWEEN B.x AND B.y"))), groups=1, sites=1).splitlines()
    assert "    on A.x >= B.x, found by binary search" in lines
    assert "    on A.x <= B.y, found by binary search" in lines
