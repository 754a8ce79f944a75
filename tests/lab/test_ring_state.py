"""What a ring holds does not follow the number of sites, also where windows are of few epochs."""

import pytest

from watersmeet.lab.ring import state
from watersmeet.lab.ring.local import Size, images, run_ring
from watersmeet.operators.ring.schemes import Scheme


@pytest.mark.long
@pytest.mark.parametrize("size", [state.SHORT, Size(epochs=8, rows=200, pixels=1, window_s=2)], ids=["four", "two"])
def test_a_ring_holds_as_many_rows_on_any_number_of_sites_and_few_that_have_ended(size):
    epochs, needed = images(size), 2 * size.rows * size.window_s
    held = [run_ring(size, epochs, Scheme(), sites, state.NEAR).held[size.window_s :] for sites in state.SITES]
    assert all(max(each) <= 1.02 * min(each) for each in zip(*held, strict=True)), held
    assert max(map(max, held)) <= 1.1 * needed, held
