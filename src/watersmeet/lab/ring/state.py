"""What a ring holds on 1, 2 and 4 sites, with windows of four epochs and of many.

Of each run, groups go when their last row has ended, and files when their last group has. So rows that count are the
same on any number of sites, also where windows are short; bytes of files are only where they have many epochs, as up to
an epoch's files more are there than are needed, and each has a head of its own.
"""

from watersmeet.lab.ring.local import Ran, Size, images, run_ring
from watersmeet.operators.ring.schemes import Scheme

SHORT = Size(epochs=8, rows=60, pixels=200, window_s=4)
LONG = Size(epochs=60, rows=2_000, pixels=8, window_s=40)
QUICK_LONG = Size(epochs=6, rows=50, pixels=8, window_s=4)
NEAR = "ABS(A.id - B.id) <= 1"
SITES = (1, 2, 4)


def run_states(size: Size) -> dict[int, Ran]:
    """The same rows on each number of sites."""
    epochs = images(size)
    return {sites: run_ring(size, epochs, Scheme(), sites, NEAR) for sites in SITES}
