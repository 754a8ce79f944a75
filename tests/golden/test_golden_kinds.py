"""Checkpoints of queries of every kind, as they were written, are gone on with; `kinds` tells how they are made."""

import json
import shutil
from collections import Counter
from pathlib import Path

import pytest
from tests.golden.kinds import EPOCHS, KINDS, MORE, ended, make, opened, rows, told
from tests.support.oracle import difference

from watersmeet.adapt.policy import MemoryOptions
from watersmeet.cli.state import open_state
from watersmeet.state.event_log import EventLog
from watersmeet.state.events import ExpireEvent, MoveEvent, ParkEvent, SpillEvent, SplitEvent
from watersmeet.state.manifest import FORMAT

HERE = Path(__file__).parent / f"format{FORMAT}-kinds"


@pytest.fixture(params=["as it was written", "as it is written now"])
def golden(request, tmp_path):
    """Where the golden checkpoint of a kind is, to be gone on with."""

    def of(kind):
        folder = tmp_path / kind
        if request.param == "as it is written now":
            folder.mkdir()
            make(kind, folder)
            return folder
        return Path(shutil.copytree(HERE / kind, folder))

    return of


def undisturbed(kind, folder):
    """What the whole input gives without a budget and without a restart."""
    query = opened(kind, folder, options=MemoryOptions())
    parts = [told(query.epoch(rows(kind, epoch))) for epoch in range(EPOCHS + MORE)]
    return sum([*parts, ended(query)], start=Counter())


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_gone_on_with_and_results_are_those_of_an_undisturbed_run(golden, kind, tmp_path):
    folder = golden(kind)
    got = Counter(json.loads((folder / "so_far.json").read_text()))
    query = opened(kind, folder / "checkpoint", planned=EPOCHS - 1)
    for epoch in range(EPOCHS, EPOCHS + MORE):
        got += told(query.epoch(rows(kind, epoch)))
    query.recover()
    got += ended(query)
    expected = undisturbed(kind, tmp_path / "undisturbed")
    assert got == expected, difference(got, expected)
    assert got.total() > 30


@pytest.mark.parametrize("kind", KINDS)
def test_a_golden_checkpoint_has_spilled_split_and_parked_groups_and_tells_of_them(golden, kind):
    store, manifest = open_state(str(golden(kind) / "checkpoint"))
    states = manifest.operators.values()
    assert any(manifest.spilled(name) for name in manifest.operators)
    assert any(state.splits for state in states)
    assert any(state.parked for state in states)
    told = {type(event) for event in EventLog(store).all()}
    assert told >= {SpillEvent, ExpireEvent, MoveEvent, SplitEvent, ParkEvent}
