"""What the rates of an operator's groups are like: their mean, and how they differ by nature (after Paule and Mandel).

Rates that were counted differ by chance and by nature. By chance their variance would be so much; what is seen beyond
that is nature. Every group is one of the population, and counts by how well it is known, but no more than one that is
known exactly. To weigh groups by what they yielded would be to ask only those that are kept, which are the good ones,
and much alike. Where groups are equal the variance is below 0 as often as above, and counts as much, so that a mean of
many such numbers is 0.
"""

import numpy as np
from numpy.typing import NDArray

NOTHING = 1.0
"""Results that have aged to less than one tell nothing."""

ROUNDS = 8
"""Mean and variance each need the other; they settle within a few rounds."""


def differences(exposure: NDArray[np.float64], results: NDArray[np.float64], dispersion: float) -> tuple[float, float]:
    """The variance of rates by nature, for a mean of 1, and its weight: as many groups as are known well.

    >>> tuple(round(each, 3) for each in differences(np.array([100.0, 100.0]), np.array([500.0, 1500.0]), 1.0))
    (0.499, 1.998)
    >>> differences(np.array([100.0, 0.0]), np.array([1e-200, 0.0]), dispersion=1.0)
    (0.0, 0.0)
    """
    told = exposure > 0
    weights, made = exposure[told], results[told]
    if made.sum() < NOTHING:
        return 0.0, 0.0
    spread, pooled = 1.0, float(made.sum() / weights.sum())
    for _ in range(ROUNDS):
        mean = _settled(pooled, weights, made, dispersion, spread)
        chance = dispersion / (weights * mean)
        trust = 1 / (max(spread, 1e-6) + chance)
        seen = (made / (weights * mean) - 1) ** 2 * len(made) / max(len(made) - 1, 1)
        spread = float((trust**2 * (seen - chance)).sum() / (trust**2).sum())
    return spread, float((1 / (1 + chance)).sum())


def mean_rate(exposure: NDArray[np.float64], results: NDArray[np.float64], dispersion: float, spread: float) -> float:
    """The mean of the groups' rates, each weighed by how well it is known.

    >>> round(mean_rate(np.array([100.0, 1.0]), np.array([300.0, 1.0]), dispersion=1.0, spread=10.0), 2)
    2.02
    """
    told = exposure > 0
    weights, made = exposure[told], results[told]
    return _settled(float(made.sum() / weights.sum()), weights, made, dispersion, spread)


def _settled(
    mean: float, weights: NDArray[np.float64], made: NDArray[np.float64], dispersion: float, spread: float
) -> float:
    """The mean that goes with a variance, beginning with any."""
    spread = max(spread, 0.0)
    for _ in range(ROUNDS):
        trust = weights / (weights * mean * spread + dispersion)
        mean = float((trust * made / weights).sum() / trust.sum())
    return mean
