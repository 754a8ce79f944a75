"""What conditions cost and drop is kept from epoch to epoch, and decides in which order pairs are asked."""

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.support.in_process import InProcess

from watersmeet.driver.costs import cost_lines
from watersmeet.model.query import JoinNode, Query, StreamNode
from watersmeet.operators.costs import Cost, later
from watersmeet.planning import plan
from watersmeet.planning.predicates import predicate_name

SCHEMA = pa.schema({"k": pa.int64(), "v": pa.int64()})
FEW, MOST = predicate_name(1, "few"), predicate_name(2, "most")
ROWS = 30


class Asking:
    """Two functions that note for how many pairs they are asked in each epoch; the second drops nearly all."""

    def __init__(self) -> None:
        self.asked: dict[str, list[int]] = {"few": [], "most": []}

    @property
    def functions(self):
        return {FEW: (self.few, ("A.v", "B.v")), MOST: (self.most, ("A.v", "B.v"))}

    def few(self, left, right):
        self.asked["few"].append(len(left))
        return pc.greater_equal(pc.add(left, right), 0)

    def most(self, left, right):
        self.asked["most"].append(len(left))
        return pc.equal(left, right)

    def clear(self) -> dict[str, int]:
        done = {name: sum(each) for name, each in self.asked.items()}
        assert 0 not in [count for each in self.asked.values() for count in each]
        self.asked = {"few": [], "most": []}
        return done


def started(tmp_path, on: str, asking: Asking) -> InProcess:
    node = JoinNode(tuple(StreamNode(name, SCHEMA) for name in "AB"), on)
    return InProcess(plan(Query(node), endless=True), str(tmp_path), 4, 1, functions=asking.functions)


def rows(key: int, count: int = ROWS):
    table = pa.table({"k": [key] * count, "v": list(range(count))})
    return {"A": table, "B": table}


@pytest.mark.parametrize("equality", ["A.k = B.k AND ", ""], ids=["join", "ring"])
def test_an_epoch_of_few_pairs_asks_in_the_order_that_the_one_before_has_learned(tmp_path, equality):
    asking = Asking()
    query = started(tmp_path, f"{equality}{FEW}(A.v, B.v) AND {MOST}(A.v, B.v)", asking)
    query.epoch(rows(1))
    assert asking.clear()["few"] >= ROWS**2
    query.epoch(rows(2))
    done = asking.clear()
    assert done["few"] < 0.2 * done["most"]


@pytest.mark.parametrize("equality", ["A.k = B.k AND ", ""], ids=["join", "ring"])
def test_comparisons_are_asked_before_functions_and_functions_of_what_is_left(tmp_path, equality):
    asking = Asking()
    query = started(tmp_path, f"{equality}{FEW}(A.v, B.v) AND A.v <> B.v AND (A.v = 3 OR B.v = 2)", asking)
    query.epoch(rows(1))
    assert asking.clear()["few"] <= 2 * ROWS + 32


@pytest.mark.parametrize("equality", ["A.k = B.k AND ", ""], ids=["join", "ring"])
def test_a_function_is_never_asked_of_no_pairs(tmp_path, equality):
    asking = Asking()
    query = started(tmp_path, f"{equality}{FEW}(A.v, B.v) AND A.v <> B.v", asking)
    query.epoch(rows(1, count=1))
    query.epoch(rows(2, count=1))
    asking.clear()


def test_costs_are_told_in_the_order_of_asking(tmp_path):
    query = started(tmp_path, f"{FEW}(A.v, B.v) AND {MOST}(A.v, B.v)", Asking())
    query.epoch(rows(1))
    head, first, second = cost_lines(query.plan, query.loop.stepper.observer.costs)
    assert head == "conditions of join1, in the order in which pairs are asked"
    assert first.startswith("    most(A.v, B.v): ")
    assert first.endswith("ns a pair, 3.3 % pass")
    assert second.startswith("    few(A.v, B.v): ")


def test_older_steps_count_less_and_what_was_not_asked_stays():
    known = later([Cost(100, 100, 1.0), Cost(100, 0, 1.0)], [(Cost(100, 0, 1.0), Cost())])
    assert known[0].selectivity < 0.5
    assert known[1] == Cost(100, 0, 1.0)
