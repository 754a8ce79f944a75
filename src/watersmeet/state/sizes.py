"""How many rows and bytes each partition group holds: what the runs of a manifest add up to, by group.

A run's entry in the manifest tells the sizes of its groups, so no file is looked into, whoever asks.
"""

from collections.abc import Iterable, Iterator, Sequence

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


def live_bytes_of(manifest: Manifest, operator: OperatorId, source: str) -> Iterator[tuple[RunFile, Bytes]]:
    """The live runs of an input, with the bytes that each has of every group."""
    for part in manifest.operators[operator].slices:
        run = manifest.runs[part.run]
        if part.tier == "memory" and run.input == source:
            sizes = np.zeros(manifest.groups)
            sizes[part.groups.mask(manifest.groups)] = _sizes(run, part.groups)
            yield run, sizes


def bytes_by_generation(manifest: Manifest, operator: OperatorId, inputs: Sequence[str]) -> dict[int, Bytes]:
    """For every generation the bytes ``[input, group]``."""
    found: dict[int, Bytes] = {}
    for part in manifest.operators[operator].slices:
        run = manifest.runs[part.run]
        total = found.setdefault(part.generation, np.zeros((len(inputs), manifest.groups)))
        total[inputs.index(run.input), part.groups.mask(manifest.groups)] += _sizes(run, part.groups)
    return found


def live_bytes_by_site(manifest: Manifest) -> Bytes:
    """The live bytes of every site."""
    total = np.zeros(manifest.sites)
    for name, state in manifest.operators.items():
        np.add.at(total, np.array(state.routing), live_bytes(manifest, name))
    return total


def slice_bytes(run: RunFile, part: Slice, groups: GroupSet) -> int:
    """What a slice holds of some groups."""
    return int(_sizes(run, part.groups & groups).sum())


def rows_and_bytes(manifest: Manifest, slices: Iterable[Slice]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The rows and the bytes of each group in some slices."""
    rows, sizes = np.zeros(manifest.groups, np.int64), np.zeros(manifest.groups, np.int64)
    for part in slices:
        run = manifest.runs[part.run]
        mask, places = part.groups.mask(manifest.groups), run.among(part.groups)
        rows[mask] += run.group_rows.array[places]
        sizes[mask] += run.group_bytes.array[places]
    return rows, sizes


def arrived_bytes(run: RunFile, into: Bytes) -> None:
    """Add the bytes of a whole run to those of its groups."""
    into[run.groups.mask(len(into))] += run.group_bytes.array


def _sum(manifest: Manifest, slices: Iterable[Slice]) -> Bytes:
    groups, sizes = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for part in slices:
        groups.append(part.groups.numbers)
        sizes.append(_sizes(manifest.runs[part.run], part.groups))
    return np.bincount(np.concatenate(groups), np.concatenate(sizes), minlength=manifest.groups).astype(np.float64)


def _sizes(run: RunFile, groups: GroupSet) -> npt.NDArray[np.int64]:
    """The bytes of some groups of a run, in order."""
    sizes = run.group_bytes.array
    return sizes if groups == run.groups else sizes[run.among(groups)]
