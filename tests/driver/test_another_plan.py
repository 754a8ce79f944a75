"""A query goes on with another plan from one step to the next: the plan is a value in the manifest."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from msgspec.structs import replace
from tests.support.in_process import InProcess, Killed
from tests.support.oracle import difference, joined, multiset
from tests.support.plans import CONDITIONS, NEEDED, SCHEMA, lower_first, upper_first

from watersmeet.adapt.moving.distribution import even
from watersmeet.adapt.policy import MemoryOptions
from watersmeet.model.errors import CheckpointCorruptError, CheckpointMismatchError
from watersmeet.planning.group_columns import traced
from watersmeet.state.changes import ReplacePlan
from watersmeet.state.event_log import EventLog
from watersmeet.state.events import Operators, ReplanEvent
from watersmeet.state.versions import VersionStore
from watersmeet.storage.local import LocalStorage

STREAMS = ("A", "B", "C")
LIMITED = MemoryOptions(budget_bytes=1_000, strategy="random", fraction=0.3, seed=1)
OTHER = traced(upper_first())


def rows(seed, count):
    rng = np.random.default_rng(seed)
    keys = rng.integers(0, 6, (2, count))
    return pa.table({"k": keys[0], "m": keys[1], "id": np.arange(count) + seed * 100}, schema=SCHEMA)


def batch(seed, count=12):
    return {name: rows(seed * 10 + number, count) for number, name in enumerate(STREAMS)}


def another_plan(query):
    routing = {operator.id: even(query.groups, query.sites) for operator in OTHER.operators}
    before = tuple(operator.id for operator in query.manifest.plan.operators)
    return ReplacePlan(OTHER, routing, "C yields less", before)


def plain(results):
    names = [text.split(".") for text in NEEDED]
    columns = [pa.compute.struct_field(results.column(stream), field) for stream, field in names]
    return multiset(pa.table(columns, names=list(NEEDED)))


def expected(batches):
    tables = {name: [each[name] for each in batches] for name in STREAMS}
    return joined(tables, CONDITIONS, ", ".join(NEEDED))


def goes_on_exactly(query, seeds=(1, 2, 3, 4)):
    """Rows from now on are joined exactly; what is spilled is cleaned at the end."""
    got, batches = Counter(), [batch(seed) for seed in seeds]
    for each in batches:
        got += plain(query.epoch(each))
    for level in range(2):
        operators = tuple(operator.id for operator in query.manifest.plan.levels[level])
        while any(query.manifest.spilled(name) for name in operators):
            got += plain(query.clean("end", None, level))
    assert got == expected(batches), difference(got, expected(batches))
    return True


@pytest.fixture(params=[MemoryOptions(), LIMITED], ids=["any memory", "a budget"])
def query(request, tmp_path):
    """A query that has had three epochs, without rows."""
    made = InProcess(lower_first(), str(tmp_path), options=request.param)
    for _ in range(3):
        made.epoch(batch(0, count=0))
    return made


def test_the_plans_differ_and_answer_the_same_query(query, tmp_path):
    assert [operator.id for operator in query.manifest.plan.operators] == ["join1", "join2"]
    assert [[source.name for source in each.inputs] for each in OTHER.operators] == [["B", "C"], ["join3", "A"]]
    assert goes_on_exactly(query)
    assert goes_on_exactly(InProcess(upper_first(), str(tmp_path / "other"), options=query.options))


def test_a_step_can_have_another_plan_than_the_one_before(query):
    query.loop.stepper.adapt([another_plan(query)])
    assert goes_on_exactly(query)
    assert set(query.manifest.operators) == {"join3", "join4"}
    assert {run.operator for run in query.manifest.runs.values()} == {"join3", "join4"}


def test_another_plan_is_an_event(query):
    query.loop.stepper.adapt([another_plan(query)])
    query.epoch(batch(1))
    event, *_ = EventLog(query.loop.stepper.checkpoint.store).all()
    assert event == ReplanEvent(3, "C yields less", Operators(("join1", "join2")), Operators(("join3", "join4")))


def test_a_version_of_nothing_but_another_plan_is_gone_on_from(query):
    query.loop.stepper.commit_adaptations([another_plan(query)])
    assert set(query.manifest.operators) == {"join3", "join4"}
    assert goes_on_exactly(query)


def test_a_driver_that_is_killed_right_after_the_change_is_gone_on_from_with_the_query_as_it_was_written(query):
    query.loop.stepper.adapt([another_plan(query)])

    def reach(point, _):
        if point == "after-commit":
            raise Killed

    query.loop.stepper.reach = reach
    first = batch(9)
    with pytest.raises(Killed):
        query.epoch(first)
    got = plain(query.runner.results[3])
    query.recover()
    assert query.manifest.plan == OTHER
    assert query.drivers == 2
    batches = [first, batch(1), batch(2)]
    for each in batches[1:]:
        got += plain(query.epoch(each))
    while query.is_missing:
        level = query.manifest.plan.levels[0]
        lower = any(query.manifest.spilled(operator.id) for operator in level)
        got += plain(query.clean("end", None, 0 if lower else 1))
    assert got == expected(batches), difference(got, expected(batches))


def test_a_driver_that_is_killed_before_the_change_is_committed_goes_on_with_the_plan_there_was(query):
    query.loop.stepper.adapt([another_plan(query)])
    query.attempt(batch(1))
    assert set(query.manifest.operators) == {"join1", "join2"}
    assert goes_on_exactly(query)


def test_every_later_driver_goes_on_with_the_other_plan(query):
    query.loop.stepper.adapt([another_plan(query)])
    for _ in range(3):
        query.epoch(batch(0, count=0))
        query.recover()
        assert query.manifest.plan == OTHER
    assert goes_on_exactly(query)


def test_operators_that_have_state_cannot_be_left_out(query):
    query.epoch(batch(1))
    query.loop.stepper.adapt([another_plan(query)])
    with pytest.raises(CheckpointCorruptError, match="no slice names run"):
        query.epoch(batch(2))


def test_a_plan_that_is_taken_back_is_the_one_the_query_was_written_with(query):
    query.loop.stepper.commit_adaptations([another_plan(query)])
    first = query.plan
    routing = {operator.id: even(query.groups, query.sites) for operator in first.operators}
    query.loop.stepper.commit_adaptations([ReplacePlan(first, routing, "C yields more")])
    assert (query.manifest.plan, query.manifest.original) == (first, None)
    assert goes_on_exactly(query)


def test_another_query_is_refused_as_ever(query):
    query.loop.stepper.commit_adaptations([another_plan(query)])
    for other in (traced(lower_first((*NEEDED, "C.k"))), OTHER):
        query.plan = other
        with pytest.raises(CheckpointMismatchError, match=r"belongs to another query: stream . keeps"):
            query.recover()


def narrowed(plan):
    *below, root = plan.operators
    return replace(plan, operators=(*below, replace(root, filters=("`A`.`id` > 5",))))


def test_another_output_is_taken_up_with_the_plan_that_was_written_and_refused_with_another(query):
    written = query.plan
    query.plan = narrowed(written)
    query.recover()
    query.epoch(batch(0, count=0))
    assert (query.manifest.plan, query.manifest.original) == (query.plan, None)
    query.loop.stepper.commit_adaptations([another_plan(query)])
    query.plan = written
    with pytest.raises(CheckpointMismatchError, match="its output has changed, and it goes on with another plan"):
        query.recover()
    query.plan = narrowed(written)
    query.recover()
    assert query.manifest.plan == OTHER


def test_what_was_written_is_told_apart_from_what_is_carried_out_in_storage(query):
    query.loop.stepper.commit_adaptations([another_plan(query)])
    found = VersionStore(LocalStorage(f"{query.folder}/state")).latest()
    assert (found.plan, found.written) == (OTHER, query.plan)
