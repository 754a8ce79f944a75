"""Types of keys: which columns may be compared, and as what.

Two sides of an equality are compared only where Spark compares them exactly. `common` is that rule:

| sides | compared as |
|---|---|
| the same type | that type |
| integers of different widths | the wider |
| float and double | double |
| structs with fields of the same names, and arrays | as what their fields and items are compared as |
| decimals | the decimal with the most digits before and after the point, at most 38 in all |
| anything else | not at all: the user must cast one side |

Types are *canonical* first: what Spark has one type for (``string`` and ``large_string``, timestamps of any unit and
zone, fields that may or may not be null) is one Arrow type.
"""

import re

import pyarrow as pa

from watersmeet.model.plan import quoted

_DDL = {
    pa.null(): "void",
    pa.bool_(): "boolean",
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.date32(): "date",
    pa.timestamp("us", tz="UTC"): "timestamp",
    pa.timestamp("us"): "timestamp_ntz",
}
_INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_SCALAR_KEYS = frozenset(_DDL) - {pa.null()}
_DECIMAL_DIGITS_MAX = 38
_DECIMAL_DIGITS_IN_LONG = 18


def canonical(type_: pa.DataType) -> pa.DataType:
    """The one Arrow type for what is one type in Spark.

    >>> canonical(pa.large_string())
    DataType(string)
    >>> canonical(pa.timestamp("ms", tz="Europe/Berlin"))
    TimestampType(timestamp[us, tz=UTC])
    """
    if pa.types.is_large_string(type_):
        return pa.string()
    if pa.types.is_large_binary(type_):
        return pa.binary()
    if pa.types.is_timestamp(type_):
        return pa.timestamp("us", tz="UTC" if type_.tz else None)
    return _canonical_nested(type_) if pa.types.is_nested(type_) else type_


def _canonical_nested(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(type_):
        return pa.struct([pa.field(field.name, canonical(field.type)) for field in type_])
    if pa.types.is_map(type_):
        return pa.map_(canonical(type_.key_type), canonical(type_.item_type))
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return pa.list_(canonical(type_.value_type))
    return type_


def ddl(type_: pa.DataType) -> str:
    """A canonical type as Spark writes it.

    >>> ddl(pa.int64()), ddl(pa.struct([("at", pa.timestamp("us"))]))
    ('bigint', 'struct<at:timestamp_ntz>')
    """
    if pa.types.is_decimal(type_):
        return f"decimal({type_.precision},{type_.scale})"
    if pa.types.is_struct(type_):
        return f"struct<{','.join(f'{field.name}:{ddl(field.type)}' for field in type_)}>"
    if pa.types.is_map(type_):
        return f"map<{ddl(type_.key_type)},{ddl(type_.item_type)}>"
    if pa.types.is_list(type_):
        return f"array<{ddl(type_.value_type)}>"
    return _DDL.get(type_, str(type_))


def common(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """The type in which two canonical types are compared exactly, or None.

    >>> common(pa.int32(), pa.int64())
    DataType(int64)
    >>> common(pa.decimal128(10, 2), pa.decimal128(8, 4))
    Decimal128Type(decimal128(12, 4))
    >>> common(pa.int64(), pa.string()) is None
    True
    """
    if left == right:
        return left
    if left in _INTEGERS and right in _INTEGERS:
        return max(left, right, key=_INTEGERS.index)
    if is_float(left) and is_float(right):
        return pa.float64()
    if pa.types.is_decimal128(left) and pa.types.is_decimal128(right):
        return _wider_decimal(left, right)
    return _common_nested(left, right)


def _common_nested(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    if pa.types.is_struct(left) and pa.types.is_struct(right):
        return _common_struct(left, right)
    if pa.types.is_list(left) and pa.types.is_list(right):
        inner = common(left.value_type, right.value_type)
        return None if inner is None else pa.list_(inner)
    return None


def _common_struct(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    if [field.name for field in left] != [field.name for field in right]:
        return None
    pairs = [(a.name, common(a.type, b.type)) for a, b in zip(left, right, strict=True)]
    return None if any(kind is None for _, kind in pairs) else pa.struct(pairs)


def _wider_decimal(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    scale = max(left.scale, right.scale)
    precision = scale + max(left.precision - left.scale, right.precision - right.scale)
    return pa.decimal128(precision, scale) if precision <= _DECIMAL_DIGITS_MAX else None


def is_float(type_: pa.DataType) -> bool:
    """Whether the type has two zeros and values that are no numbers."""
    return type_ in (pa.float32(), pa.float64())


def is_integer(type_: pa.DataType) -> bool:
    """Whether the type is one of Spark's whole numbers."""
    return type_ in _INTEGERS


def integer_digits(type_: pa.DataType) -> int:
    """How many digits the largest number of a type of whole numbers has.

    >>> integer_digits(pa.int32()), integer_digits(pa.int64())
    (10, 19)
    """
    return len(str(2 ** (type_.bit_width - 1)))


def may_be_key(type_: pa.DataType) -> bool:
    """Whether rows can be matched on values of the type.

    >>> may_be_key(pa.struct([("x", pa.int64())])), may_be_key(pa.map_(pa.int64(), pa.int64()))
    (True, False)
    """
    if pa.types.is_struct(type_):
        return all(may_be_key(field.type) for field in type_)
    if pa.types.is_list(type_):
        return may_be_key(type_.value_type)
    return type_ in _SCALAR_KEYS or pa.types.is_decimal128(type_)


def is_told_by_hash(type_: pa.DataType) -> bool:
    """Whether different values always have different hashes: Spark's xxhash64 maps at most 64 bits one to one.

    >>> is_told_by_hash(pa.int64()), is_told_by_hash(pa.string())
    (True, False)
    """
    if pa.types.is_decimal128(type_):
        return bool(type_.precision <= _DECIMAL_DIGITS_IN_LONG)
    return type_ in _SCALAR_KEYS - {pa.string(), pa.binary()}


def cast(sql: str, own: pa.DataType, wanted: pa.DataType) -> str:
    """The expression in the wanted type.

    >>> cast("`A`.`x`", pa.int32(), pa.int64())
    'CAST(`A`.`x` AS BIGINT)'
    """
    return sql if own == wanted else f"CAST({sql} AS {_type_sql(wanted)})"


def _type_sql(type_: pa.DataType) -> str:
    """A type in a cast, with the names of a struct's fields as they are."""
    if pa.types.is_struct(type_):
        return f"STRUCT<{', '.join(f'{quoted(field.name)}: {_type_sql(field.type)}' for field in type_)}>"
    return f"ARRAY<{_type_sql(type_.value_type)}>" if pa.types.is_list(type_) else ddl(type_).upper()


def with_one_zero(sql: str, type_: pa.DataType) -> str:
    """The expression with -0.0, which equals 0.0, made 0.0; other types stay as they are.

    >>> with_one_zero("`A`.`x`", pa.float64())
    'CASE WHEN `A`.`x` = 0 THEN CAST(0 AS DOUBLE) ELSE `A`.`x` END'
    """
    return f"CASE WHEN {sql} = 0 THEN CAST(0 AS {ddl(type_).upper()}) ELSE {sql} END" if is_float(type_) else sql


def with_its_own_zero(sql: str) -> str:
    """The expression that `with_one_zero` was given.

    >>> with_its_own_zero("CASE WHEN `A`.`x` = 0 THEN CAST(0 AS DOUBLE) ELSE `A`.`x` END")
    '`A`.`x`'
    """
    return re.sub(r"^CASE WHEN (.+) = 0 THEN CAST\(0 AS \w+\) ELSE \1 END$", r"\1", sql)
