"""What a ring holds on 1, 2 and 4 sites: a band join with windows of many epochs.

A run is dropped when its last row has ended. So a ring holds, of each input, up to an epoch's rows more than it needs;
with more sites runs have fewer rows, some end earlier, and that is less. Of windows of four epochs it was a tenth: 540,
513 and 492 rows on 1, 2 and 4 sites, of which 481 were needed. The longer windows are, in epochs, the less it matters.
"""

from watersmeet.lab.ring.local import Ran, Size, images, run_ring
from watersmeet.operators.ring.schemes import Scheme

STATE = Size(epochs=60, rows=2_000, pixels=8, window_s=40)
QUICK_STATE = Size(epochs=6, rows=50, pixels=8, window_s=4)
NEAR = "ABS(A.id - B.id) <= 1"
SITES = (1, 2, 4)


def run_states(size: Size) -> dict[int, Ran]:
    """The same rows on each number of sites."""
    epochs = images(size)
    return {sites: run_ring(size, epochs, Scheme(), sites, NEAR) for sites in SITES}
