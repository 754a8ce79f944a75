"""Keys to groups as in the engine: a 64-bit hash, and ranges of it (`watersmeet.state.groups`).

The engine's hash is Spark's ``xxhash64``; here it is splitmix64, which is as even and one line of numpy a step. Which
key falls into which group thus differs from the engine's, how they spread does not.
"""

import numpy as np
from numpy.typing import NDArray

from watersmeet.state.groups import Hashes, group_of


def splitmix64(values: NDArray[np.int64]) -> Hashes:
    """The hash of each value, after Steele, Lea and Flood.

    >>> hex(int(splitmix64(np.array([0]))[0]))
    '0xe220a8397b1dcdaf'
    """
    mixed = values.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def key_group(values: NDArray[np.int64], groups: int) -> NDArray[np.int64]:
    """The partition group of each key.

    >>> key_group(np.arange(4), 300).tolist()
    [264, 169, 177, 34]
    """
    return group_of(splitmix64(values), groups)
