"""The public test harness: epochs by hand, crashes on purpose, unreliable storage."""

from watersmeet.driver.switches import thrown
from watersmeet.site.crash import CLEANUP_POINTS, DRIVER_POINTS, WORKER_POINTS, CrashPlan
from watersmeet.testing.replay import replay

__all__ = ["CLEANUP_POINTS", "DRIVER_POINTS", "WORKER_POINTS", "CrashPlan", "replay", "thrown"]
