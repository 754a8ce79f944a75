"""How much the rates of an operator's groups differ by nature (after DerSimonian and Laird).

Rates that were counted differ by chance and by nature. By chance their variance would be so much; what is seen beyond
that is nature. Where groups are equal it is below 0 as often as above, so that a mean of many such numbers is 0.
"""

import numpy as np
from numpy.typing import NDArray

NOTHING = 1.0
"""Results that have aged to less than one tell nothing."""


def differences(exposure: NDArray[np.float64], results: NDArray[np.float64], dispersion: float) -> tuple[float, float]:
    """The variance of rates by nature, for a mean of 1, and its weight: as many results as independent ones tell.

    >>> differences(np.array([100.0, 100.0]), np.array([500.0, 1500.0]), dispersion=1.0)
    (0.249, 2000.0)
    >>> differences(np.array([100.0, 0.0]), np.array([1e-200, 0.0]), dispersion=1.0)
    (0.0, 0.0)
    """
    told = exposure > 0
    weights, made = exposure[told], results[told]
    if made.sum() < NOTHING:
        return 0.0, 0.0
    mean = made.sum() / weights.sum()
    seen = (weights * (made / (weights * mean) - 1) ** 2).sum() / weights.sum()
    by_chance = dispersion * len(made) / made.sum()
    return float(seen - by_chance), float(made.sum() / dispersion)
