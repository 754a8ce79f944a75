"""Rows that come out alone: up to where those of an input were decided, by group, and what may still decide others.

It is known by time (`watersmeet.state.promises`), and by the version up to which promised keys were asked for. Rows of
a group with missing results are decided as it is cleaned.
"""

from collections.abc import Iterator

import numpy as np

from watersmeet.model.ids import InputName, OperatorId
from watersmeet.model.plan import Input, Operator
from watersmeet.state.ends import FOREVER, last_bounds
from watersmeet.state.groups import GroupSet
from watersmeet.state.inputs import misses_results, operators_below, streams_of
from watersmeet.state.manifest import UNDECIDED, Manifest
from watersmeet.state.vectors import Vector


def decided(manifest: Manifest, operator: OperatorId, source: InputName) -> Vector:
    """Up to which value of their last column rows of an input are decided, by group."""
    known = manifest.operators[operator].decided.get(source)
    return Vector.of(np.full(manifest.groups, UNDECIDED)) if known is None else known


def has_decided(manifest: Manifest, operator: OperatorId, source: InputName) -> bool:
    """Whether any rows of an input were ever decided."""
    state = manifest.operators[operator]
    return source in state.decided or source in state.decided_keys


def promising_input(operator: Operator, source: Input) -> Input:
    """The input whose promises decide on rows of another one; of an aggregate, its own."""
    return next((each for each in operator.inputs if each is not source), source)


def newest_promise(manifest: Manifest, operator: Operator, source: Input) -> int:
    """The last version that brought a promise of any stream an input is made of, if nothing is missing of it."""
    if misses_results(manifest, source) or gives_rows_alone(manifest, source):
        return UNDECIDED  # what they miss may still come
    passed, streams = manifest.operators[operator.id].passed, streams_of(manifest, source)
    ends = (passed[stream][-1][1] for stream in streams & passed.keys())
    return max(*(manifest.promised.get(stream, UNDECIDED) for stream in streams), *ends, UNDECIDED)


def gives_rows_alone(manifest: Manifest, source: Input) -> bool:
    """Whether an operator that an input is made of has results that are decided some time after their rows came."""
    return any(manifest.plan.operator(below).preserved for below in operators_below(manifest, source))


def has_undecided_rows(manifest: Manifest, source: Input) -> bool:
    """Whether an operator that an input is made of holds rows that may come out alone, later."""
    below = [manifest.plan.operator(name) for name in operators_below(manifest, source)]
    return any(_has_undecided(manifest, each, each.inputs[place]) for each in below for place in each.preserved)


def _has_undecided(manifest: Manifest, operator: Operator, source: Input) -> bool:
    """Whether any run has rows that are not decided; in groups with missing results, some may not be."""
    known, missing = decided(manifest, operator.id, source.name).array, manifest.spilled(operator.id)
    for part in manifest.operators[operator.id].slices:
        run = manifest.runs[part.run]
        if run.input == source.name and part.groups:
            span = last_bounds(run, source)
            before = int(known[part.groups.mask(manifest.groups)].min())
            if part.groups & missing or before < (FOREVER if span is None else span[1]):
                return True
    return False


def undecided_keys(manifest: Manifest) -> Iterator[tuple[OperatorId, InputName]]:
    """The preserved inputs that have rows, and were not asked yet about the last keys that the others have promised."""
    for operator in manifest.plan.operators if manifest.promised else ():
        missing = manifest.spilled(operator.id)
        for source in (operator.inputs[number] for number in operator.preserved):
            known = manifest.operators[operator.id].decided_keys.get(source.name)
            newest = newest_promise(manifest, operator, promising_input(operator, source))
            held = GroupSet.union(
                part.groups - missing
                for part in manifest.operators[operator.id].slices
                if manifest.runs[part.run].input == source.name
            )
            before = UNDECIDED if known is None or not held else int(known.array[held.mask(manifest.groups)].min())
            if held and before < newest:
                yield operator.id, source.name


def decided_until(manifest: Manifest, operator: Operator, source: Input) -> int | None:
    """Up to where all rows of an input are decided; those of groups with missing results are not looked at here."""
    vector = manifest.operators[operator.id].decided.get(source.name)
    if vector is None:
        return None
    groups = manifest.spilled(operator.id)
    known = vector.array[~groups.mask(manifest.groups)] if groups else vector.array
    return int(known.min()) if len(known) else None
