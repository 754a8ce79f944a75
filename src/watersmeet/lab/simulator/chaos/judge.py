"""What has to hold at the end of a run, whatever went wrong: found by looking at what is stored, and at the sink.

1. Every result was given once: as many of each key as a join of all rows has.
2. No rows are lost and none are there twice: the state holds, of every input, what has come for it.
3. Nothing is missing, and nothing is half done.
4. What is stored is what retained versions name, and nothing else.
"""

import numpy as np

from watersmeet.adapt.cleaning.policy import missing_groups
from watersmeet.lab.simulator.chaos.records import Records, read, together
from watersmeet.lab.simulator.chaos.tasks import ChaosError
from watersmeet.lab.simulator.chaos.world import World
from watersmeet.site import effects
from watersmeet.state import owner, runs
from watersmeet.state.invariants import check
from watersmeet.state.versions import VersionStore
from watersmeet.storage.local import LocalStorage


def judge(world: World) -> None:
    """Raise if anything does not hold."""
    check(world.manifest)
    _judge_results(world)
    _judge_state(world)
    if missing_groups(world.manifest) or world.manifest.cleaning is not None:
        raise ChaosError("results are missing at the end")
    _judge_files(world)


def _judge_results(world: World) -> None:
    expected = world.query.expected(world.batches)
    given = sum(world.results.values(), np.zeros_like(expected))
    if not np.array_equal(given, expected):
        raise ChaosError(f"{given.sum()} results were given, and there are {expected.sum()}")


def _judge_state(world: World) -> None:
    manifest, storage = world.manifest, LocalStorage(str(world.folder / "state"))
    for (operator, source), expected in world.query.contents(world.batches).items():
        parts = []
        for part in manifest.operators[operator].slices:
            run = manifest.runs[part.run]
            if run.input == source:
                rows = read(storage, run)
                parts.append(rows.within(part.groups.mask(manifest.groups)[rows.groups(manifest.groups)]))
        found = together(parts, world.query.keys)
        if not np.array_equal(found.table(*expected.shape), expected):
            raise ChaosError(f"{operator} holds {found.rows} rows of {source}, and {expected.sum()} have come")
        if not np.array_equal(found.values, Records.of(expected).values):
            raise ChaosError(f"{operator} holds other rows of {source} than have come")


def _judge_files(world: World) -> None:
    storage = LocalStorage(str(world.folder / "state"))
    store = VersionStore(storage)
    first, retained = store.recent(world.schedule.retained)
    named = {run.path for manifest in retained for run in manifest.runs.values()}
    _only("runs", storage.list(runs.FOLDER), named)
    _only("effects", storage.list(effects.FOLDER), set())
    if store.versions()[0] < first:
        raise ChaosError(f"version {store.versions()[0]} is kept, and none before {first} is needed")
    if len(storage.list(owner.FOLDER)) > owner.KEPT:
        raise ChaosError("marks of former drivers are kept")


def _only(what: str, found: list[str], named: set[str]) -> None:
    """What is there is what is named."""
    garbage, lost = sorted(set(found) - named), sorted(named - set(found))
    if garbage or lost:
        raise ChaosError(f"{len(garbage)} {what} are garbage, {len(lost)} are lost: {[*garbage, *lost][:2]}")
