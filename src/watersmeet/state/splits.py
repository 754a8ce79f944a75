"""Groups too hot for one site are split over several: the rows of one input are dealt out, those of the others copied.

Every combination of rows has one row of the dealt input, and is made where that row is. So each result is made once,
whatever the sites are and however rows are dealt, as long as every dealt row is at one of them and every other row at
all. Of rows that came in earlier steps no one has to remember where they were: a site takes its part of every run by
position, and another part in the next step would do as well.

The group still has one site of its own, the first. There the copied rows are stored, runs are merged, and rows that
come out alone are decided; all else (spills, cleanup, what ends) goes by groups and runs, and not by sites.
"""

from collections.abc import Iterator, Sequence

from watersmeet.model.ids import InputName, OperatorId, SiteId
from watersmeet.model.plan import Operator, Plan
from watersmeet.state.groups import GroupSet
from watersmeet.state.manifest import OperatorState, Split


def dealable(operator: Operator) -> tuple[InputName, ...]:
    """The inputs whose rows may be dealt out to several sites; none where a group has to stay whole.

    Rows that come out alone have to see all that could be their match. What an aggregate knows of a key is one thing.
    The rows of a ring are spread over all sites as they are.
    """
    if operator.kind not in ("join", "outer"):
        return ()
    if not operator.preserved:
        return tuple(source.name for source in operator.inputs)
    return (operator.inputs[operator.preserved[0]].name,) if len(operator.preserved) == 1 else ()


def without(state: OperatorState, groups: GroupSet) -> tuple[Split, ...]:
    """The splits of other groups."""
    return tuple(split for split in state.splits if split.group not in groups)


def broken_splits(plan: Plan, name: OperatorId, state: OperatorState, sites: int) -> Iterator[str]:
    """What is wrong with the splits of an operator."""
    allowed = dealable(plan.operator(name))
    if len({split.group for split in state.splits}) < len(state.splits):
        yield f"{name} splits a group twice"
    for split in state.splits:
        if not 0 <= split.group < len(state.routing) or state.routing[split.group] != split.sites[0]:
            yield f"{name} splits group {split.group} over sites {list(split.sites)}, and is not at the first"
        elif not _are_several(split.sites, sites):
            yield f"{name} splits group {split.group} over sites {list(split.sites)}, of {sites}"
        elif split.input not in allowed:
            yield f"{name} deals out rows of {split.input}; only those of {list(allowed)} may be"


def _are_several(chosen: Sequence[SiteId], sites: int) -> bool:
    return 1 < len(chosen) == len(set(chosen)) and 0 <= min(chosen) <= max(chosen) < sites
