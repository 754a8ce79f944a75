"""Rows between levels travel in parcels where their next key can be hashed here, in slots elsewhere."""

import numpy as np
import pyarrow as pa
import pytest
from tests.support.oracle import difference, joined
from tests.support.spark_runs import run

import watersmeet as wm
from watersmeet.driver.task_specs import TaskSpecs
from watersmeet.driver.topology import Topology
from watersmeet.model.ids import InputName, OperatorId
from watersmeet.model.plan import Plan
from watersmeet.model.query import FilterNode, JoinNode, Node, Query, StreamNode
from watersmeet.operators.hashing import xxhash64
from watersmeet.operators.results import Results
from watersmeet.operators.spec import InputSpec
from watersmeet.planning import plan
from watersmeet.site import travel
from watersmeet.site.messages import BODY, HASH, SITE, TAG, Kind, tag_of
from watersmeet.site.spec import LevelSpec
from watersmeet.site.travel import HEAD, Parcels, Route, Rows, Slots, unpack
from watersmeet.state.groups import group_of
from watersmeet.state.manifest import Manifest, OperatorState, Split
from watersmeet.storage.local import LocalStorage

GROUPS, SITES = 8, 3
KEYS = (70, 80, 90)
ROUTING = tuple(group % SITES for group in range(GROUPS))
WHOLE = {"k": pa.int64(), "m": pa.int32()}


def chain(types: dict[str, pa.DataType], on: str = "B.m = C.m", where: str | None = None) -> Plan:
    """A and B joined below, C above; B.m decides where results of the lower go."""
    a, b, c = (StreamNode(name, pa.schema(types)) for name in "ABC")
    lower: Node = JoinNode((a, b), "A.k = B.k")
    lower = FilterNode(lower, where) if where else lower
    return plan(Query(JoinNode((lower, c), on)))


def lower_level(query: Plan, folder: object) -> LevelSpec:
    states = {operator.id: OperatorState(ROUTING) for operator in query.operators}
    manifest = Manifest("parcels", query, GROUPS, SITES, states)
    return TaskSpecs(LocalStorage(str(folder)), "driver").levels(manifest, Topology(query), [])[0]


@pytest.mark.parametrize(
    ("types", "on", "where", "packed"),
    [
        (WHOLE, "B.m = C.m", None, True),
        (WHOLE, "B.m = C.m AND A.k = C.k", None, True),
        ({"k": pa.int64(), "m": pa.string()}, "B.m = C.m", None, False),
        (WHOLE, "B.m = C.k", None, False),
        (WHOLE, "B.m = C.m", "A.m < B.m", False),
    ],
    ids=["whole numbers", "two of them", "strings", "a cast", "a filter in between"],
)
def test_parcels_are_for_plain_keys_of_whole_numbers_and_no_filter(types, on, where, packed, tmp_path):
    query = chain(types, on, where)
    assert Topology(query).packs(1) is packed
    assert isinstance(lower_level(query, tmp_path).outgoing, Parcels if packed else Slots)
    assert not Topology(query, parcels=False).packs(1)


def test_the_root_gives_rows(tmp_path):
    query = chain(WHOLE)
    states = {operator.id: OperatorState(ROUTING) for operator in query.operators}
    specs = TaskSpecs(LocalStorage(str(tmp_path)), "driver")
    last = specs.levels(Manifest("rows", query, GROUPS, SITES, states), Topology(query), [])[-1]
    assert (last.outgoing, last.is_root) == (Rows(Topology(query).flat_schema()), True)


def test_every_row_of_a_parcel_is_of_its_site_and_rows_without_a_key_stay_behind(tmp_path):
    spec = lower_level(chain(WHOLE), tmp_path)
    source = the_input_above(spec)
    keys = pa.array([None if row % 7 == 0 else row for row in range(200)], pa.int32())
    columns = {name: keys if name == "B.m" else pa.array(range(200), kind) for name, kind in _fields(source.schema)}
    parcels = sent(spec, columns)
    assert parcels.schema == HEAD
    assert set(parcels.column(TAG).to_pylist()) == {tag_of(Kind.PARCEL, source.tag)}
    seen: list[int] = []
    for site_key, parcel in zip(parcels.column(SITE).to_pylist(), parcels.column(BODY), strict=True):
        rows = unpack(source, parcel.as_buffer())
        hashes = rows.column(HASH).to_numpy().view(np.uint64)
        assert hashes.tolist() == xxhash64([rows.column("B.m")]).tolist()
        assert {KEYS[ROUTING[group]] for group in group_of(hashes, GROUPS)} == {site_key}
        seen += rows.column("B.m").to_pylist()
    assert sorted(seen) == [row for row in range(200) if row % 7]


