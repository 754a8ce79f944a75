"""A query's state as a table, made of its manifest alone."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from watersmeet.state.manifest import Manifest, OperatorState
from watersmeet.state.sizes import rows_and_bytes

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


def state_table(manifest: Manifest) -> pa.Table:
    """A row for every group, tier and generation that has rows."""
    parts = [part for name, state in manifest.operators.items() for part in _parts(manifest, name, state)]
    return pa.concat_tables(parts) if parts else SCHEMA.empty_table()


def _parts(manifest: Manifest, name: str, state: OperatorState) -> Iterator[pa.Table]:
    output, inter = (counts.array if counts else np.zeros(manifest.groups) for counts in (state.output, state.inter))
    for tier, generation in sorted({(part.tier, part.generation) for part in state.slices}):
        slices = [part for part in state.slices if (part.tier, part.generation) == (tier, generation)]
        rows, sizes = rows_and_bytes(manifest, slices)
        groups = np.flatnonzero(rows)
        columns = {
            "operator": [name] * len(groups),
            "group": groups,
            "site": np.asarray(state.routing)[groups],
            "tier": [tier] * len(groups),
            "generation": [generation] * len(groups),
            "rows": rows[groups],
            "bytes": sizes[groups],
            "output": output[groups].astype(np.int64),
            "inter": inter[groups].astype(np.int64),
            "productivity": output[groups] / sizes[groups],
        }
        yield pa.table([pa.array(columns[field.name], field.type) for field in SCHEMA], schema=SCHEMA)
