"""A query's state as a table, made of its manifest alone."""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from watersmeet.state.manifest import Manifest, OperatorState, RunFile
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
    """A row for every group, tier and generation that has rows, and one for every store of promises."""
    parts = [part for name, state in manifest.operators.items() for part in _parts(manifest, name, state)]
    parts += [_promises(name, runs) for name, runs in sorted(manifest.promises.items()) if runs]
    return pa.concat_tables(parts) if parts else SCHEMA.empty_table()


def _promises(store: str, runs: Sequence[RunFile]) -> pa.Table:
    """Promises lie on disk, and are of no group and no site."""
    held = {"rows": sum(run.rows for run in runs), "bytes": sum(run.bytes for run in runs)}
    told = {"operator": f"promises {store}", "tier": "disk", "generation": 0, **held}
    told |= {"output": 0, "inter": 0, "productivity": 0.0}
    return pa.Table.from_pylist([told], schema=SCHEMA)


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
