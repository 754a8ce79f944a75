"""Spark's ``xxhash64`` of keys made of whole numbers, for numpy.

Rows on their way from one operator to the next need the hash of their next key. Where it can be computed here, they
need not become rows of Spark's to be sent to their site. A null has no hash: rows with a null key join nothing.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.state.groups import Hashes

SEED = 42
_PRIME = tuple(
    np.uint64(prime)
    for prime in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)


def is_hashable(kind: pa.DataType) -> bool:
    """Whether columns of a type can be hashed here: whole numbers, and what Spark keeps as such.

    >>> [is_hashable(kind) for kind in (pa.int8(), pa.timestamp("us", "UTC"), pa.string(), pa.float64())]
    [True, True, False, False]
    """
    return kind in _SHORT or kind == pa.int64() or (pa.types.is_timestamp(kind) and kind.unit == "us")


def xxhash64(columns: Sequence[pa.Array]) -> Hashes:
    """Spark's ``xxhash64`` of each row, read as unsigned; no value may be null.

    >>> xxhash64([pa.array([0, 1])]).view(np.int64).tolist()
    [-5252525462095825812, -7001672635703045582]
    """
    hashes: Hashes = np.full(len(columns[0]), SEED, dtype=np.uint64)
    for column in columns:
        hashes = _long(_words(column), hashes) if column.type not in _SHORT else _short(_words(column), hashes)
    return hashes


_SHORT = (pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.date32())
"""Types that Spark hashes as 32 bits."""


def _words(column: pa.Array) -> npt.NDArray[np.uint64]:
    """The values as Spark's 32 or 64 bits."""
    if column.type not in _SHORT:
        longs: npt.NDArray[np.uint64] = column.view(pa.int64()).to_numpy().view(np.uint64)
        return longs
    numbers = column.view(pa.int32()) if column.type == pa.date32() else column.cast(pa.int32())
    shorts: npt.NDArray[np.uint64] = numbers.to_numpy().view(np.uint32).astype(np.uint64)
    return shorts


def _long(words: npt.NDArray[np.uint64], seeds: Hashes) -> Hashes:
    mixed = seeds + _PRIME[4] + np.uint64(8)
    mixed = mixed ^ (_rotate(words * _PRIME[1], 31) * _PRIME[0])
    return _finish(_rotate(mixed, 27) * _PRIME[0] + _PRIME[3])


def _short(words: npt.NDArray[np.uint64], seeds: Hashes) -> Hashes:
    mixed = seeds + _PRIME[4] + np.uint64(4)
    mixed = mixed ^ (words * _PRIME[0])
    return _finish(_rotate(mixed, 23) * _PRIME[1] + _PRIME[2])


def _finish(mixed: Hashes) -> Hashes:
    mixed = (mixed ^ (mixed >> np.uint64(33))) * _PRIME[1]
    mixed = (mixed ^ (mixed >> np.uint64(29))) * _PRIME[2]
    finished: Hashes = mixed ^ (mixed >> np.uint64(32))
    return finished


def _rotate(words: Hashes, bits: int) -> Hashes:
    rotated: Hashes = (words << np.uint64(bits)) | (words >> np.uint64(64 - bits))
    return rotated
