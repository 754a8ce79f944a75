import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.planning.types import (
    canonical,
    common,
    ddl,
    is_told_by_hash,
    may_be_key,
    with_its_own_zero,
    with_one_zero,
)

UTC = pa.timestamp("us", tz="UTC")
SCALARS = [
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string(), pa.binary()),
    *(
        pa.bool_(),
        pa.date32(),
        UTC,
        pa.timestamp("us"),
        pa.decimal128(10, 2),
        pa.decimal128(38, 0),
        pa.decimal128(38, 38),
    ),
]


@pytest.mark.parametrize(
    ("given_type", "expected"),
    [
        (pa.large_string(), pa.string()),
        (pa.large_binary(), pa.binary()),
        (pa.timestamp("ns", tz="America/New_York"), UTC),
        (pa.timestamp("s"), pa.timestamp("us")),
        (pa.struct([pa.field("a", pa.large_string(), nullable=False)]), pa.struct([("a", pa.string())])),
        (pa.large_list(pa.large_string()), pa.list_(pa.string())),
        (pa.map_(pa.large_string(), pa.timestamp("ms", tz="UTC")), pa.map_(pa.string(), UTC)),
        (pa.int8(), pa.int8()),
    ],
)
def test_what_is_one_type_in_spark_is_one_type_here(given_type, expected):
    assert canonical(given_type) == expected


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (pa.int8(), pa.int64(), pa.int64()),
        (pa.int16(), pa.int32(), pa.int32()),
        (pa.float32(), pa.float64(), pa.float64()),
        (pa.float32(), pa.float32(), pa.float32()),
        (pa.decimal128(10, 2), pa.decimal128(8, 4), pa.decimal128(12, 4)),
        (pa.decimal128(38, 0), pa.decimal128(20, 2), None),
        (pa.int64(), pa.string(), None),
        (pa.int32(), pa.float64(), None),
        (pa.int64(), pa.decimal128(20, 0), None),
        (pa.date32(), UTC, None),
        (UTC, pa.timestamp("us"), None),
        (pa.bool_(), pa.int8(), None),
        (pa.string(), pa.binary(), None),
        (pa.struct([("a", pa.int64())]), pa.struct([("a", pa.int64())]), pa.struct([("a", pa.int64())])),
        (pa.struct([("a", pa.int64())]), pa.struct([("b", pa.int64())]), None),
        (pa.struct([("a", pa.int64())]), pa.struct([("a", pa.int32())]), pa.struct([("a", pa.int64())])),
        (pa.struct([("a", pa.int64())]), pa.struct([("a", pa.string())]), None),
        (pa.list_(pa.int64()), pa.list_(pa.int8()), pa.list_(pa.int64())),
        (pa.list_(pa.int64()), pa.list_(pa.string()), None),
        (pa.list_(pa.int64()), pa.int64(), None),
    ],
)
def test_types_are_compared_only_where_it_is_exact(left, right, expected):
    assert common(left, right) == expected
    assert common(right, left) == expected


@given(st.sampled_from(SCALARS), st.sampled_from(SCALARS), st.sampled_from(SCALARS))
def test_the_common_type_of_three_does_not_depend_on_their_order(first, second, third):
    def fold(*types):
        found = types[0]
        for each in types[1:]:
            found = common(found, each) if found is not None else None
        return found

    assert fold(first, second, third) == fold(third, second, first) == fold(second, first, third)


@given(st.sampled_from(SCALARS), st.sampled_from(SCALARS))
def test_the_common_type_holds_both(left, right):
    shared = common(left, right)
    assert shared is None or (common(shared, left) == shared and common(shared, right) == shared)


@pytest.mark.parametrize(
    "type_",
    [pa.map_(pa.string(), pa.int64()), pa.list_(pa.map_(pa.string(), pa.int64())), pa.null(), pa.duration("us")],
)
def test_maps_are_no_keys(type_):
    assert not may_be_key(type_)
    assert not may_be_key(pa.struct([("deep", pa.struct([("a", type_)]))]))


@pytest.mark.parametrize("type_", SCALARS)
def test_scalars_are_keys_and_so_are_structs_of_them(type_):
    assert may_be_key(type_)
    assert may_be_key(pa.struct([("deep", pa.struct([("a", type_)]))]))


def test_the_hash_decides_for_at_most_64_bits():
    told = [*(type_ for type_ in SCALARS if is_told_by_hash(type_))]
    assert pa.string() not in told
    assert pa.binary() not in told
    assert len(told) == len(SCALARS) - 4
    assert is_told_by_hash(pa.decimal128(18, 3))
    assert not is_told_by_hash(pa.decimal128(19, 3))
    assert not is_told_by_hash(pa.struct([("a", pa.int8())]))


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        (pa.int8(), "tinyint"),
        (pa.timestamp("us"), "timestamp_ntz"),
        (pa.decimal128(10, 2), "decimal(10,2)"),
        (pa.list_(pa.struct([("Ab", pa.map_(pa.string(), UTC))])), "array<struct<Ab:map<string,timestamp>>>"),
        (pa.null(), "void"),
    ],
)
def test_types_are_named_as_spark_names_them(type_, text):
    assert ddl(type_) == text


@pytest.mark.parametrize("sql", ["`A`.`x`", "CAST(`A`.`x` AS DOUBLE)", "(`A`.`x` + 1 = 0)"])
def test_a_normalised_zero_can_be_taken_back(sql):
    assert with_its_own_zero(with_one_zero(sql, pa.float64())) == sql
    assert with_its_own_zero(sql) == sql
