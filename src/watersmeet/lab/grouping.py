"""The engine's partition groups for the generator.

The generator gives every partition its own ratio. Only where its partitions are the engine's groups can a strategy tell
productive groups from others.
"""

import pyarrow as pa

from watersmeet.lab.generator import Int64s
from watersmeet.operators.hashing import xxhash64
from watersmeet.state.groups import group_of


def engine_group(values: Int64s, groups: int) -> Int64s:
    """The partition group in which the engine keeps rows with each value as their key.

    >>> import numpy as np
    >>> engine_group(np.arange(4), 300).tolist()
    [214, 186, 245, 51]
    """
    return group_of(xxhash64([pa.array(values)]), groups)
