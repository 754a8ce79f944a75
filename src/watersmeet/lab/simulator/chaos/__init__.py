"""Chaos: whole runs of queries under the shipped driver, in which all goes wrong that can, drawn from a seed.

    query       plans and streams, and the results they must have
    records     rows as counts, and the files they are stored in
    tasks       site tasks that join counts: they read and write real files, and tell real effects
    cluster     executors that come and go, and are slow at times
    schedule    what goes wrong, and when
    mishaps     how each of it goes wrong
    world       one run of a query: a driver after the other on one checkpoint
    judge       what has to hold of it
    run         schedules by the thousand

The driver, its policies, the checkpoint with its versions, and garbage collection are the shipped ones; storage is a
folder. Only what makes a join a join is replaced: rows are counted by key. So a schedule takes some hundredths of a
second, and the same seed gives the same schedule.
"""

from watersmeet.lab.simulator.chaos.run import Told, chaos, run_schedule
from watersmeet.lab.simulator.chaos.schedule import Schedule, draw
from watersmeet.lab.simulator.chaos.tasks import ChaosError

__all__ = ["ChaosError", "Schedule", "Told", "chaos", "draw", "run_schedule"]
