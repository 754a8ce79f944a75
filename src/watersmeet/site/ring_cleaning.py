"""A site's part in the cleanup of a ring: rows of some groups, and all rows of the other input that they have not met.

Which these are follows from when rows came and when they were closed (`watersmeet.state.ages`). As with a join, some
groups are copied into memory at a time, at most ``gather_bytes``; then every run of the other input is read that has
rows they have not met, one after the other. So what is read follows the number of blocks times the state: that is what
a nested loop costs, and why steps of cleanup take as many groups together as fit.

A pair is found at the group of the row that was closed first, if that is cleaned in this step at whichever site, else
at that of the other row. So all sites together find every pair once.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping

from watersmeet.operators.results import Results
from watersmeet.operators.ring.task import RingTask
from watersmeet.operators.spec import OperatorSpec
from watersmeet.site.cleaning import SiteCleanup
from watersmeet.site.expiry import NewRowTimes
from watersmeet.site.spec import Pair
from watersmeet.state.ages import Age, have_met, is_first
from watersmeet.state.groups import GroupSet
from watersmeet.state.rows import SortedRows, merge_rows
from watersmeet.state.runs import open_groups, release_run

Mine = Mapping[Age, SortedRows]
"""The rows of a block, of one input, by their ages."""


def ring_results(cleanup: SiteCleanup, task: RingTask) -> Iterator[Results]:
    """The missing results of a site's groups of a ring."""
    for block, low, high in cleanup.blocks():
        for number, mine in enumerate(_mine(cleanup, block, low, high)):
            if mine:
                yield from _of_input(cleanup, task, number, mine)


def _mine(cleanup: SiteCleanup, block: GroupSet, low: int, high: int) -> list[Mine]:
    found: dict[str, dict[Age, list[SortedRows]]] = {each.name: defaultdict(list) for each in cleanup.operator.inputs}
    for (run, part), rows in cleanup.copies(block, low, high):
        found[run.input][part.age].append(rows)
    return [{age: merge_rows(rows) for age, rows in ages.items()} for ages in found.values()]


def _of_input(cleanup: SiteCleanup, task: RingTask, number: int, mine: Mine) -> Iterator[Results]:
    operator = cleanup.operator
    other = operator.inputs[1 - number]
    times = {age: _times(operator, number, rows) for age, rows in mine.items()}
    for run, part in cleanup.order.slices:
        if run.input != other.name:
            continue
        for age, rows in mine.items():
            reach = times[age]
            groups = _wanted(cleanup, age, part.age, part.groups)
            if groups and (reach is None or reach.meets(other, run)):
                yield from _with_run(cleanup, task, number, rows, (run, part), groups)
        release_run(cleanup.storage, run)


def _wanted(cleanup: SiteCleanup, mine: Age, theirs: Age, groups: GroupSet) -> GroupSet:
    """Of the groups of a slice, those whose pairs with rows of ours are missing, and found with ours."""
    if have_met(mine, theirs):
        return GroupSet()
    return groups if is_first(mine, theirs) else groups - cleanup.order.cleaned


def _with_run(
    cleanup: SiteCleanup, task: RingTask, number: int, rows: SortedRows, pair: Pair, groups: GroupSet
) -> Iterator[Results]:
    pieces = open_groups(cleanup.storage, pair[0], groups, cleanup.groups)
    cleanup.read_bytes += sum(piece.bytes for piece in pieces)
    yield from task.across(number, rows, pieces, cleanup.order.gather_bytes)


def _times(operator: OperatorSpec, number: int, rows: SortedRows) -> NewRowTimes | None:
    """What some rows of an input can be joined with."""
    return NewRowTimes.of(operator, {operator.inputs[number].tag: rows}) if operator.is_windowed else None
