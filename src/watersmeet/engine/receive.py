"""Turn the batches that arrive at a site into rounds of sorted rows per input.

A site joins what an epoch brings in *rounds* of at most ``round_bytes``, so that an epoch of any size needs bounded
memory: the rows of one round are old rows to the next. Most epochs have one round.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.engine.layout import HASH, PARCEL, RUN, TAG, slot_name
from watersmeet.engine.parcels import unpack
from watersmeet.engine.spec import InputSpec, LevelSpec
from watersmeet.state.manifest import RunFile
from watersmeet.state.rows import SortedRows, one_batch, sort_rows


@dataclass(frozen=True)
class Round:
    """Rows by tag, and for other tags the run that holds theirs; no tag has both."""

    rows: dict[int, SortedRows]
    pointers: dict[int, RunFile]


@dataclass
class Receiver:
    """Collects batches until there is enough for a round."""

    spec: LevelSpec
    _batches: list[pa.RecordBatch] = field(default_factory=list)
    _parcels: dict[int, list[pa.RecordBatch]] = field(default_factory=dict)
    _bytes: int = 0
    _pointers: dict[int, list[RunFile]] = field(default_factory=dict)

    def take(self, batch: pa.RecordBatch) -> Iterator[Round]:
        """Take a batch up, and give a round if that makes one."""
        self._add(batch)
        if self._bytes > self.spec.round_bytes:
            yield self._round()

    def rest(self) -> Iterator[Round]:
        """What is left when all has arrived."""
        while self._batches or self._parcels or any(self._pointers.values()):
            yield self._round()

    def _add(self, batch: pa.RecordBatch) -> None:
        if batch.column(TAG).null_count:  # the row of a site to which none came
            batch = batch.filter(batch.column(TAG).is_valid())
        if RUN in batch.schema.names:
            named = batch.column(RUN).is_valid()
            for row in batch.filter(named).select([TAG, RUN]).to_pylist():
                self._pointers.setdefault(row[TAG], []).append(msgspec.json.decode(row[RUN], type=RunFile))
            batch = batch.filter(pa.compute.invert(named)) if named.true_count else batch
        if self.spec.packed:
            self._open(batch)
        elif batch.num_rows:
            self._batches.append(batch)
            self._bytes += batch.nbytes

    def _open(self, batch: pa.RecordBatch) -> None:
        for tag, parcel in zip(batch.column(TAG).to_pylist(), batch.column(PARCEL), strict=True):
            rows = unpack(self.spec.inputs[tag], parcel.as_buffer())
            self._parcels.setdefault(tag, []).append(rows)
            self._bytes += rows.nbytes

    def _round(self) -> Round:
        pointers = {tag: runs.pop(0) for tag, runs in self._pointers.items() if runs}
        rows = self._sorted() if self._batches else {tag: _sort_parcels(parts) for tag, parts in self._parcels.items()}
        self._batches, self._parcels, self._bytes = [], {}, 0
        return Round(rows, pointers)

    def _sorted(self) -> dict[int, SortedRows]:
        rows = one_batch(pa.Table.from_batches(self._batches))
        tags = rows.column(TAG).to_numpy()
        return {tag: _sort(self.spec, self.spec.inputs[tag], rows, tags) for tag in np.unique(tags).tolist()}


def _sort_parcels(parcels: list[pa.RecordBatch]) -> SortedRows:
    """The rows of one input's parcels: their hashes are the first column."""
    rows = one_batch(pa.Table.from_batches(parcels))
    hashes = rows.column(0).to_numpy().view(np.uint64)
    return sort_rows(hashes, rows.select(rows.schema.names[1:]))


def _sort(spec: LevelSpec, source: InputSpec, rows: pa.RecordBatch, tags: npt.NDArray[np.int32]) -> SortedRows:
    """The rows of one input: picked, sorted and cast to stored types in one go."""
    mine = np.flatnonzero(tags == source.tag)
    hashes = rows.column(HASH).to_numpy().view(np.uint64)[mine]
    order = np.argsort(hashes)
    index = pa.array(mine[order])
    slots = [slot for _, slot in spec.incoming.columns[source.tag]]
    arrays = [
        rows.column(slot_name(slot)).take(index).cast(stored.type)
        for slot, stored in zip(slots, source.schema, strict=True)
    ]
    return SortedRows(hashes[order], pa.RecordBatch.from_arrays(arrays, schema=source.schema))
