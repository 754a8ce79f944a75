"""While input never pauses, generations stay few, those of groups that miss results and those of groups that do not."""

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from msgspec.structs import replace
from tests.support.in_process import InProcess
from tests.support.oracle import joined, multiset
from tests.support.states import JOIN, empty_manifest, holding, part, run_file, two_way_plan

from watersmeet.adapt.policy import MemoryOptions, View
from watersmeet.driver.coordinator import Coordinator
from watersmeet.model.ids import Version
from watersmeet.state.applying import apply
from watersmeet.state.changes import UniteGenerations
from watersmeet.state.groups import GroupSet

EPOCHS, ROWS, MAX = 200, 8, 4


def again(rng, epoch):
    """Keys that come again and again."""
    del epoch
    return rng.integers(0, 30, ROWS)


def never_again(rng, epoch):
    """Keys that come once: most groups are spilled once and miss nothing."""
    del rng
    return np.arange(ROWS) + epoch * ROWS


def batches(keys):
    rng = np.random.default_rng(1)
    for epoch in range(EPOCHS):
        yield {name: pa.table({"k": keys(rng, epoch), "v": np.arange(ROWS) + epoch}) for name in "AB"}


def plain(results):
    return multiset(pa.table({f"{s}.{f}": pa.compute.struct_field(results.column(s), f) for s in "AB" for f in "kv"}))


@pytest.mark.long
@pytest.mark.parametrize(("keys", "groups"), [(again, 16), pytest.param(never_again, 1000, marks=pytest.mark.slow)])
def test_generations_runs_and_versions_stay_few_while_input_never_pauses_and_results_are_exact(keys, groups, tmp_path):
    options = MemoryOptions(budget_bytes=1_500, strategy="random", fraction=0.3, seed=1, generations_max=MAX)
    query = InProcess(two_way_plan(), str(tmp_path), groups, sites=1, options=options)
    tables, got, seen = {"A": [], "B": []}, Counter(), []
    for batch in batches(keys):
        got += plain(query.epoch(batch))
        for name, table in batch.items():
            tables[name].append(table)
        seen.append((len(query.manifest.generations(JOIN)), len(query.manifest.runs), folder_bytes(tmp_path)))
    generations, runs, sizes = (np.array(each) for each in zip(*seen, strict=True))
    assert generations.max() <= 2 * MAX
    assert len(query.loop.history.cleanup) > 5
    quarter = EPOCHS // 4
    assert runs[-quarter:].max() <= 1.2 * runs[quarter : 2 * quarter].max()
    assert sizes[-quarter:].max() <= 1.2 * sizes[quarter : 2 * quarter].max()
    while query.is_missing:
        got += plain(query.clean("end", None))
    assert got == joined(tables, ["A.k = B.k"])


def folder_bytes(checkpoint: Path) -> int:
    return sum(file.stat().st_size for file in (checkpoint / "state/manifest").iterdir())


def spilled_once(count):
    """As many generations, each of one group that misses nothing; and one group that does."""
    runs = [run_file(f"r{group}", group) for group in range(count)] + [run_file("again", 0)]
    parts = [part(f"r{group}", group, generation=group + 1) for group in range(count)]
    return replace(
        holding(empty_manifest(groups=16), runs, [*parts, part("again", 0, generation=9)]), version=Version(20)
    )


def united(manifest):
    decided = Coordinator.of(MemoryOptions(generations_max=MAX), 2, 1 << 30).decide(View("step", manifest))
    return [each for each in decided if isinstance(each, UniteGenerations)]


def test_groups_that_miss_nothing_become_one_generation_when_there_are_many():
    manifest = spilled_once(MAX)
    [change] = united(manifest)
    assert change.groups == GroupSet.of(range(1, MAX))
    after = apply(manifest, change)
    assert after.generations(JOIN) == {1: GroupSet.of([0]), 9: GroupSet.of([0]), 21: GroupSet.of(range(1, MAX))}
    assert after.spilled(JOIN) == manifest.spilled(JOIN)
    assert united(replace(after, version=Version(21))) == []


def test_few_generations_are_left_as_they_are():
    assert united(spilled_once(MAX - 1)) == []


def test_groups_that_are_one_generation_already_are_not_made_so_again():
    runs = [run_file(f"r{number}", 0, 1) for number in range(MAX)]
    parts = [part(f"r{number}", 0, generation=number + 1) for number in range(MAX)]
    whole = [part(f"r{number}", 1, generation=15) for number in range(MAX)]
    manifest = replace(holding(empty_manifest(groups=16), runs, [*parts, *whole]), version=Version(20))
    assert len(manifest.generations(JOIN)) == MAX + 1
    assert united(manifest) == []
