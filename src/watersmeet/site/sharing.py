"""What a site sees of the runs of an input whose groups it shares with other sites (`watersmeet.state.splits`)."""

from watersmeet.model.ids import SiteId
from watersmeet.operators.join.probe import RunView
from watersmeet.operators.spec import InputSpec
from watersmeet.site.settling import view_of
from watersmeet.site.spec import LevelSpec
from watersmeet.state.groups import GroupSet, row_range
from watersmeet.state.manifest import RunFile, Slice
from watersmeet.state.parts import Wanted
from watersmeet.state.runs import open_run


def views_of(spec: LevelSpec, source: InputSpec, site: SiteId, run: RunFile, part: Slice) -> list[RunView]:
    """A run as a site sees it: of groups whose rows are dealt out, its own part of them, by their position."""
    own = spec.sites[site].own.get(source.operator)
    wanted = None if own is None else Wanted(part.groups & own, spec.groups)
    parts = [each for each in spec.parts(source, site) if each[0] in part.groups]
    if not parts:
        return [view_of(spec, run, part, wanted)]
    rows = open_run(spec.storage, run, part.groups, wanted)
    whole = part.groups - GroupSet.of(group for group, _, _ in parts)
    views = [RunView(rows, whole.mask(spec.groups))] if whole else []
    for group, number, count in parts:
        low, high = row_range(rows.hashes, group, group + 1, spec.groups)
        start, stop = (low + (high - low) * each // count for each in (number, number + 1))
        views.append(RunView(rows.slice(start, stop)))
    return views
