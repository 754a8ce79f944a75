"""Turn the batches that arrive at a site into sorted rows per input."""

from collections.abc import Iterable

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.engine.layout import HASH, RUN, TAG, slot_name
from watersmeet.engine.spec import InputSpec, LevelSpec
from watersmeet.state.manifest import RunFile
from watersmeet.state.rows import SortedRows


def receive(spec: LevelSpec, batches: Iterable[pa.RecordBatch]) -> tuple[dict[int, SortedRows], dict[int, RunFile]]:
    """The rows of each tag, sorted by hash, and the runs that pointers name."""
    arrived = [batch for batch in batches if batch.num_rows]
    if not arrived:
        return {}, {}
    table = pa.Table.from_batches(arrived).combine_chunks()
    tags = table.column(TAG).chunk(0).to_numpy()
    present = np.unique(tags).tolist()
    pointers = _pointers(table)
    by_tag = {tag: _sorted(spec, spec.inputs[tag], table, tags) for tag in present if tag not in pointers}
    return by_tag, pointers


def _sorted(spec: LevelSpec, source: InputSpec, table: pa.Table, tags: npt.NDArray[np.int32]) -> SortedRows:
    mine = np.flatnonzero(tags == source.tag)
    hashes = table.column(HASH).chunk(0).fill_null(0).to_numpy().view(np.uint64)[mine]
    order = np.argsort(hashes)
    index = pa.array(mine[order])
    slots = [slot for _, slot in spec.incoming.columns[source.tag]]
    arrays = [
        table.column(slot_name(slot)).chunk(0).take(index).cast(field.type)
        for slot, field in zip(slots, source.schema, strict=True)
    ]
    return SortedRows(hashes[order], pa.RecordBatch.from_arrays(arrays, schema=source.schema))


def _pointers(table: pa.Table) -> dict[int, RunFile]:
    if RUN not in table.column_names:
        return {}
    named = table.filter(table.column(RUN).is_valid())
    runs = (msgspec.json.decode(text, type=RunFile) for text in named.column(RUN).to_pylist())
    return dict(zip(named.column(TAG).to_pylist(), runs, strict=True))
