"""Equality of join keys, as Spark sees it: NaN equals NaN, 0.0 equals -0.0, and nulls inside a struct equal nulls."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.operators.ranges import Index


def same_keys(left: pa.RecordBatch, right: pa.RecordBatch) -> bool:
    """Whether every row of one batch has the key of the same row of the other.

    >>> same_keys(pa.record_batch({"k": [1.0, float("nan")]}), pa.record_batch({"k": [1.0, float("nan")]}))
    True
    >>> same_keys(pa.record_batch({"k": ["a"]}), pa.record_batch({"k": ["b"]}))
    False
    """
    pairs = zip(_leaves(left), _leaves(right), strict=True)
    return all(_equal(a, b) for a, b in pairs)


def key_classes(keys: Sequence[pa.RecordBatch], owners: Sequence[Index]) -> tuple[list[Index], Index]:
    """Number the distinct (owner, key) pairs: the numbers for each batch of keys, and the owner of each number."""
    columns = [_leaves(batch) for batch in keys]
    codes = [np.concatenate(owners)]
    for leaf in zip(*columns, strict=True):
        encoded = pa.concat_arrays([_comparable(array) for array in leaf]).dictionary_encode(null_encoding="encode")
        codes.append(encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64))
    distinct, numbers = np.unique(np.stack(codes), axis=1, return_inverse=True)
    return np.split(numbers.reshape(-1), np.cumsum([len(owner) for owner in owners])[:-1]), distinct[0]


def _leaves(batch: pa.RecordBatch) -> list[pa.Array]:
    return [leaf for column in batch.columns for leaf in _flatten(column)]


def _flatten(array: pa.Array) -> list[pa.Array]:
    if not pa.types.is_struct(array.type):
        return [array]
    return [array.is_valid(), *(leaf for child in array.flatten() for leaf in _flatten(child))]


def _equal(left: pa.Array, right: pa.Array) -> bool:
    left, right = _comparable(left), _comparable(right)
    equal = pc.or_(pc.fill_null(pc.equal(left, right), fill_value=False), pc.and_(left.is_null(), right.is_null()))
    return bool(pc.all(equal, min_count=0).as_py())


def _comparable(array: pa.Array) -> pa.Array:
    """Floats as integers of the same bits, with one NaN and one zero, so that equality is equality of bits."""
    if not pa.types.is_floating(array.type):
        return array
    width = array.type.bit_width
    values = array.fill_null(0).to_numpy(zero_copy_only=False) + 0.0
    values[np.isnan(values)] = np.nan
    return pa.array(values.view(f"i{width // 8}"), mask=array.is_null().to_numpy(zero_copy_only=False))
