"""A site's part in a step of cleanup: produce what is missing of some groups, group by group (Spill 4.1).

The groups are dealt out to all sites, whichever they live on. Their results are ordinary results of the operator: they
go to the sink or, from an operator below, up to the next one as new rows. The step ends early once the results exceed
its limit, between two groups, so that what flows up stays bounded; the groups not reached are left for a later step.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from watersmeet.engine.spec import CleaningOrder, OperatorSpec
from watersmeet.operators.generations import Piece
from watersmeet.operators.join import Join, Joined
from watersmeet.state.groups import members
from watersmeet.state.runs import open_run
from watersmeet.storage.base import Storage


@dataclass
class SiteCleaning:
    """Cleans the groups of one order; ``cleaned`` are those that are done."""

    storage: Storage
    groups: int
    order: CleaningOrder
    operator: OperatorSpec
    cleaned: list[int] = field(default_factory=list)
    read_bytes: int = 0

    def results(self, join: Join) -> Iterator[Joined]:
        """The missing results of the groups in order, until they are too many."""
        given_bytes = 0
        for group in self.order.groups:
            pieces = [self._pieces(group, source.name) for source in self.operator.inputs]
            for joined in join.missing(pieces, self.order.gather_bytes):
                given_bytes += sum(part.nbytes for part in joined.parts)
                yield joined
            self.cleaned.append(group)
            if given_bytes > self.order.limit_bytes:
                return

    def _pieces(self, group: int, source: str) -> list[Piece]:
        pieces = [
            Piece(part.generation, rows)
            for run, part in self.order.slices
            if run.input == source and group in members(part.groups)
            for rows in open_run(self.storage, run).of_groups(((group, group + 1),), self.groups)
        ]
        self.read_bytes += sum(piece.rows.bytes for piece in pieces)
        return pieces
