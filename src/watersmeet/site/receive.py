"""Turn the messages that arrive at a site into rounds of sorted rows per input.

A site joins what a step brings in *rounds* of at most ``round_bytes``, so that an epoch of any size needs bounded
memory: the rows of one round are old rows to the next. Most epochs have one round.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from watersmeet.model.ids import SiteId
from watersmeet.operators.ranges import Index
from watersmeet.operators.spec import InputSpec
from watersmeet.site.admission import Admission
from watersmeet.site.layout import slot_name
from watersmeet.site.messages import BODY, HASH, INPUTS_MAX, TAG, Kind, input_of, kinds_of
from watersmeet.site.spec import LevelSpec
from watersmeet.site.travel import unpack
from watersmeet.state.groups import GroupSet, group_of
from watersmeet.state.manifest import RunFile
from watersmeet.state.rows import SortedRows, one_batch, sort_rows, take_rows
from watersmeet.state.runs import open_run
from watersmeet.state.stored import from_json


@dataclass(frozen=True)
class Round:
    """Rows by input, and for other inputs the run that holds theirs; none has both.

    ``unmatched`` rows have a null key, so they match nothing. ``probes`` are rows that other sites store;
    of those that lie in runs, these are told.
    """

    rows: dict[int, SortedRows]
    pointers: dict[int, RunFile]
    unmatched: dict[int, SortedRows] = field(default_factory=dict)
    probes: dict[int, SortedRows] = field(default_factory=dict)
    probe_runs: tuple[tuple[int, RunFile], ...] = ()


@dataclass
class Receiver:
    """Collects messages until there is enough for a round."""

    spec: LevelSpec
    admission: Admission
    site: SiteId
    _rows: list[pa.RecordBatch] = field(default_factory=list)
    _parcels: dict[int, list[pa.RecordBatch]] = field(default_factory=dict)
    _bytes: int = 0
    _pointers: dict[int, list[RunFile]] = field(default_factory=dict)
    _unmatched: dict[int, list[RunFile]] = field(default_factory=dict)
    _probes: list[tuple[int, RunFile]] = field(default_factory=list)

    def take(self, batch: pa.RecordBatch) -> Iterator[Round]:
        """Take a batch up, and give a round if that makes one."""
        self._add(batch)
        if self._bytes > self.spec.round_bytes:
            yield self._round()

    def rest(self) -> Iterator[Round]:
        """What is left when all has arrived."""
        pointers = (self._pointers, self._unmatched)
        while self._rows or self._parcels or self._probes or any(any(each.values()) for each in pointers):
            yield self._round()

    def _add(self, batch: pa.RecordBatch) -> None:
        kinds = kinds_of(batch.column(TAG).to_numpy())
        if not kinds.any():
            self._add_rows(batch)
            return
        self._add_rows(batch.filter(pa.array(np.isin(kinds, (Kind.ROW, Kind.UNJOINED, Kind.UNMATCHED)))))
        self._add_promises(batch.filter(pa.array(kinds == Kind.PROMISE)))
        bodies = {
            Kind.POINTER: self._add_pointer,
            Kind.PARCEL: self._add_parcel,
            Kind.UNMATCHED_POINTER: self._add_unmatched_pointer,
            Kind.PROBE: self._add_probe,
        }
        for kind, add in bodies.items():
            some = batch.filter(pa.array(kinds == kind)) if (kinds == kind).any() else None
            if some is not None:
                for tag, body in zip(some.column(TAG).to_pylist(), some.column(BODY), strict=True):
                    add(input_of(tag), body.as_buffer())

    def _add_rows(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows:
            self._rows.append(batch)
            self._bytes += batch.nbytes

    def _add_promises(self, batch: pa.RecordBatch) -> None:
        tags = batch.column(TAG).to_numpy()
        for tag in np.unique(tags).tolist():
            self.admission.writer.take(input_of(tag), batch.filter(pa.array(tags == tag)))

    def _add_pointer(self, tag: int, body: pa.Buffer) -> None:
        self._pointers.setdefault(tag, []).append(from_json(body.to_pybytes(), RunFile))

    def _add_unmatched_pointer(self, tag: int, body: pa.Buffer) -> None:
        self._unmatched.setdefault(tag, []).append(from_json(body.to_pybytes(), RunFile))

    def _add_probe(self, tag: int, body: pa.Buffer) -> None:
        self._probes.append((tag, from_json(body.to_pybytes(), RunFile)))

    def _add_parcel(self, tag: int, body: pa.Buffer) -> None:
        rows = unpack(self.spec.inputs[tag], body)
        self._parcels.setdefault(tag, []).append(rows)
        self._bytes += rows.nbytes

    def _round(self) -> Round:
        pointers = {tag: runs.pop(0) for tag, runs in self._pointers.items() if runs}
        by_kind = self._sorted() if self._rows else {}
        packed = {tag: _sort_parcels(parts) for tag, parts in self._parcels.items()}
        rows = by_kind.get(Kind.ROW, {}) | packed  # an input is sent in one way only
        unmatched = {tag: open_run(self.spec.storage, runs.pop(0)) for tag, runs in self._unmatched.items() if runs}
        rows, probes = self._told_apart(rows)
        probe_runs = tuple(self._probes)
        self._rows, self._parcels, self._probes, self._bytes = [], {}, [], 0
        return Round(rows, pointers, by_kind.get(Kind.UNMATCHED, {}) | unmatched, probes, probe_runs)

    def _told_apart(self, rows: dict[int, SortedRows]) -> tuple[dict[int, SortedRows], dict[int, SortedRows]]:
        """The rows that are stored here, and those of other sites that came to all of them."""
        stored, probes = dict(rows), {}
        for tag, some in rows.items():
            elsewhere = self._elsewhere(tag)
            if elsewhere:
                is_others = elsewhere.mask(self.spec.groups)[group_of(some.hashes, self.spec.groups)]
                stored[tag], probes[tag] = (_some(some, np.flatnonzero(mask)) for mask in (~is_others, is_others))
        return {tag: some for tag, some in stored.items() if len(some)}, probes

    def _elsewhere(self, tag: int) -> GroupSet:
        """The groups whose rows are only joined here; what goes on to a higher level came to where it is stored."""
        source = self.spec.inputs[tag]
        return self.spec.stored_elsewhere(source, self.site) if source.level == self.spec.level else GroupSet()

    def _accepted(self, tag: int, rows: pa.RecordBatch, mine: Index) -> Index:
        """The rows of an input that are accepted; of those stored elsewhere, that site tells."""
        elsewhere = self._elsewhere(tag)
        if not elsewhere:
            return self.admission.accepted(tag, rows, mine)
        groups = group_of(rows.column(HASH).to_numpy().view(np.uint64)[mine], self.spec.groups)
        is_others = elsewhere.mask(self.spec.groups)[groups]
        own = self.admission.accepted(tag, rows, mine[~is_others])
        return np.concatenate([own, self.admission.untold.accepted(tag, rows, mine[is_others])])

    def _sorted(self) -> dict[Kind, dict[int, SortedRows]]:
        rows = one_batch(pa.Table.from_batches(self._rows))
        tags = rows.column(TAG).to_numpy()
        inputs = tags & (INPUTS_MAX - 1)
        found = {tag: np.flatnonzero(inputs == tag) for tag in np.unique(inputs).tolist()}
        accepted = {tag: self._accepted(tag, rows, mine) for tag, mine in found.items()}
        sorted_: dict[Kind, dict[int, SortedRows]] = {Kind.ROW: {}, Kind.UNMATCHED: {}}
        for kind, found_rows in sorted_.items():
            chosen = {tag: mine[kinds_of(tags[mine]) == kind] for tag, mine in accepted.items()}
            for tag, mine in chosen.items():
                if len(mine):
                    found_rows[tag] = _sort(self.spec, self.spec.inputs[tag], rows, mine)
        return sorted_


def _some(rows: SortedRows, index: Index) -> SortedRows:
    return SortedRows(rows.hashes[index], take_rows(rows.rows, index))


def _sort_parcels(parcels: list[pa.RecordBatch]) -> SortedRows:
    """The rows of one input's parcels: their hashes are the first column."""
    rows = one_batch(pa.Table.from_batches(parcels))
    hashes = rows.column(0).to_numpy().view(np.uint64)
    return sort_rows(hashes, rows.select(rows.schema.names[1:]))


def _sort(spec: LevelSpec, source: InputSpec, rows: pa.RecordBatch, mine: Index) -> SortedRows:
    """The rows of one input: picked, sorted and cast to stored types in one go."""
    hashes = rows.column(HASH).to_numpy().view(np.uint64)[mine]
    order = np.argsort(hashes)
    index = pa.array(mine[order])
    slots = [slot for _, slot in spec.incoming.columns[source.tag]]
    arrays = [
        rows.column(slot_name(slot)).take(index).cast(stored.type)
        for slot, stored in zip(slots, source.schema, strict=False)  # what is not kept comes last
    ]
    return SortedRows(hashes[order], pa.RecordBatch.from_arrays(arrays, schema=source.schema))
