"""Spark weighs Arrow batches row by row only where rows may be large, and as the user has asked for."""

import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.model.ids import InputName, OperatorId, RunId
from watersmeet.model.plan import Plan
from watersmeet.runners.spark.batch_limit import LIMIT, ROWS, UNLIMITED, BatchLimit
from watersmeet.state.groups import GroupSet
from watersmeet.state.manifest import Manifest, RunFile

pytestmark = pytest.mark.spark

PLAN = Plan((), (), ())


def manifest(row_bytes: int) -> Manifest:
    run = RunFile(RunId("r"), "r", OperatorId("join1"), InputName("A"), GroupSet.of([0]), 10, 10 * row_bytes, 0)
    return Manifest("query", PLAN, 1, 1, {}, runs={run.id: run})


@pytest.fixture
def session(spark):
    return spark.newSession()


def test_the_limit_is_lifted_for_small_rows_and_comes_back_for_large_ones(session):
    limit, default = BatchLimit.of(session), session.conf.get(LIMIT)
    limit.adjust(Manifest("query", PLAN, 1, 1, {}), may_lift=True)
    assert session.conf.get(LIMIT) == default, "nothing is known of the rows yet"
    limit.adjust(manifest(row_bytes=100), may_lift=True)
    assert session.conf.get(LIMIT) == UNLIMITED
    limit.adjust(manifest(row_bytes=100_000), may_lift=True)
    assert session.conf.get(LIMIT) == default
    limit.adjust(manifest(row_bytes=100), may_lift=False)
    assert session.conf.get(LIMIT) == default


def test_a_session_that_is_left_has_its_limit_again(session):
    default = session.conf.get(LIMIT)
    for _ in range(2):  # the second would take what the first has set for the user's
        limit = BatchLimit.of(session)
        limit.adjust(manifest(row_bytes=100), may_lift=True)
        assert session.conf.get(LIMIT) == UNLIMITED
        limit.restore()
        assert session.conf.get(LIMIT) == default


@pytest.mark.parametrize(("name", "value"), [(LIMIT, "1000000"), (ROWS, "0")])
def test_what_a_user_has_set_stays(session, name, value):
    session.conf.set(name, value)
    before = session.conf.get(LIMIT)
    BatchLimit.of(session).adjust(manifest(row_bytes=100), may_lift=True)
    assert session.conf.get(LIMIT) == before


def limits_of_epochs(rows: wm.Relation, field: str) -> list[str]:
    """What the limit was when each epoch's rows were asked for, first to last."""
    seen: dict[int, str] = {}

    def note(batch, epoch):
        batch.select(field).collect()
        seen[epoch] = batch.sparkSession.conf.get(LIMIT)

    query = rows.writeStream.foreachBatch(note).trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    return [limit for _, limit in sorted(seen.items())]


@pytest.mark.long
def test_a_run_begins_with_the_limit_and_keeps_it_for_parcels(spark):
    parts, default = [pa.table({"k": range(20)})] * 3, spark.conf.get(LIMIT)
    flow = wm.Flow(spark)
    a, b, c = (flow.stream(name, wm.testing.replay(spark, parts)) for name in "ABC")
    one_level, two_levels = a.join(b, on="A.k = B.k"), a.join(b, on="A.k = B.k").join(c, on="B.k = C.k")
    assert limits_of_epochs(one_level, "A.k") == [default, UNLIMITED, UNLIMITED]
    assert limits_of_epochs(two_levels, "A.k") == [default, UNLIMITED, UNLIMITED], "no parcels on the shortcut"
    with wm.testing.thrown(shortcut=False):
        assert limits_of_epochs(two_levels, "A.k") == [default, default, default]
    assert spark.conf.get(LIMIT) == default
