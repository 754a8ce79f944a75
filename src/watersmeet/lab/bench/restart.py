"""How long a restart takes to its first results: on 2 GB of state, and on none.

1. All epochs but the last are run once. They have wide rows with keys that none of the other stream has: much state,
   and no results. The run writes to a stand-in for remote storage (`remote`) and leaves its checkpoint, and the copies
   that its hosts keep.
2. Every contender runs the last epoch, which is small, in a new process: on that checkpoint, as local files and as
   remote ones, or on an empty one.
3. In the last epoch both streams bring new keys, and B also keys that the state of A has: they show that it is there.

Compared is the time from ``start`` to the end. What a cold JVM takes is in all of them.
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.lab.bench.contenders import WAYS
from watersmeet.lab.bench.data import Tables, keyed
from watersmeet.lab.bench.pipeline import Pipeline, Step
from watersmeet.lab.bench.report import Count
from watersmeet.lab.bench.suite import Judgement, Outcomes, Size, Suite, same_results, share

CHARACTERS = 1_000
LAST_ROWS = 1_000
LATER_S = 2.0
"""What the first epoch may take longer with state than without."""


def tables(size: Size) -> Tables:
    """The streams have no key in common, until the last epoch."""
    *building, last = range(size.epochs)
    old, new = size.rows * len(building), np.arange(_last_rows(size)) - _last_rows(size)
    drawn = np.random.default_rng(7).integers(0, old, len(new))
    built = {
        name: [_wide(np.arange(size.rows) + first + epoch * size.rows, epoch) for epoch in building]
        for name, first in {"A": 0, "B": old}.items()
    }
    return {
        "A": [*built["A"], _wide(new, last)],
        "B": [*built["B"], _wide(np.concatenate([new, drawn]), last)],
    }


def judge(size: Size, outcomes: Outcomes) -> Judgement:
    """The run with state against the one without, which may be `LATER_S` quicker."""
    local, remote = outcomes["watersmeet-empty"].whole_s, outcomes["watersmeet-remote-empty"].whole_s
    again, remote_again = outcomes["watersmeet-restarted"].whole_s, outcomes["watersmeet-remote-restarted"].whole_s
    moved = outcomes["watersmeet-remote-moved"].whole_s
    comparisons = [
        share(f"first epoch, empty checkpoint and {LATER_S:.0f} s", again, local + LATER_S, "s", at_most=1),
        share(f"first epoch, remote, empty and {LATER_S:.0f} s", remote_again, remote + LATER_S, "s", at_most=1),
        share("first epoch, empty checkpoint", again, local, "s"),
        share("first epoch, remote, empty checkpoint", remote_again, remote, "s"),
        share("first epoch on other hosts, remote, empty checkpoint", moved, remote, "s"),
    ]
    return comparisons, _counts(size, outcomes)


def _counts(size: Size, outcomes: Outcomes) -> list[Count]:
    ran_last = {name: outcome for name, outcome in outcomes.items() if WAYS[name].epochs == "last"}
    empty = {name: outcome for name, outcome in ran_last.items() if not WAYS[name].resumes}
    again = {name: outcome for name, outcome in ran_last.items() if WAYS[name].resumes}
    new = _last_rows(size)
    return [same_results(empty, new, "results without state"), same_results(again, 2 * new, "results with state")]


def _last_rows(size: Size) -> int:
    return min(LAST_ROWS, size.rows)


def _wide(keys: npt.NDArray[np.int64], epoch: int) -> pa.Table:
    return keyed(keys, epoch, CHARACTERS)


SUITE = Suite(
    name="restart",
    title=lambda size: (
        f"two streams, {size.epochs - 1} epochs of {size.rows:,} wide rows each without results, then a small one"
    ),
    pipeline=Pipeline((Step("AB", (("A.k", "B.k"),)),)),
    contenders=(
        "watersmeet-empty",
        "watersmeet-restarted",
        "watersmeet-remote-empty",
        "watersmeet-remote-restarted",
        "watersmeet-remote-moved",
    ),
    full=Size(epochs=8, rows=139_000, heap="4g"),  # 7 epochs of 2 streams: 2 GB with rows of 1,028 bytes
    quick=Size(epochs=3, rows=50, heap="1g"),
    tables=tables,
    judge=judge,
    prepared_by="watersmeet-built",
)
