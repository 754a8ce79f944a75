"""What was spilled lies in few runs: their number follows that of generations, not of epochs."""

import numpy as np
import pyarrow as pa
from tests.support.in_process import InProcess
from tests.support.states import two_way_plan

from watersmeet.adapt.merging import choice as merging
from watersmeet.adapt.merging.choice import CLOSED_FAN_IN, FAN_IN
from watersmeet.adapt.policy import MemoryOptions
from watersmeet.state.manifest import LIVE

INPUTS = ("A", "B")
BUDGET_BYTES = 60_000


def query_within(folder, strategy):
    options = MemoryOptions(budget_bytes=BUDGET_BYTES, strategy=strategy, fraction=0.3, seed=1)
    return InProcess(two_way_plan(), str(folder), sites=1, options=options)


def test_a_closed_generation_lies_in_few_runs_of_each_input(tmp_path):
    query = query_within(tmp_path, "random")
    rng = np.random.default_rng(1)
    for _ in range(80):
        query.epoch({name: pa.table({"k": rng.integers(0, 50, 60), "v": np.arange(60)}) for name in INPUTS})
    [state] = query.manifest.operators.values()
    closed = {part.generation for part in state.slices} - {LIVE}
    assert len(closed) > 5
    latest = max(closed)  # there was no epoch yet to merge it in
    for generation in closed - {latest}:
        runs = [query.manifest.runs[part.run] for part in state.slices if part.generation == generation]
        assert max(sum(run.input == name for run in runs) for name in INPUTS) < CLOSED_FAN_IN
    assert len(query.manifest.runs) <= len(INPUTS) * (len(closed) * (CLOSED_FAN_IN - 1) + 3 * FAN_IN)


def test_live_runs_of_which_little_is_left_are_merged_however_large_their_files_are(tmp_path, monkeypatch):
    """The limit of a merge is below eight files, and far above what is live of them after spills."""
    query = query_within(tmp_path, "local-output")
    rng = np.random.default_rng(1)

    def rows(name, epoch):
        """A few keys that yield, and many new ones that never do."""
        good = rng.integers(0, 3, 10)
        bad = np.arange(300) + (epoch * 10_000 if name == "A" else -epoch * 10_000 - 10**9)
        return pa.table({"k": np.concatenate([good, bad]), "v": np.arange(310)})

    query.epoch({name: rows(name, 0) for name in INPUTS})
    file_bytes = max(run.bytes for run in query.manifest.runs.values())
    monkeypatch.setattr(merging, "MERGED_LIMIT_BYTES", FAN_IN * file_bytes // 2)
    for epoch in range(1, 60):
        query.epoch({name: rows(name, epoch) for name in INPUTS})
    [state] = query.manifest.operators.values()
    live = [query.manifest.runs[part.run].input for part in state.slices if part.generation == LIVE]
    assert max(live.count(name) for name in INPUTS) < 2 * FAN_IN
