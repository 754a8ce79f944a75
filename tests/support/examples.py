"""How many examples hypothesis draws for a test that wants many."""

import os

MOST = "EXAMPLES_MOST"
"""The variable that bounds them: `make coverage` counts lines, for which a few examples are enough."""


def examples(number: int) -> int:
    return min(number, int(os.environ.get(MOST, number)))
