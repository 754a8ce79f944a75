import pyarrow as pa
from tests.planning.queries import INT, LONG, TEXT, A, B, C, columns, join, planned, stream

from watersmeet.model.plan import Column
from watersmeet.model.query import FilterNode, Query
from watersmeet.planning import plan

ABC = join(join(A, B, on="A.x = B.x"), C, on="B.y = C.y")


def states(made):
    return {source.name: source.state for operator in made.operators for source in operator.inputs}


def test_without_a_projection_all_columns_are_kept():
    made = planned(ABC)
    assert made.root.output == columns("A.x A.y A.z A.t B.x B.y B.z B.t C.x C.y C.z C.t")
    assert states(made)["join1"] == columns("A.x A.y A.z A.t B.x B.y B.z B.t")


def test_keys_are_not_kept_where_the_hash_decides():
    made = planned(ABC, "A.t")
    assert states(made) == {"A": columns("A.t"), "B": columns("B.y"), "join1": columns("A.t"), "C": ()}
    assert made.operator("join1").output == columns("A.t B.y")
    assert made.root.output == columns("A.t")


def test_keys_are_kept_where_the_hash_does_not_decide():
    made = planned(join(A, B, on="A.t = B.t"), "A.x")
    assert states(made) == {"A": columns("A.x A.t"), "B": columns("B.t")}


def test_a_query_that_only_counts_needs_no_columns():
    made = plan(Query(ABC, needed=()))
    assert made.root.output == ()
    assert states(made) == {"A": (), "B": columns("B.y"), "join1": (), "C": ()}
    assert plan(Query(ABC, needed=("1 AS one",))).root.output == ()


def test_filters_keep_what_they_read_as_far_up_as_they_are():
    made = planned(FilterNode(ABC, "A.z > B.z AND A.x > C.x AND A.y > 1"), "B.t")
    assert made.operator("join1").output == columns("A.x A.z B.y B.z B.t")
    assert states(made) == {
        "A": columns("A.x A.z"),
        "B": columns("B.y B.z B.t"),
        "join1": columns("A.x B.t"),
        "C": columns("C.x"),
    }
    assert made.root.output == columns("A.x B.t C.x")


def test_computed_keys_are_made_from_the_output_below():
    a, c = stream("A", x=LONG, n=INT, t=TEXT), stream("C", n=LONG, t=TEXT)
    made = planned(join(join(a, B, on="A.x = B.x"), c, on="A.n = C.n AND A.t = C.t"), "B.z")
    assert made.operator("join1").output == columns("A.n A.t B.z")
    assert states(made)["join1"] == columns("A.t B.z A.#join2.0")
    assert states(made)["A"] == columns("A.n A.t")
    assert made.types[Column("A", "#join2.0")] == LONG


def test_columns_keep_the_order_of_streams_and_fields():
    made = planned(join(B, A, on="A.x = B.x"), "A.t", "A.x", "B.z", "B.x")
    assert made.root.output == columns("B.x B.z A.x A.t")


def test_needed_expressions_and_stars_are_understood():
    made = planned(join(A, B, on="A.x = B.x"), "concat(a.T, 'x') AS s", "B.*")
    assert made.root.output == columns("A.t B.x B.y B.z B.t")


def test_types_are_known_and_canonical_for_every_column():
    odd = stream("A", x=LONG, t=pa.large_string(), at=pa.timestamp("ns", tz="Asia/Tokyo"))
    made = planned(join(odd, B, on="A.x = B.x"))
    assert made.types[Column("A", "t")] == TEXT
    assert made.types[Column("A", "at")] == pa.timestamp("us", tz="UTC")
    used = {column for operator in made.operators for source in operator.inputs for column in source.state}
    assert used | set(made.root.output) <= set(made.types)


def test_streams_keep_the_schema_they_were_given():
    odd = stream("A", x=LONG, t=pa.large_string())
    assert planned(join(odd, B, on="A.x = B.x")).stream("A").schema == odd.schema
