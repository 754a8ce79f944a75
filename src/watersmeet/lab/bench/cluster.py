"""The three-way and the five-way join on a cluster: two real executors of one core each, and an exchange in between.

In-heap is the quickest store Spark has. The first epoch is told apart: it has a cold JVM in every process.
"""

from dataclasses import replace

from watersmeet.lab.bench import fiveway, threeway
from watersmeet.lab.bench.report import Comparison
from watersmeet.lab.bench.suite import Judgement, Outcomes, Size, Suite, gain, same_results

FAMILY = "cluster"


def judge_threeway(size: Size, outcomes: Outcomes) -> Judgement:
    """Whole run, and all epochs but the first together."""
    return _gains(outcomes, whole_at_least=3.5, later_at_least=6), [threeway.all_results(size, outcomes)]


def judge_fiveway(_: Size, outcomes: Outcomes) -> Judgement:
    """The same; no figure is promised."""
    return _gains(outcomes), [same_results(outcomes)]


def _gains(
    outcomes: Outcomes, whole_at_least: float | None = None, later_at_least: float | None = None
) -> list[Comparison]:
    ours, theirs = outcomes["watersmeet"], outcomes["spark"]
    return [
        gain("whole run, Spark in-heap", ours.whole_s, theirs.whole_s, "s", whole_at_least),
        gain("epochs after the first, Spark in-heap", ours.later_s, theirs.later_s, "s", later_at_least),
        gain("last epoch, Spark in-heap", ours.last_s, theirs.last_s, "s"),
        gain("peak memory, Spark in-heap", ours.peak_bytes, theirs.peak_bytes, "bytes"),
    ]


def _on_cluster(suite: Suite) -> Suite:
    """A suite of one machine, on two executors; every JVM has half of the heap."""
    return replace(
        suite,
        name=f"{FAMILY}-{suite.name}",
        title=lambda size: f"{suite.title(size)}, two executors of one core",
        contenders=("watersmeet", "spark"),
        full=replace(suite.full, heap="4g"),
        family=FAMILY,
        on_cluster=True,
    )


THREEWAY = replace(_on_cluster(threeway.SUITE), judge=judge_threeway)
FIVEWAY = replace(_on_cluster(fiveway.SUITE), judge=judge_fiveway)
