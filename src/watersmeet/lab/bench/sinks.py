"""The three-way join into sinks that keep or take every result: Parquet files, and a function.

Both write the same columns. The function is the same, too: it gives the rows it gets to Spark's noop sink.
"""

from dataclasses import replace

from watersmeet.lab.bench import threeway
from watersmeet.lab.bench.suite import Judgement, Outcomes, Size, gain


def judge(size: Size, outcomes: Outcomes) -> Judgement:
    """Whole run and last epoch, each sink against the same."""
    files, their_files = outcomes["watersmeet-parquet"], outcomes["spark-parquet"]
    rows, their_rows = outcomes["watersmeet-rows"], outcomes["spark-rows"]
    comparisons = [
        gain("whole run into Parquet, Spark in-heap", files.whole_s, their_files.whole_s, "s", at_least=4),
        gain("whole run into a function, Spark in-heap", rows.whole_s, their_rows.whole_s, "s", at_least=3),
        gain("last epoch into Parquet, Spark in-heap", files.last_s, their_files.last_s, "s"),
        gain("last epoch into a function, Spark in-heap", rows.last_s, their_rows.last_s, "s"),
    ]
    return comparisons, [threeway.all_results(size, outcomes)]


SUITE = replace(
    threeway.SUITE,
    name="sinks",
    title=lambda size: f"{threeway.SUITE.title(size)}, into Parquet and into a function",
    pipeline=replace(threeway.SUITE.pipeline, is_flat=True),
    contenders=("watersmeet-parquet", "spark-parquet", "watersmeet-rows", "spark-rows"),
    judge=judge,
)
