"""How many examples hypothesis draws for a test that wants many."""

import os

MOST = "EXAMPLES_MOST"
"""The variable that bounds them: `make test` has to be quick, and `make coverage` only counts lines."""


def examples(number: int) -> int:
    return min(number, int(os.environ.get(MOST, number)))
