import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from watersmeet.model.errors import QueryError
from watersmeet.testing.replay import replay

UTC = dt.UTC


def epochs(stream, checkpoint, column="x") -> list[list[object]]:
    """Run a stream to its end; what arrived in each batch, sorted."""
    seen: dict[int, list[object]] = {}

    def take(batch, number):
        seen[number] = sorted(row[column] for row in batch.select(column).collect())

    query = stream.writeStream.option("checkpointLocation", str(checkpoint)).foreachBatch(take)
    query.trigger(availableNow=True).start().awaitTermination()
    return [seen[number] for number in sorted(seen)]


def ints(*values: int) -> pa.Table:
    return pa.table({"x": pa.array(values, pa.int64())})


@pytest.mark.spark
def test_epoch_i_of_every_stream_arrives_together(spark, tmp_path):
    a = replay(spark, [ints(1, 2), ints(), ints(3), ints()])
    b = replay(spark, [ints(10), ints(20), ints(), ints(), ints(50)])
    c = replay(spark, [ints(), ints(200)], str(tmp_path / "c"))
    assert a.isStreaming
    assert epochs(a.union(b).union(c), tmp_path / "ck") == [[1, 2, 10], [20, 200], [3], [], [50]]


@pytest.mark.spark
def test_epochs_arrive_in_the_order_of_the_list_whatever_their_number(spark, tmp_path):
    many = [ints(number) for number in range(12)]
    assert epochs(replay(spark, many), tmp_path / "ck") == [[number] for number in range(12)]


@pytest.mark.spark
def test_a_stream_at_a_path_goes_on_where_it_was(spark, tmp_path):
    path, checkpoint = str(tmp_path / "stream"), tmp_path / "ck"
    assert epochs(replay(spark, [ints(1), ints()], path), checkpoint) == [[1], []]
    before = {file.name: file.stat().st_ino for file in (tmp_path / "stream").glob("epoch-*")}
    assert epochs(replay(spark, [ints(1), ints(), ints(3), ints(4)], path), checkpoint) == [[3], [4]]
    after = {file.name: file.stat().st_ino for file in (tmp_path / "stream").glob("epoch-*")}
    assert before.items() <= after.items()
    assert epochs(replay(spark, [ints(1), ints(), ints(3), ints(4)], path), checkpoint) == []


MOMENT = dt.datetime(2024, 2, 29, 12, 30, 15, 123456)  # noqa: DTZ001 - naive on purpose
TYPES = {
    "bool": (pa.bool_(), True, "boolean", True),
    "int8": (pa.int8(), -7, "tinyint", -7),
    "int16": (pa.int16(), -300, "smallint", -300),
    "int32": (pa.int32(), 1, "int", 1),
    "int64": (pa.int64(), 2**60, "bigint", 2**60),
    "uint8": (pa.uint8(), 255, "smallint", 255),
    "uint16": (pa.uint16(), 65_535, "int", 65_535),
    "uint32": (pa.uint32(), 2**32 - 1, "bigint", 2**32 - 1),
    "uint64": (pa.uint64(), 2**64 - 1, "decimal(20,0)", Decimal(2**64 - 1)),
    "float32": (pa.float32(), 0.5, "float", 0.5),
    "float64": (pa.float64(), 0.1, "double", 0.1),
    "string": (pa.string(), "é", "string", "é"),
    "large_string": (pa.large_string(), "x", "string", "x"),
    "dictionary": (pa.dictionary(pa.int8(), pa.string()), "x", "string", "x"),
    "binary": (pa.binary(), b"\x00\xff", "binary", b"\x00\xff"),
    "fixed_binary": (pa.binary(2), b"ab", "binary", b"ab"),
    "date32": (pa.date32(), dt.date(1960, 1, 2), "date", dt.date(1960, 1, 2)),
    "date64": (pa.date64(), dt.date(2024, 2, 29), "date", dt.date(2024, 2, 29)),
    "decimal": (pa.decimal128(38, 10), Decimal("1.5"), "decimal(38,10)", Decimal("1.5000000000")),
    "decimal256": (pa.decimal256(10, 2), Decimal("1.50"), "decimal(10,2)", Decimal("1.50")),
    "naive_us": (pa.timestamp("us"), MOMENT, "timestamp_ntz", MOMENT),
    "naive_s": (pa.timestamp("s"), MOMENT.replace(microsecond=0), "timestamp_ntz", MOMENT.replace(microsecond=0)),
    "naive_ns": (pa.timestamp("ns"), MOMENT, "timestamp_ntz", MOMENT),
    "utc_ms": (pa.timestamp("ms", "UTC"), MOMENT.replace(microsecond=0, tzinfo=UTC), "timestamp", None),
    "duration": (pa.duration("ms"), dt.timedelta(seconds=1.5), "interval day to second", dt.timedelta(seconds=1.5)),
    "list": (pa.list_(pa.uint8()), [1, None], "array<smallint>", [1, None]),
    "map": (pa.map_(pa.string(), pa.int8()), [("a", 1)], "map<string,tinyint>", {"a": 1}),
}


