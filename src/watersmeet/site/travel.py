"""How results leave a task: to the next level in slots or in parcels, or to the sink as rows.

Between two levels, rows go from Python through Spark to Python. As rows of Spark's (`Slots`), each is taken out of its
Arrow batch, projected, hashed, written to the exchange, read, and put into an Arrow batch again; with many intermediate
results that is most of an epoch. A *parcel* is an Arrow batch of rows for one site, as bytes, with their hashes
(`Parcels`). Spark only carries it. That takes the hash of the next key, which is computed here for whole numbers
(`watersmeet.operators.hashing`), and no filter in between, which only Spark can evaluate.

    #site  #tag           #body
    2      parcel | 4     <hashes and columns of 9,000 rows>
    0      parcel | 4     <...>
    2      pointer | 1    {"id": ...}

Which way is taken is chosen in one place, the topology of the plan (`watersmeet.driver.topology`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc

from watersmeet.operators.hashing import is_hashable, xxhash64
from watersmeet.operators.ranges import Index
from watersmeet.operators.results import Results
from watersmeet.operators.spec import InputSpec, OperatorSpec
from watersmeet.operators.widths import Widths, fitting
from watersmeet.site.layout import Layout, slot_name
from watersmeet.site.messages import BODY, HASH, SITE, TAG, Kind, tag_of
from watersmeet.state.groups import Hashes, group_of
from watersmeet.state.manifest import RunFile, Split
from watersmeet.state.rows import take_rows
from watersmeet.state.stored import to_json

NOTHING = "#row"
SITE_NUMBER = "uint16"
PARCEL_LIMIT_BYTES = 4 << 20
"""The rows of a parcel take no more, unless it is one row: a merge join holds a number of parcels on the heap."""

Sites = npt.NDArray[np.uint16]
HEAD = pa.schema({SITE: pa.int32(), TAG: pa.int32(), BODY: pa.binary()})


class Travel(Protocol):
    """Makes batches of results, all of one schema."""

    @property
    def schema(self) -> pa.Schema:
        """What the tasks yield."""

    def send(self, operator: OperatorSpec, results: Results, site_keys: Sequence[int]) -> pa.RecordBatch:
        """A batch of an operator's results."""


