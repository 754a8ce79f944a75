"""Which changed queries the state of the old one can serve."""

import pyarrow as pa
import pytest

from watersmeet.model.errors import UnsupportedError
from watersmeet.model.query import FilterNode, JoinNode, Query, StreamNode
from watersmeet.planning import plan
from watersmeet.planning.describe import fingerprint
from watersmeet.planning.restart import continued
from watersmeet.planning.unkept import refuse_unkept, unkept_field

SCHEMA = pa.schema([("id", pa.int64()), ("x", pa.int64()), ("t", pa.string())])
A, B, C = (StreamNode(name, SCHEMA) for name in "ABC")


def planned(needed, where=(), on="A.id = B.id", streams=(A, B)):
    node = JoinNode(streams, on)
    for condition in where:
        node = FilterNode(node, condition)
    return plan(Query(node, tuple(needed)))


OLD = planned(["A.x", "A.t", "B.x"], ["A.x > 3", "B.t IN ('p', 'q')"])


@pytest.mark.parametrize(
    ("needed", "where", "filters"),
    [
        (["A.x"], ["A.x > 3", "B.t IN ('p', 'q')"], ()),
        (["A.x + 1"], ["A.x > 3", "B.t IN ('p', 'q')"], ()),
        (["A.x"], ["A.x > 3", "B.t IN ('p', 'q')", "A.t = 'z'"], ("`A`.`t` = 'z'",)),
        (["A.x"], ["A.x > 5", "B.t IN ('p', 'q')"], ("`A`.`x` > 5",)),
        (["A.x"], ["A.x = 5", "B.t IN ('p', 'q')"], ("`A`.`x` = 5",)),
        (["A.x"], ["A.x >= 4", "B.t IN ('p', 'q')"], ("`A`.`x` >= 4",)),
        (["A.x"], ["A.x > 3", "B.t IN ('p', 'q')", "A.x < B.x"], ("`A`.`x` < `B`.`x`",)),
    ],
)
def test_less_is_served(needed, where, filters):
    made = continued(OLD, planned(needed, where))
    assert made is not None
    assert fingerprint(made) == fingerprint(OLD)
    assert made.root.filters == filters
    assert made.root.output == OLD.root.output


@pytest.mark.parametrize(
    "new",
    [
        planned(["A.x", "B.id"], ["A.x > 3", "B.t IN ('p', 'q')"]),
        planned(["A.x"], ["B.t IN ('p', 'q')"]),
        planned(["A.x"], ["A.x > 2", "B.t IN ('p', 'q')"]),
        planned(["A.x"], ["A.x >= 3", "B.t IN ('p', 'q')"]),
        planned(["A.x"], ["A.x < 9", "B.t IN ('p', 'q')"]),
        planned(["A.x"], ["A.x > B.x", "B.t IN ('p', 'q')"]),
        planned(["A.x"], ["A.x > 3", "B.t IN ('p', 'r')"]),
        planned(["A.x"], ["A.x > 3", "B.t = 'p'"]),
        planned(["A.x"], ["A.x > 3", "B.t IN ('p', 'q')"], on="A.id = B.x"),
        planned(["A.x"], ["A.x > 3", "B.t IN ('p', 'q')"], on="A.id = B.id AND B.id = C.id", streams=(A, B, C)),
        planned(["A.x"], ["A.x > 3", "B.t IN ('p', 'q')", "A.id > 7"]),
    ],
)
def test_more_is_not(new):
    assert continued(OLD, new) is None


@pytest.mark.parametrize(
    ("old", "new", "is_stricter"),
    [
        ("A.x < 5", "A.x < 3", True),
        ("A.x < 5", "A.x <= 5", False),
        ("A.x <= 5", "A.x <= 5.0", True),
        ("A.x <= 5", "A.x IN (1, 5)", True),
        ("A.x <= 5", "A.x IN (1, 6)", False),
        ("A.x IN (1, 2, 3)", "A.x = 2", True),
        ("A.x IN (1, 2, 3)", "A.x > 1", False),
        ("A.x > 3", "B.x > 5", False),
    ],
)
def test_a_comparison_with_a_number_is_stricter_or_not(old, new, is_stricter):
    made = continued(planned(["A.x", "B.x"], [old]), planned(["A.x", "B.x"], [new]))
    assert (made is not None) is is_stricter


def test_a_column_that_cannot_be_kept_is_refused_only_where_it_would_be():
    odd = StreamNode("A", SCHEMA.append(unkept_field("v", "variant", "it has no Arrow type", "leave it out")))
    for needed, where in ((["A.x"], ()), (["A.x"], ["is_variant_null(A.v)"])):
        refuse_unkept(planned(needed, where, streams=(odd, B)))
    with pytest.raises(UnsupportedError, match=r"A\.v has type variant: it has no Arrow type"):
        refuse_unkept(planned(["A.v"], streams=(odd, B)))
