"""A query's state as a table, read from its checkpoint without Spark."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from watersmeet.state.groups import members
from watersmeet.state.manifest import Manifest, OperatorState, Slice
from watersmeet.state.rows import bytes_by_group
from watersmeet.state.runs import open_run
from watersmeet.storage.base import Storage

SCHEMA = pa.schema(
    [
        ("operator", pa.string()),
        ("group", pa.int32()),
        ("site", pa.int32()),
        ("tier", pa.string()),
        ("generation", pa.int32()),
        ("rows", pa.int64()),
        ("bytes", pa.int64()),
        ("output", pa.int64()),
        ("inter", pa.int64()),
        ("productivity", pa.float64()),
    ]
)


def state_table(storage: Storage, manifest: Manifest) -> pa.Table:
    """A row for every group, tier and generation that has rows or results."""
    records = [
        record for name, state in manifest.operators.items() for record in _records(storage, manifest, name, state)
    ]
    return pa.Table.from_pylist(records, schema=SCHEMA)


def _records(storage: Storage, manifest: Manifest, name: str, state: OperatorState) -> Iterator[dict[str, object]]:
    output, inter = (counts or (0,) * manifest.groups for counts in (state.output, state.inter))
    kinds = sorted({(part.tier, part.generation) for part in state.slices})
    for tier, generation in kinds:
        slices = [part for part in state.slices if (part.tier, part.generation) == (tier, generation)]
        rows, sizes = _sizes(storage, manifest, slices)
        for group in np.flatnonzero(rows).tolist():
            yield {
                "operator": name,
                "group": group,
                "site": state.routing[group],
                "tier": tier,
                "generation": generation,
                "rows": int(rows[group]),
                "bytes": int(sizes[group]),
                "output": output[group],
                "inter": inter[group],
                "productivity": output[group] / int(sizes[group]),
            }


def _sizes(storage: Storage, manifest: Manifest, slices: list[Slice]) -> tuple[np.ndarray, np.ndarray]:
    rows, sizes = np.zeros(manifest.groups, np.int64), np.zeros(manifest.groups, np.int64)
    for part in slices:
        counted = np.zeros(manifest.groups, dtype=np.bool_)
        counted[list(members(part.groups))] = True
        run_rows, run_sizes = bytes_by_group(open_run(storage, manifest.runs[part.run]), manifest.groups)
        rows += np.where(counted, run_rows, 0)
        sizes += np.where(counted, run_sizes, 0)
    return rows, sizes
