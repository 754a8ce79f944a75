"""Equality of join keys, as Spark sees it.

NaN equals NaN, 0.0 equals -0.0, and nulls inside a struct or an array equal nulls.
"""

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
    columns = zip(*(batch.columns for batch in keys), strict=True)
    codes = [code for parts in columns for code in _codes(pa.concat_arrays(parts))]
    distinct, numbers = np.unique(np.stack([np.concatenate(owners), *codes]), axis=1, return_inverse=True)
    return np.split(numbers.reshape(-1), np.cumsum([len(owner) for owner in owners])[:-1]), distinct[0]


def _codes(array: pa.Array) -> list[Index]:
    """Whole numbers of which all are equal for two rows if and only if the rows' values are."""
    if pa.types.is_list(array.type):
        return [_list_codes(array)]
    if pa.types.is_struct(array.type):
        return [code for leaf in _flatten(array) for code in _codes(leaf)]
    encoded = _comparable(array).dictionary_encode(null_encoding="encode")
    return [encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)]


def _list_codes(array: pa.Array) -> Index:
    """Arrays are numbered by their length, then by one item after the other."""
    lengths: Index = pc.fill_null(pc.list_value_length(array), -1).to_numpy(zero_copy_only=False).astype(np.int64)
    items = np.unique(np.stack(_codes(array.flatten())), axis=1, return_inverse=True)[1].reshape(-1)
    starts = np.cumsum(np.maximum(lengths, 0)) - np.maximum(lengths, 0)
    codes: Index = lengths.copy()
    for place in range(int(lengths.max(initial=0))):
        longer = np.flatnonzero(lengths > place)
        pairs = np.stack([codes[longer], items[starts[longer] + place]])
        codes[longer] = np.unique(pairs, axis=1, return_inverse=True)[1].reshape(-1) + codes.max() + 1
    return codes


def _leaves(batch: pa.RecordBatch) -> list[pa.Array]:
    return [leaf for column in batch.columns for leaf in _flatten(column)]


def _flatten(array: pa.Array) -> list[pa.Array]:
    if pa.types.is_list(array.type):
        return [pc.list_value_length(array), *_flatten(array.flatten())]
    if not pa.types.is_struct(array.type):
        return [array]
    return [array.is_valid(), *(leaf for child in array.flatten() for leaf in _flatten(child))]


def _equal(left: pa.Array, right: pa.Array) -> bool:
    if len(left) != len(right):  # the items of arrays
        return False
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
