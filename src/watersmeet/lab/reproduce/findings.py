"""A claim of a paper, what was seen, and whether the claim held."""

from collections.abc import Mapping

import msgspec

from watersmeet.lab.reproduce.record import Record

AHEAD = 1.01
"""Less than one in a hundred is no lead."""
FAR_AHEAD = 1.25
"""Our reading of "much more"; the papers give no number."""


class Finding(msgspec.Struct, frozen=True):
    """One claim; ``held`` is None where sizes were too small to judge."""

    claim: str
    seen: str
    held: bool | None

    def unjudged(self) -> "Finding":
        """The same without a verdict."""
        return msgspec.structs.replace(self, held=None)

    def text(self) -> str:
        """Three lines for people."""
        verdict = {True: "held", False: "did NOT hold", None: "not judged: sizes are too small"}[self.held]
        return f"  claim    {self.claim}\n  seen     {self.seen}\n  verdict  {verdict}"


def ahead(first: float, second: float, by: float = AHEAD) -> bool:
    """Whether a number clearly exceeds another.

    >>> ahead(100, 99), ahead(100, 100), ahead(5, 4, by=FAR_AHEAD)
    (True, False, False)
    """
    return first > by * second


def shares(records: Mapping[str, Record]) -> str:
    """What part of all results each run had by the end of its input."""
    parts = (f"{name} {made.results / max(1, made.total):.1%}" for name, made in records.items())
    total = max(made.total for made in records.values())
    return f"{', '.join(parts)} of {total:,} results at run time"


def spill_counts(records: Mapping[str, Record]) -> str:
    """How often each site of each run spilled."""
    return ", ".join(
        f"{name} {' and '.join(str(made.spills_at(site)) for site in range(len(made.memory)))}"
        for name, made in records.items()
    )
