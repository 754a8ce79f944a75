"""Distinct rows: ``distinct`` and ``dropDuplicates``.

They are groups that are emitted once, when they first arrive. The columns that distinguish rows are the key of the
groups; the others are taken from the first row of each group, all from the same row.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from msgspec.structs import replace as replaced

from watersmeet.api.aggregating import aggregated, check_open
from watersmeet.api.shape import Shape
from watersmeet.api.telling import Call
from watersmeet.planning.views import Output, View, selected


def distinct(shape: Shape, names: Sequence[str] | None) -> Shape:
    """The distinct rows of a relation; by some columns, the first row for each of their values."""
    check_open(shape)
    leaves = list(_leaves(shape.view.members))
    chosen = leaves if names is None else [each for each in leaves if each.sql in _sql_of(shape, names)]
    calls = [
        Call(each.name, each.name, "first", each.sql, f"FIRST({each.sql})") for each in leaves if each not in chosen
    ]
    made = aggregated(shape, chosen, calls, "first")
    own = {each.name: each.sql for each in made.view.outputs}
    return replace(made, view=replaced(made.view, members=tuple(_shown(each, own) for each in shape.view.members)))


def _leaves(members: Sequence[Output | View], path: str = "") -> Iterator[Output]:
    """The columns of a view and of the views in it, each with its path as its name."""
    for each in members:
        if isinstance(each, View):
            yield from _leaves(each.members, f"{path}{each.name}.")
        else:
            yield each.called(f"{path}{each.name}")


def _shown(member: Output | View, own: Mapping[str, str], path: str = "") -> Output | View:
    """A member of a view, made of other columns, which are called by its paths."""
    if isinstance(member, View):
        inner = tuple(_shown(each, own, f"{path}{member.name}.") for each in member.members)
        return replaced(member, members=inner, stream=None)
    return Output(member.name, own[f"{path}{member.name}"])


def _sql_of(shape: Shape, names: Sequence[str]) -> set[str]:
    """The SQL of columns that some names mean; that of a stream means all of its own."""
    found = [each for name in names for each in selected(shape.view, [name], shape.spark_name)]
    return {leaf.sql for each in found for leaf in _leaves([each])}
