"""A look at a slice of a run for rows that can go: what a task is asked, and what it tells if they are too few."""

from dataclasses import dataclass

import msgspec

from watersmeet.model.ids import RunId


@dataclass(frozen=True)
class Look:
    """A slice is written anew if more than the part ``at`` of its rows can go by the keys that streams have promised.

    Of those promised up to the version ``told``, ``gone`` rows were found before, and only rows of newer keys are
    looked up. Without it, or where the newer keys cannot be told, all rows are looked at, if the look ``scans``.
    """

    at: float
    told: int | None = None
    gone: int = 0
    scans: bool = True


class Looked(msgspec.Struct, frozen=True):
    """A slice was looked at and left as it is: so many of its rows can go; perhaps all were ``scanned`` for that."""

    run: RunId
    generation: int
    rows: int
    gone: int
    scanned: bool = False

    def is_worth(self, part: float) -> bool:
        """Whether more than a part of the rows can go.

        >>> [Looked(RunId("r"), 0, rows=10, gone=gone).is_worth(0.1) for gone in (1, 2)]
        [False, True]
        """
        return self.gone > part * self.rows
