"""Turn results and pointers into the batches a level hands to Spark."""

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np
import pyarrow as pa

from watersmeet.engine.layout import RUN, SITE, TAG, Layout
from watersmeet.engine.parcels import pack
from watersmeet.engine.spec import LevelSpec, OperatorSpec
from watersmeet.operators.join import Joined
from watersmeet.state.manifest import RunFile

NOTHING = "#row"


class Emitter:
    """Makes batches of one level's output schema."""

    def __init__(self, spec: LevelSpec) -> None:
        self._spec = spec
        self._tags = {(source.operator, source.name): tag for tag, source in spec.inputs.items()}

    def results(self, operator: OperatorSpec, joined: Joined) -> pa.RecordBatch:
        """A batch of an operator's results."""
        columns = {name: part.column(name) for part in joined.parts for name in part.schema.names}
        if self._spec.outgoing is None or operator.output_tag is None:
            return self._rows(columns, joined.count)
        if self._spec.routes:
            return pack(self._spec, self._spec.routes[operator.output_tag], columns)
        return self._tagged(self._spec.outgoing, operator.output_tag, columns, joined.count)

    def direct(self, joined: Joined) -> pa.RecordBatch:
        """A batch of the root's results for a file: the joined row, or the columns it was projected to."""
        direct = self._spec.direct
        columns = {name: part.column(name) for part in joined.parts for name in part.schema.names}
        if direct is None or direct.columns is None:
            return self._rows(columns, joined.count)
        return pa.RecordBatch.from_arrays([columns[name] for name in direct.columns], schema=direct.schema)

    def pointers(self, runs: Sequence[RunFile], site_key: int) -> Iterator[pa.RecordBatch]:
        """One batch that tells the levels above which runs were written for them."""
        if runs:
            schema = self._spec.output
            columns = {name: pa.nulls(len(runs), schema.field(name).type) for name in schema.names}
            columns[TAG] = pa.array([self._tags[run.operator, run.input] for run in runs], pa.int32())
            columns[RUN] = pa.array([msgspec.json.encode(run).decode() for run in runs], pa.string())
            columns[SITE] = pa.array([site_key] * len(runs), pa.int32())
            yield pa.RecordBatch.from_arrays(list(columns.values()), schema=schema)

    def _tagged(self, layout: Layout, tag: int, columns: dict[str, pa.Array], count: int) -> pa.RecordBatch:
        slots = {slot: columns[column.name] for column, slot in layout.columns[tag]}
        arrays = [
            pa.array(np.full(count, tag, dtype=np.int32)),
            pa.nulls(count, pa.string()),
            pa.nulls(count, pa.int32()),
            *(slots.get(slot, pa.nulls(count, kind)) for slot, kind in enumerate(layout.slots)),
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._spec.output)

    def _rows(self, columns: dict[str, pa.Array], count: int) -> pa.RecordBatch:
        """The joined row: a struct column per stream."""
        schema = self._spec.output
        if schema.names == [NOTHING]:
            return pa.RecordBatch.from_arrays([pa.nulls(count, pa.bool_())], schema=schema)
        structs = [
            pa.StructArray.from_arrays(
                [columns[f"{field.name}.{child.name}"] for child in field.type], fields=list(field.type)
            )
            for field in schema
        ]
        return pa.RecordBatch.from_arrays(structs, schema=schema)
