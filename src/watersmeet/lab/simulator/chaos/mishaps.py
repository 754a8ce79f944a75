"""What goes wrong before an epoch, by its kind (`watersmeet.lab.simulator.chaos.schedule`)."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from watersmeet.adapt.policy import Moment
from watersmeet.lab.simulator.chaos.schedule import BUDGETS, SITES_MOST, Mishap
from watersmeet.lab.simulator.chaos.tasks import ChaosError
from watersmeet.lab.simulator.chaos.world import TORN, Killed, World
from watersmeet.model.errors import CheckpointCorruptError, CheckpointInUseError, StorageError
from watersmeet.state.versions import path_of

POINTS = ("epoch-start", "before-sink", "after-sink", "before-commit", "after-commit", "cleanup-start")
CALLED = {"before-commit": "lost commit", "after-commit": "repeated commit"}
CLEANUPS: tuple[Moment, ...] = ("idle", "asked", "drain")


def happens(world: World, mishap: Mishap) -> None:
    """Let it happen."""
    world.happened[mishap.kind] += 1
    MISHAPS[mishap.kind](world, mishap)


def _slow(world: World, mishap: Mishap) -> None:
    until = mishap.epoch + 1 + mishap.among(10)
    world.executors.slow[mishap.among(world.manifest.sites)] = (2.0 + 6.0 * mishap.lot, until)


def _lose(world: World, mishap: Mishap) -> None:
    world.executors.lose(mishap.among(len(world.executors.names)))


def _join(world: World, _: Mishap) -> None:
    world.executors.join()


def _kill(world: World, mishap: Mishap) -> None:
    """At one of the next times that the driver comes to a point."""
    point = POINTS[mishap.among(len(POINTS))]
    world.happened[CALLED.get(point, f"killed at {point}")] += 1
    world.deadly = (point, world.chance.choice([0, 0, 1, 2]))


def _torn_version(world: World, _: Mishap) -> None:
    world.deadly = (f"{TORN}before-commit", 0)


def _torn_run(world: World, mishap: Mishap) -> None:
    world.runner.torn["run"] = 1 + mishap.among(5)


def _torn_effects(world: World, mishap: Mishap) -> None:
    world.runner.torn["effects"] = 1 + mishap.among(3)


def _damaged_version(world: World, mishap: Mishap) -> None:
    _damaged(world, path_of(world.manifest.version), mishap)


def _damaged_run(world: World, mishap: Mishap) -> None:
    runs = sorted(world.manifest.runs.values(), key=lambda run: run.id)
    if runs:
        _damaged(world, runs[mishap.among(len(runs))].path, mishap)


def _damaged(world: World, path: str, mishap: Mishap) -> None:
    """What is cut is refused; once it is there again, the query goes on."""
    world.loop.close()
    file = world.file(path)
    whole = file.read_bytes()
    file.write_bytes(whole[: int(mishap.lot * len(whole))])
    try:
        world.start()
    except CheckpointCorruptError:
        file.write_bytes(whole)
        world.start()
    else:
        raise ChaosError(f"{path} is cut, and nobody noticed")


def _full(world: World, mishap: Mishap) -> None:
    world.full = 1 + mishap.among(5)
    world.restart()


def _flaky(world: World, mishap: Mishap) -> None:
    world.failing = 1 + mishap.among(8)
    world.restart()


def _taken_over(world: World, mishap: Mishap) -> None:
    """Its lock is gone with its host, and it does not know yet."""
    old, given = world.loop, list(world.results)
    old.stepper.checkpoint.close()
    world.start()
    try:
        old.batch(world.batches[mishap.epoch], mishap.epoch)
    except (CheckpointInUseError, StorageError, Killed):
        if given == list(world.results):
            return
    raise ChaosError("a driver went on that another had taken over from")


def _clean(world: World, mishap: Mishap) -> None:
    """Some steps of cleanup: nothing is cleaned before a batch that was planned."""
    moment = CLEANUPS[mishap.among(len(CLEANUPS))]
    for _ in range(1 + mishap.among(4)):
        world.tried(lambda: world.loop.may_clean() and world.loop.clean(moment))


def _restart(world: World, mishap: Mishap) -> None:
    world.memory = replace(world.memory, budget_bytes=BUDGETS[mishap.among(len(BUDGETS))])
    world.sites = 1 + world.chance.randrange(SITES_MOST)
    world.restart()


MISHAPS: Mapping[str, Callable[[World, Mishap], None]] = {
    "slow": _slow,
    "lose": _lose,
    "join": _join,
    "kill": _kill,
    "torn version": _torn_version,
    "torn run": _torn_run,
    "torn effects": _torn_effects,
    "damaged version": _damaged_version,
    "damaged run": _damaged_run,
    "full": _full,
    "flaky": _flaky,
    "taken over": _taken_over,
    "clean": _clean,
    "restart": _restart,
}
