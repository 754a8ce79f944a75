"""Rows on their way to the next level, packed: one row of Spark's for thousands of ours.

Between two levels, rows go from Python through Spark to Python. As rows of Spark's, each is taken out of its Arrow
batch, projected, hashed, written to the exchange, read, and put into an Arrow batch again; with many intermediate
results that is most of an epoch. A *parcel* is an Arrow batch of rows for one site, as bytes, with their hashes. Spark
only carries it.

    #site  #tag  #run  #parcel
    2      4     -     <hashes and columns of 9,000 rows>
    0      4     -     <...>
    2      1     {..}  -                                    a pointer

That takes the hash of the next key, which is computed here for whole numbers (`watersmeet.operators.hashing`), and no
filter in between, which only Spark can evaluate. Other rows travel in slots (`layout`).
"""

from collections.abc import Mapping
from functools import reduce

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute
import pyarrow.ipc

from watersmeet.engine.layout import HASH, PARCEL, RUN, SITE, TAG
from watersmeet.engine.spec import SITE_NUMBER, InputSpec, LevelSpec, Route
from watersmeet.operators.hashing import xxhash64
from watersmeet.state.groups import group_of
from watersmeet.state.rows import take_rows

COLUMNS = pa.schema({SITE: pa.int32(), TAG: pa.int32(), RUN: pa.string(), PARCEL: pa.binary()})


def pack(spec: LevelSpec, route: Route, columns: Mapping[str, pa.Array]) -> pa.RecordBatch:
    """Results of an operator as parcels, one for each site; rows with a null in their next key join nothing."""
    source = spec.inputs[route.tag]
    keys, kept = [columns[name] for name in route.keys], [columns[name] for name in source.schema.names]
    if any(key.null_count for key in keys):
        whole = reduce(pa.compute.and_, (key.is_valid() for key in keys))
        keys, kept = [key.filter(whole) for key in keys], [column.filter(whole) for column in kept]
    hashes = xxhash64(keys)
    rows = pa.RecordBatch.from_arrays([pa.array(hashes.view(np.int64)), *kept], schema=_schema(source))
    site_of_group = np.frombuffer(route.sites, dtype=SITE_NUMBER)
    return _parcels(spec, source.tag, rows, site_of_group[group_of(hashes, spec.groups)])


def unpack(source: InputSpec, parcel: pa.Buffer) -> pa.RecordBatch:
    """The rows of a parcel, their hashes first."""
    return pa.ipc.read_record_batch(parcel, _schema(source))


def _parcels(spec: LevelSpec, tag: int, rows: pa.RecordBatch, sites: npt.NDArray[np.uint16]) -> pa.RecordBatch:
    order = np.argsort(sites, kind="stable")
    present, starts = np.unique(sites[order], return_index=True)
    parts = np.split(order, starts[1:]) if len(order) else []
    filled = [take_rows(rows, part).serialize().to_pybytes() for part in parts]
    arrays = [
        pa.array([spec.sites[site].key for site in present.tolist()], pa.int32()),
        pa.array([tag] * len(filled), pa.int32()),
        pa.nulls(len(filled), pa.string()),
        pa.array(filled, pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=COLUMNS)


def _schema(source: InputSpec) -> pa.Schema:
    return pa.schema([pa.field(HASH, pa.int64()), *source.schema])
