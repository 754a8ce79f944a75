"""The engine's partition groups for numpy: Spark's ``xxhash64`` of a BIGINT, and the group of a hash.

The generator gives every partition its own ratio. Only where its partitions are the engine's groups can a strategy tell
productive groups from others.
"""

import numpy as np

from watersmeet.lab.generator import Int64s
from watersmeet.state.groups import Hashes, group_of

SEED = 42
_PRIMES = tuple(
    np.uint64(prime)
    for prime in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)


def xxhash64(values: Int64s) -> Hashes:
    """Spark's hash of each value, read as unsigned.

    >>> np.asarray(xxhash64(np.array([0, 1]))).astype(np.int64).tolist()
    [-5252525462095825812, -7001672635703045582]
    """
    one, two, three, four, five = _PRIMES
    mixed = _rotate(values.astype(np.int64).view(np.uint64) * two, 31) * one
    mixed = mixed ^ (np.uint64(SEED) + five + np.uint64(8))
    mixed = _rotate(mixed, 27) * one + four
    mixed = (mixed ^ (mixed >> np.uint64(33))) * two
    mixed = (mixed ^ (mixed >> np.uint64(29))) * three
    hashes: Hashes = mixed ^ (mixed >> np.uint64(32))
    return hashes


def engine_group(values: Int64s, groups: int) -> Int64s:
    """The partition group in which the engine keeps rows with each value as their key."""
    return group_of(xxhash64(values), groups)


def _rotate(words: Hashes, bits: int) -> Hashes:
    rotated: Hashes = (words << np.uint64(bits)) | (words >> np.uint64(64 - bits))
    return rotated
