"""Which rows of a group an aggregate is over: what users say of it, checked, and what they are told."""

from watersmeet.model.errors import QueryError
from watersmeet.model.query import History
from watersmeet.planning.durations import duration_us, written

MOST_ROWS = 1 << 62


def history_of(rows: object, time: object) -> History:
    """The latest ``rows`` of a group, or those of the last ``time``.

    >>> history_of(100, None), history_of(None, "10 minutes").time_us
    (History(rows=100, time_us=None), 600000000)
    """
    if (rows is None) == (time is None):
        given = "nothing" if rows is None else "both rows and time"
        raise QueryError(
            f"over was given {given}",
            why="it says which rows of a group are the last ones, by their number or by a length of time",
            how='write over(rows=100) or over(time="10 minutes")',
        )
    if time is not None:
        return History(time_us=duration_us("the time of over", time, may_be_zero=False))
    if not isinstance(rows, int) or isinstance(rows, bool) or not 0 < rows < MOST_ROWS:
        raise QueryError(
            f"over was given rows={rows!r}", why="it is a number of rows, one at least", how="write over(rows=100)"
        )
    return History(rows=rows)


def history_shown(history: History) -> str:
    """Which rows of a group count, in words.

    >>> history_shown(History(rows=100)), history_shown(History(time_us=600_000_000))
    ('the last 100 rows', 'the last 10 minutes')
    """
    return f"the last {written(history.time_us) if history.time_us is not None else f'{history.rows} rows'}"