@dataclass(frozen=True)
class Slots:
    """To the next level, a message for each row; Spark evaluates filters, hashes the next key and finds the site."""

    layout: Layout

    @property
    def schema(self) -> pa.Schema:
        """The head of a message, and the slots."""
        return pa.schema([*HEAD, *(pa.field(slot_name(n), kind) for n, kind in enumerate(self.layout.slots))])

    def send(self, operator: OperatorSpec, results: Results, site_keys: Sequence[int]) -> pa.RecordBatch:
        """A message for each row."""
        del site_keys
        tag, count, columns = operator.output_tag or 0, results.count, results.columns()
        slots = {slot: columns[column.name] for column, slot in self.layout.columns[tag]}
        arrays = [
            pa.nulls(count, pa.int32()),
            pa.array(np.full(count, tag_of(Kind.ROW, tag), dtype=np.int32)),
            pa.nulls(count, pa.binary()),
            *(slots.get(slot, pa.nulls(count, kind)) for slot, kind in enumerate(self.layout.slots)),
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


@dataclass(frozen=True)
class Route:
    """Where an operator's results go: the input they are for, the columns of its key, and the site of each group.

    ``sites`` are the bytes of an array of `SITE_NUMBER`; rows of ``splits`` go to several.
    """

    source: InputSpec
    keys: tuple[str, ...]
    sites: bytes
    splits: tuple[Split, ...] = ()

    def places(self, hashes: Hashes, kept: Sequence[pa.Array], groups: int) -> tuple[Index, Sites]:
        """To which site each row goes, by its number; some go to several."""
        own = group_of(hashes, groups)
        index, sites = np.arange(len(own)), np.frombuffer(self.sites, dtype=SITE_NUMBER)[own]
        for split in self.splits:
            mine = np.flatnonzero(own == split.group)
            if split.input == self.source.name:
                sites[mine] = np.array(split.sites, SITE_NUMBER)[_lots(kept, mine) % np.uint64(len(split.sites))]
            else:
                copies = np.repeat(np.array(split.sites[1:], SITE_NUMBER), len(mine))
                index, sites = (
                    np.concatenate([index, np.tile(mine, len(split.sites) - 1)]),
                    np.concatenate([sites, copies]),
                )
        return index, sites


@dataclass(frozen=True)
class Parcels:
    """To the next level, a message for thousands of rows."""

    routes: Mapping[int, Route]
    groups: int

    @property
    def schema(self) -> pa.Schema:
        """The head of a message."""
        return HEAD

    def send(self, operator: OperatorSpec, results: Results, site_keys: Sequence[int]) -> pa.RecordBatch:
        """A parcel for each site; rows with a null in their next key join nothing."""
        route = self.routes[operator.output_tag or 0]
        columns = results.columns()
        keys, kept = [columns[name] for name in route.keys], [columns[name] for name in route.source.schema.names]
        if any(key.null_count for key in keys):
            whole = reduce(pc.and_, (key.is_valid() for key in keys))
            keys, kept = [key.filter(whole) for key in keys], [column.filter(whole) for column in kept]
        hashes = xxhash64(keys)
        rows = pa.RecordBatch.from_arrays([pa.array(hashes.view(np.int64)), *kept], schema=_schema(route.source))
        if route.source.go_everywhere:
            sites = np.unique(np.frombuffer(route.sites, dtype=SITE_NUMBER))
            return _copies(route.source.tag, rows, sites.tolist(), site_keys)
        return _parcels(route.source.tag, rows, *route.places(hashes, kept, self.groups), site_keys)


@dataclass(frozen=True)
class Rows:
    """To the sink: the columns of all streams side by side.

    As structs, one per stream, every row would be written as nested rows by Spark, which then takes them apart again.
    """

    schema: pa.Schema

    def send(self, operator: OperatorSpec, results: Results, site_keys: Sequence[int]) -> pa.RecordBatch:
        """The rows as they are."""
        del operator, site_keys
        if self.schema.names == [NOTHING]:
            return pa.RecordBatch.from_arrays([pa.nulls(results.count, pa.bool_())], schema=self.schema)
        columns = results.columns()
        return pa.RecordBatch.from_arrays([columns[name] for name in self.schema.names], schema=self.schema)


def joined_rows(columns: Mapping[str, pa.Array], count: int, schema: pa.Schema) -> pa.RecordBatch:
    """Columns as joined rows: a struct for each stream."""
    if schema.names == [NOTHING]:
        return pa.RecordBatch.from_arrays([pa.nulls(count, pa.bool_())], schema=schema)
    structs = [
        pa.StructArray.from_arrays(
            [columns[f"{field.name}.{child.name}"] for child in field.type], fields=list(field.type)
        )
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(structs, schema=schema)


def pointers(
    schema: pa.Schema, runs: Sequence[tuple[int, RunFile]], site_key: int, kind: Kind = Kind.POINTER
) -> Iterator[pa.RecordBatch]:
    """One batch that tells the level above which runs were written for its inputs."""
    if runs:
        columns = {name: pa.nulls(len(runs), schema.field(name).type) for name in schema.names}
        columns[SITE] = pa.array([site_key] * len(runs), pa.int32())
        columns[TAG] = pa.array([tag_of(kind, tag) for tag, _ in runs], pa.int32())
        columns[BODY] = pa.array([to_json(run) for _, run in runs], pa.binary())
        yield pa.RecordBatch.from_arrays(list(columns.values()), schema=schema)


def unpack(source: InputSpec, parcel: pa.Buffer) -> pa.RecordBatch:
    """The rows of a parcel, their hashes first."""
    return pa.ipc.read_record_batch(parcel, _schema(source))


def _lots(columns: Sequence[pa.Array], mine: Index) -> Hashes:
    """A number for each of some rows, to deal them out by: always the same, as a task may be repeated."""
    numbers = [column.take(pa.array(mine)) for column in columns if is_hashable(column.type)]
    whole = [column.fill_null(_nought(column.type)) for column in numbers]
    return xxhash64(whole) if whole else np.zeros(len(mine), np.uint64)


def _nought(kind: pa.DataType) -> pa.Scalar:
    """The number 0 as a value of a type that is hashed here; Arrow makes dates of 32 bits only."""
    return pa.scalar(0, pa.int32() if kind == pa.date32() else pa.int64()).cast(kind)


def _parcels(tag: int, rows: pa.RecordBatch, index: Index, sites: Sites, site_keys: Sequence[int]) -> pa.RecordBatch:
    order = np.argsort(sites, kind="stable")
    present, starts = np.unique(sites[order], return_index=True)
    parts = np.split(index[order], starts[1:]) if len(order) else []
    return _messages(
        tag,
        [
            (site_keys[site], body)
            for site, part in zip(present.tolist(), parts, strict=True)
            for body in _bodies(take_rows(rows, part))
        ],
    )


def _copies(tag: int, rows: pa.RecordBatch, sites: Sequence[int], site_keys: Sequence[int]) -> pa.RecordBatch:
    """The same parcels for all sites: each of them knows which of the rows it stores."""
    bodies = list(_bodies(rows)) if rows.num_rows else []
    return _messages(tag, [(site_keys[site], body) for site in sites for body in bodies])


def _messages(tag: int, parcels: Sequence[tuple[int, bytes]]) -> pa.RecordBatch:
    arrays = [
        pa.array([key for key, _ in parcels], pa.int32()),
        pa.array([tag_of(Kind.PARCEL, tag)] * len(parcels), pa.int32()),
        pa.array([body for _, body in parcels], pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=HEAD)


def _bodies(rows: pa.RecordBatch) -> Iterator[bytes]:
    """Rows as bytes, in parts: what was joined together is bounded by the average row, and a few may be much wider."""
    if rows.nbytes <= PARCEL_LIMIT_BYTES:
        yield rows.serialize().to_pybytes()
        return
    every = np.arange(rows.num_rows)
    for part in fitting([Widths.of(rows.columns)], [every], PARCEL_LIMIT_BYTES):
        yield take_rows(rows, every[part]).serialize().to_pybytes()


def _schema(source: InputSpec) -> pa.Schema:
    return pa.schema([pa.field(HASH, pa.int64()), *source.schema])
