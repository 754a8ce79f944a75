"""What tracing costs: the papers' query, with intermediate results telling their groups, and without."""

from statistics import median

from watersmeet.lab.bench import fiveway
from watersmeet.lab.bench.suite import Judgement, Outcomes, Size, Suite, same_results, share

WARM_UP_EPOCHS = 8


def judge(size: Size, outcomes: Outcomes) -> Judgement:
    """The median of the warm epochs; the tasks' own time says it without the noise of all around them."""
    traced, untraced = outcomes["watersmeet"], outcomes["watersmeet-untraced"]
    warm = slice(WARM_UP_EPOCHS if size.epochs > WARM_UP_EPOCHS else 0, None)
    comparisons = [
        share(
            "median warm epoch, untraced", median(traced.epoch_ms[warm]), median(untraced.epoch_ms[warm]), "ms", 1.05
        ),
        share("time of the site tasks, untraced", sum(traced.busy_ms[warm]), sum(untraced.busy_ms[warm]), "ms"),
        share("state, untraced", traced.state_bytes, untraced.state_bytes, "bytes"),
    ]
    return comparisons, [same_results(outcomes)]


SUITE = Suite(
    name="tracing",
    title=lambda size: f"{fiveway.SUITE.title(size)}, traced and not",
    pipeline=fiveway.SUITE.pipeline,
    contenders=("watersmeet", "watersmeet-untraced"),
    full=Size(epochs=24, rows=3_000, heap="4g"),
    quick=Size(epochs=2, rows=300, heap="1g"),
    tables=fiveway.tables,
    judge=judge,
)