@pytest.mark.spark
def test_every_type_arrives_as_the_one_spark_has(spark, tmp_path):
    table = pa.table({name: pa.array([value, None], kind) for name, (kind, value, _, _) in TYPES.items()})
    nested = [{"a": {"b": [{"c": 3}]}, "d": MOMENT}, None]
    kind = pa.struct({"a": pa.struct({"b": pa.list_(pa.struct({"c": pa.uint16()}))}), "d": pa.timestamp("ns")})
    stream = replay(spark, [table.append_column("nested", pa.array(nested, kind))])
    types = dict(stream.dtypes)
    assert types.pop("nested") == "struct<a:struct<b:array<struct<c:int>>>,d:timestamp_ntz>"
    assert types == {name: spark_type for name, (_, _, spark_type, _) in TYPES.items()}

    rows: list[pa.Table] = []
    query = stream.writeStream.option("checkpointLocation", str(tmp_path)).foreachBatch(
        lambda batch, _: rows.append(batch.toArrow())
    )
    query.trigger(availableNow=True).start().awaitTermination()
    [row, nulls] = rows[0].to_pylist()
    assert set(nulls.values()) == {None}
    assert row.pop("nested") == nested[0]
    assert row.pop("utc_ms") == TYPES["utc_ms"][1]
    assert {**row, "map": dict(row["map"])} == {name: TYPES[name][3] for name in row}


def test_digits_below_a_microsecond_are_cut_off(tmp_path):
    table = pa.table({"t": pa.array([1_999, -1], pa.timestamp("ns"))})
    replay(FakeSpark(), [table], str(tmp_path))
    assert pq.read_table(tmp_path / "epoch-00000.parquet")["t"].cast(pa.int64()).to_pylist()[0] == 1


class FakeSpark:
    """A session that is asked for a stream and gives nothing, for what happens before."""

    def __getattr__(self, name):
        return self if name == "readStream" else lambda *_: self


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (pa.time64("us"), "x"),
        (pa.null(), "x"),
        (pa.decimal256(50, 2), "x"),
        (pa.month_day_nano_interval(), "x"),
        (pa.list_(pa.time32("s")), "x[]"),
        (pa.struct({"y": pa.map_(pa.string(), pa.null())}), "x.y value"),
    ],
    ids=str,
)
def test_a_type_that_spark_lacks_is_refused_with_its_column(kind, name):
    with pytest.raises(QueryError, match=f"column {name.replace('[', '.').replace(']', '.')} is of type"):
        replay(FakeSpark(), [pa.table({"x": pa.nulls(1, kind)})])


def test_no_tables_are_refused():
    with pytest.raises(QueryError, match="replay got no tables"):
        replay(FakeSpark(), [])


@pytest.mark.parametrize(
    ("second", "why"),
    [
        (pa.table({"x": pa.array([1], pa.int32())}), "x int32 against x int64"),
        (pa.table({"y": pa.array([1], pa.int64())}), "y int64 against x int64"),
        (pa.table({"x": [1], "y": [1]}), "y int64 against x int64"),
    ],
)
def test_tables_of_different_columns_are_refused_by_number(second, why):
    with pytest.raises(QueryError, match=f"table 2 has other columns than table 0: {why}"):
        replay(FakeSpark(), [ints(1), ints(), second])


def test_tables_that_differ_only_in_what_spark_does_not_see_are_the_same(tmp_path):
    strict = pa.table({"x": [1]}, schema=pa.schema([pa.field("x", pa.int64(), nullable=False)], metadata={"k": "v"}))
    replay(FakeSpark(), [ints(1), strict], str(tmp_path))
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("tables", [[ints(1)], [ints(1), ints(2, 3)], [pa.table({"y": [1]}), pa.table({"y": [2]})]])
def test_a_path_that_holds_another_stream_is_refused(tables, tmp_path):
    replay(FakeSpark(), [ints(1), ints(2)], str(tmp_path))
    with pytest.raises(QueryError, match=r"epoch-0000.\.parquet is not part of this stream"):
        replay(FakeSpark(), tables, str(tmp_path))


def test_a_path_with_other_files_is_refused(tmp_path):
    (tmp_path / "notes.txt").touch()
    with pytest.raises(QueryError, match=r"notes\.txt is not part of this stream"):
        replay(FakeSpark(), [ints(1)], str(tmp_path))


def test_a_path_that_spark_takes_for_a_pattern_is_refused(tmp_path):
    with pytest.raises(QueryError, match="Spark takes it for a pattern"):
        replay(FakeSpark(), [ints(1)], str(tmp_path / "a[1]"))
