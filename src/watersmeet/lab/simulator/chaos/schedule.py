"""What goes wrong in a run, and when: drawn from a seed, and nothing else.

| kind | what happens before an epoch's batch |
|---|---|
| slow | a site takes so many times as long for some epochs |
| lose, join | an executor dies, or comes |
| kill | the driver dies at a point of a step: before or after the sink got its results, before the commit, so that \
it is lost, or after it, so that the batch is given to the next driver again |
| torn version | the driver dies amid writing a version |
| torn run, torn effects | a task dies amid writing a file, and is repeated |
| damaged version, damaged run | the last version, or a run of it, is cut while no driver runs, and put back later |
| full | the disk is full for some tries |
| flaky | some calls of the storage fail, some of them after they were done |
| taken over | another driver takes the checkpoint, and this one tries to go on |
| clean | input pauses, or somebody asks for what is missing |
| restart | the next driver has another budget, or another number of sites |
"""

import random
from dataclasses import dataclass

from watersmeet.adapt.moving.policies import NAMES
from watersmeet.adapt.policy import MemoryOptions
from watersmeet.adapt.spilling import STRATEGIES
from watersmeet.lab.simulator.chaos.query import SHAPES

KINDS = (
    "slow",
    "lose",
    "join",
    "kill",
    "torn version",
    "torn run",
    "torn effects",
    "damaged version",
    "damaged run",
    "full",
    "flaky",
    "taken over",
    "clean",
    "restart",
)
OFTEN = ("kill",) * 3
"""What is drawn more often: there are several points at which a driver can die."""

SITES_MOST = 4
BUDGETS = (None, 400, 1500, 5000)
LEAST_EPOCHS, MOST_EPOCHS = 10, 24
LIKELY = 0.3
"""How likely it is that anything goes wrong before an epoch; then, it is that something else does, too."""


@dataclass(frozen=True)
class Mishap:
    """Something that happens before an epoch; what ``lot`` is, from 0 to 1, says where, how long and how much."""

    epoch: int
    kind: str
    lot: float

    def among(self, count: int) -> int:
        """A number below another.

        >>> Mishap(3, "lose", 0.5).among(3)
        1
        """
        return min(int(self.lot * count), count - 1)


@dataclass(frozen=True)
class Schedule:
    """A query, how it is run, and all that goes wrong."""

    seed: int
    shape: str
    epochs: int
    groups: int
    sites: int
    sites_follow: bool
    starts_uneven: bool
    memory: MemoryOptions
    adaptation: str
    is_hasty: bool
    retained: int
    mishaps: tuple[Mishap, ...]

    def before(self, epoch: int) -> list[Mishap]:
        """What happens before an epoch."""
        return [each for each in self.mishaps if each.epoch == epoch]

    def __str__(self) -> str:
        about = f"{self.shape}, {self.sites} sites, {self.groups} groups, budget {self.memory.budget_bytes}"
        told = ", ".join(f"{each.epoch}: {each.kind} {each.lot:.2f}" for each in self.mishaps)
        return f"seed {self.seed}: {about}, {self.adaptation}; {told}"


def draw(seed: int) -> Schedule:
    """The schedule of a seed.

    >>> draw(7) == draw(7) != draw(8)
    True
    """
    chance = random.Random(seed)
    epochs = chance.randint(LEAST_EPOCHS, MOST_EPOCHS)
    return Schedule(
        seed,
        shape=chance.choice(sorted(SHAPES)),
        epochs=epochs,
        groups=chance.choice([4, 12, 30]),
        sites=chance.randint(1, SITES_MOST),
        sites_follow=chance.choice([True, False, False]),
        starts_uneven=chance.choice([True, False, False]),
        memory=draw_memory(chance),
        adaptation=chance.choice(NAMES),
        is_hasty=chance.choice([True, True, False]),
        retained=chance.choice([1, 2, 10]),
        mishaps=tuple(draw_mishaps(epochs, chance)),
    )


def draw_memory(chance: random.Random) -> MemoryOptions:
    """Some budget, mostly too small, and how to keep to it."""
    return MemoryOptions(
        chance.choice(BUDGETS),
        chance.choice(sorted(STRATEGIES)),
        chance.choice([0.1, 0.3, 1.0]),
        chance.randrange(2**16),
        generations_max=chance.choice([1, 4, 64]),
    )


def draw_mishaps(epochs: int, chance: random.Random) -> list[Mishap]:
    """All that goes wrong, in order."""
    found = []
    for epoch in range(epochs):
        while chance.random() < LIKELY:
            found.append(Mishap(epoch, chance.choice([*KINDS, *OFTEN]), chance.random()))
    return found
