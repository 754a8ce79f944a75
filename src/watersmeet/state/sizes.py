"""How many rows and bytes each partition group holds: what the runs of a manifest add up to, by group.

A run's entry in the manifest tells the sizes of its groups, so no file is looked into, whoever asks.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from watersmeet.model.ids import OperatorId
from watersmeet.state.groups import GroupSet
from watersmeet.state.manifest import LIVE, Manifest, RunFile, Slice

Bytes = npt.NDArray[np.float64]


def live_bytes(manifest: Manifest, operator: OperatorId) -> Bytes:
    """The bytes of each group's live generation."""
    return _sum(manifest, (part for part in manifest.operators[operator].slices if part.tier == "memory"))


def total_bytes(manifest: Manifest, operator: OperatorId) -> Bytes:
    """The bytes of each group in all generations."""
    return _sum(manifest, manifest.operators[operator].slices)


def live_bytes_by_input(manifest: Manifest, operator: OperatorId, inputs: Sequence[str]) -> Bytes:
    """The bytes of each group's live generation, ``[input, group]``."""
    return bytes_by_generation(manifest, operator, inputs).get(LIVE, np.zeros((len(inputs), manifest.groups)))


def bytes_by_generation(manifest: Manifest, operator: OperatorId, inputs: Sequence[str]) -> dict[int, Bytes]:
    """For every generation the bytes ``[input, group]``."""
    found: dict[int, Bytes] = {}
    for part in manifest.operators[operator].slices:
        run = manifest.runs[part.run]
        total = found.setdefault(part.generation, np.zeros((len(inputs), manifest.groups)))
        _add(total[inputs.index(run.input)], run, part)
    return found


def live_bytes_by_site(manifest: Manifest) -> Bytes:
    """The live bytes of every site."""
    total = np.zeros(manifest.sites)
    for name, state in manifest.operators.items():
        np.add.at(total, np.array(state.routing), live_bytes(manifest, name))
    return total


def slice_bytes(run: RunFile, part: Slice, groups: GroupSet) -> int:
    """What a slice holds of some groups."""
    counted = part.groups & groups
    if counted == run.groups:
        return int(run.group_bytes.array.sum())
    return int(run.group_bytes.array[_places(run, counted)].sum())


def rows_and_bytes(manifest: Manifest, slices: Iterable[Slice]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The rows and the bytes of each group in some slices."""
    rows, sizes = np.zeros(manifest.groups, np.int64), np.zeros(manifest.groups, np.int64)
    for part in slices:
        run = manifest.runs[part.run]
        places = _places(run, part.groups)
        rows[part.groups.numbers] += run.group_rows.array[places]
        sizes[part.groups.numbers] += run.group_bytes.array[places]
    return rows, sizes


def arrived_bytes(run: RunFile, into: Bytes) -> None:
    """Add the bytes of a whole run to those of its groups."""
    into[run.groups.numbers] += run.group_bytes.array


def _sum(manifest: Manifest, slices: Iterable[Slice]) -> Bytes:
    total: Bytes = np.zeros(manifest.groups)
    for part in slices:
        _add(total, manifest.runs[part.run], part)
    return total


def _add(total: Bytes, run: RunFile, part: Slice) -> None:
    if part.groups == run.groups:
        arrived_bytes(run, total)
    else:
        total[part.groups.numbers] += run.group_bytes.array[_places(run, part.groups)]


def _places(run: RunFile, groups: GroupSet) -> npt.NDArray[np.int64]:
    """Where some groups of a run stand among all of them."""
    return np.searchsorted(run.groups.numbers, groups.numbers)
