"""A function that is asked of pairs of rows at some cost, as where records of two sources are matched."""

import numpy as np
import pyarrow as pa


def compared(ours: pa.Array, theirs: pa.Array, rounds: int) -> pa.Array:
    """Compare values; the more rounds, the longer it takes. All are alike.

    >>> compared(pa.array([1, 2]), pa.array([3, 4]), rounds=3).to_pylist()
    [True, True]
    """
    distance = (ours.to_numpy() - theirs.to_numpy()).astype(np.float64)
    for _ in range(rounds):
        distance = np.cos(distance)
    return pa.array(np.abs(distance) <= 1.0)
