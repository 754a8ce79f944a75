"""Kill the driver at every point of every step, without Spark: what readers of the folders see is right, once."""

import random
import threading
from collections import Counter
from contextlib import nullcontext
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from tests.crash.variants import EPOCHS, KINDS, WAYS, WITH_BUDGET, WITH_MOVES, Variant, batches, expected, rejected
from tests.support.disturbing import disturbed
from tests.support.in_process import InProcess, Killed
from tests.support.oracle import difference, multiset

from watersmeet.adapt.policy import MemoryOptions
from watersmeet.driver.topology import Topology
from watersmeet.driver.upkeep import Upkeep
from watersmeet.planning import plan
from watersmeet.site.result_files import ResultFormat

Moment = tuple[str, int]
"""A point, and the version that is the last one then."""

SEEDS = [
    WAYS * kind + budget + moves
    for kind in range(len(KINDS))
    for budget in (0, WITH_BUDGET)
    for moves in (0, WITH_MOVES)
]


class Run:
    """The query of a seed, which is killed at one moment and started again."""

    def __init__(self, folder: Path, seed: int, kill_at: Moment | None = None) -> None:
        self.folder, self.variant, self.batches = folder, Variant.of(seed), batches(seed)
        self.kill_at, self.moments = kill_at, list[Moment]()
        plan_ = plan(self.variant.query(self.batches[0]["A"].schema))
        self.query = InProcess(
            plan_,
            str(folder / "checkpoint"),
            options=MemoryOptions(budget_bytes=1000 if self.variant.with_budget else None),
            files=ResultFormat(str(folder / "out"), Topology(plan_).row_schema(), query="query"),
            rejected_path=str(folder / "rejected"),
        )
        while not self._is_over():
            self.query.recover()

    def _is_over(self) -> bool:
        """One driver from its start; False if it was killed."""
        query = self.query
        query.loop.stepper.reach = self._reach
        upkeep = Upkeep(query.loop, lambda: True, threading.Event(), self.variant.ends_input)
        try:
            if query.offsets.last >= 0:  # Spark hands over again what it does not know to be finished
                query.loop.batch(self.batches[query.offsets.last], query.offsets.last)
            for number in range(query.offsets.last + 1, len(self.batches)):
                query.offsets.last = number
                query.loop.batch(self.batches[number], number)
            upkeep.at_end()
        except Killed:
            return False
        query.loop.close()
        return True

    def _reach(self, point: str, version: int) -> None:
        self.moments.append((point, version))
        if self.moments.count((point, version)) == 1 and (point, version) == self.kill_at:
            raise Killed

    @property
    def results(self) -> Counter[str]:
        rows = _read(self.folder / "out").flatten().flatten()
        is_grouped = self.variant.kind == "aggregate"
        names = [f"aggregate1.{name}" for name in ("k", "window.start", "n", "total")]
        return multiset(rows.select(names if is_grouped else ["A.id", "B.id", "C.id", "A.k"]))

    @property
    def rejected(self) -> Counter[tuple[str, int, str]]:
        rows = _read(self.folder / "rejected").to_pylist()
        return Counter((row["stream"], row["epoch"], row["reason"]) for row in rows)


def _read(folder: Path):
    return ds.dataset(sorted(map(str, folder.glob("*.parquet")))).to_table()


def check(folder: Path, seed: int, kill_at: Moment | None) -> Run:
    with disturbed(seed) if seed >= WITH_MOVES else nullcontext():
        run = Run(folder, seed, kill_at)
    got, wanted = run.results, expected(seed)
    assert got == wanted, f"{kill_at}: {difference(got, wanted)}"
    if run.variant.times or run.variant.promises:
        assert run.rejected == rejected(seed), kill_at
    return run


def kill_at_some(folder: Path, seed: int, most: int | None) -> None:
    """Kill the driver at all moments that a run passes, or at some of them, each time in a run of its own."""
    moments = sorted(set(check(folder / "whole", seed, None).moments))
    assert len(moments) >= 6 * EPOCHS
    for number, moment in enumerate(moments if most is None else random.Random(seed).sample(moments, most)):
        check(folder / str(number), seed, moment)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_killed_driver_loses_and_repeats_nothing(tmp_path, seed):
    kill_at_some(tmp_path, seed, 2)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_a_driver_killed_at_any_point_of_any_step_loses_and_repeats_nothing(tmp_path, seed):
    kill_at_some(tmp_path, seed, None)