def test_nothing_to_send_is_no_parcel(tmp_path):
    spec = lower_level(chain(WHOLE), tmp_path)
    columns = {name: pa.nulls(5, kind) for name, kind in _fields(the_input_above(spec).schema)}
    assert sent(spec, columns).num_rows == 0


def test_few_wide_rows_among_many_make_no_parcel_larger_than_its_limit(monkeypatch, tmp_path):
    monkeypatch.setattr(travel, "PARCEL_LIMIT_BYTES", 1000)
    spec = lower_level(chain(WHOLE | {"t": pa.string()}), tmp_path)
    source, texts = (
        the_input_above(spec),
        ["x" * (5000 if row % 50 == 3 else 300 if row < 9 else 5) for row in range(200)],
    )
    columns = {name: pa.array(range(200), kind) for name, kind in _fields(source.schema) if kind != pa.string()}
    parcels = sent(spec, columns | {name: pa.array(texts) for name in ("A.t", "B.t")})
    packed = [unpack(source, body.as_buffer()) for body in parcels.column(BODY)]
    assert all(rows.num_rows == 1 or rows.nbytes <= 1200 for rows in packed)  # Arrow pads columns
    assert len(packed) > 4
    assert sorted(row for rows in packed for row in rows.column("B.m").to_pylist()) == list(range(200))


def the_input_above(spec: LevelSpec) -> InputSpec:
    assert isinstance(spec.outgoing, Parcels)
    [route] = spec.outgoing.routes.values()
    return route.source


def sent(spec: LevelSpec, columns: dict[str, pa.Array]) -> pa.RecordBatch:
    """What the lower operator hands on of some results."""
    rows = pa.record_batch(columns)
    results = Results((rows,), (np.arange(rows.num_rows),))
    return spec.outgoing.send(spec.operators[0], results, KEYS)


@pytest.mark.spark
@pytest.mark.parametrize("large", ["false", "true"])
def test_a_tree_on_spark_is_exact_with_nulls_and_whatever_the_session_makes_of_binaries(spark, large):
    rng = np.random.default_rng(5)
    tables = {name: [_table(rng) for _ in range(3)] for name in "ABC"}
    before = spark.conf.get("spark.sql.execution.arrow.useLargeVarTypes")
    spark.conf.set("spark.sql.execution.arrow.useLargeVarTypes", large)
    try:
        flow = wm.Flow(spark)
        a, b, c = (flow.stream(name, wm.testing.replay(spark, parts)) for name, parts in tables.items())
        got = run(a.join(b, on="A.k = B.k").join(c, on="B.m = C.m"), sites=3, partitionGroups=7)
    finally:
        spark.conf.set("spark.sql.execution.arrow.useLargeVarTypes", before)
    expected = joined(tables, ["A.k = B.k", "B.m = C.m"])
    assert got == expected, difference(got, expected)


def _table(rng: np.random.Generator) -> pa.Table:
    keys, values = rng.integers(0, 20, 40), rng.integers(0, 6, 40)
    return pa.table(
        {"k": keys, "m": pa.array([None if value == 0 else value for value in values.tolist()], pa.int32())}
    )


def _fields(schema: pa.Schema) -> list[tuple[str, pa.DataType]]:
    return [(field.name, field.type) for field in schema] + ([] if "B.m" in schema.names else [("B.m", pa.int32())])


KINDS = [pa.bool_(), pa.int8(), pa.int32(), pa.int64(), pa.date32(), pa.timestamp("us", "UTC")]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_rows_of_a_split_group_are_dealt_out_by_their_values_or_copied(kind):
    """Whatever the type, also where values are null; the same rows go to the same sites when a task is repeated."""
    values = pa.array([None, 0, 1, *([1] * 97)], pa.int32() if kind == pa.date32() else pa.int64()).cast(kind)
    numbers, hashes = pa.array(range(100)), np.zeros(100, np.uint64)
    sites = np.array(ROUTING, "uint16").tobytes()
    source = InputSpec(4, OperatorId("join1"), InputName("A"), 1, pa.schema({"v": kind}), ("k",))
    dealt = Route(source, ("k",), sites, (Split(0, InputName("A"), (0, 1, 2)),))
    index, places = dealt.places(hashes, [values, numbers], GROUPS)
    assert index.tolist() == list(range(100))
    assert np.bincount(places, minlength=3).min() > 15
    backwards = dealt.places(hashes, [column.take(pa.array(range(99, -1, -1))) for column in (values, numbers)], GROUPS)
    assert backwards[1][::-1].tolist() == places.tolist()
    copied = Route(source, ("k",), sites, (Split(0, InputName("B"), (0, 2)),))
    index, places = copied.places(hashes, [values, numbers], GROUPS)
    assert [sorted(index[places == site].tolist()) for site in range(3)] == [list(range(100)), [], list(range(100))]
