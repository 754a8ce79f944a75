"""Whether moves have paid: what epochs would have taken without them, less what the moves cost.

Every epoch after a move is judged by itself. Its own tuples would have taken so long with the groups where they were
before, and take so long now; the difference is what the move has *got* of it, whatever the load has become meanwhile.
(To compare times before and after would call it a loss if the load grows.) What was *paid* is by how much the first
epoch, in which sites open what they were given, took longer than its tuples explain, and a new routing table.

Moves that got less than they paid are *thrashing*: the load does not stay as it is for long enough. Then decisions need
twice the `patience`, and half of it after moves that paid. All that was paid and got is summed up, and ages. If moves
have cost more than they got, more is asked of the next.
"""

from dataclasses import dataclass

from watersmeet.adapt.moving.pieces import Ints
from watersmeet.adapt.moving.watching import AGEING, Epoch
from watersmeet.adapt.statistics import Floats

FIRST_COST_MS, FIRST_COST_MS_PER_BYTE = 20.0, 1e-6
"""What a move is expected to cost at first: a new routing table, and state that is opened at a gigabyte a second."""

PRICED_LEAST_BYTES = 16 << 20
"""What an epoch took longer is the price of so many bytes at least: of a small move, most of it is chance."""

PRICE_AGEING = 0.995
"""What is left, after an epoch without moves, by which the price of a byte differs from the first."""

SLACK = 1.1
"""An epoch that takes as long as this times what its tuples explain has cost nothing beside."""

PATIENCE_MOST = 64
"""How many times as many epochs are watched at most."""

PRICE_MOST = 8.0
"""After moves that did not pay, so many times the cost is asked for at most."""


@dataclass
class Trial:
    """Moves that were made: pieces and where they were ``before``, what they got and what was paid.

    So many ``bytes`` of them went to another executor.
    """

    moved: Ints
    before: Ints
    bytes: float
    got_ms: float = 0.0
    paid_ms: float = FIRST_COST_MS
    epochs: int = 0

    @property
    def has_paid(self) -> bool:
        """Whether the gain exceeded the cost."""
        return self.got_ms > self.paid_ms

    def see(self, epoch: Epoch, ms_per_tuple: Floats) -> None:
        """Judge an epoch by its own tuples."""
        without = epoch.pieces.site.copy()
        without[self.moved] = self.before
        self.got_ms += epoch.would_take(without, ms_per_tuple) - epoch.would_take(epoch.pieces.site, ms_per_tuple)
        self.epochs += 1


@dataclass
class Ledger:
    """What moves have got and cost so far; sums age with every verdict."""

    got_ms: float = 0.0
    paid_ms: float = 0.0
    ms_per_byte: float = FIRST_COST_MS_PER_BYTE
    patience: int = 1

    def cost_ms(self, moved_bytes: float) -> float:
        """What moves of so many bytes have to get at least."""
        price = min(max(1.0, self.paid_ms / max(self.got_ms, 1e-9)), PRICE_MOST) if self.paid_ms else 1.0
        return price * (FIRST_COST_MS + self.ms_per_byte * moved_bytes)

    def pay(self, trial: Trial, epoch: Epoch, ms_per_tuple: Floats) -> None:
        """Learn what moves cost: by how much the first epoch after them took longer than its tuples explain."""
        expected = sum(
            float(epoch.machines.times(done * rate).max()) for done, rate in zip(epoch.done, ms_per_tuple, strict=True)
        )
        extra_ms = max(epoch.slowest_ms - SLACK * expected, 0.0)
        trial.paid_ms += extra_ms
        price = extra_ms / max(trial.bytes, PRICED_LEAST_BYTES)
        self.ms_per_byte += (price - self.ms_per_byte) * (1 - AGEING)

    def rest(self) -> None:
        """An epoch without moves: what the last ones cost tells less of the next, which no price rules out for ever."""
        self.ms_per_byte += (FIRST_COST_MS_PER_BYTE - self.ms_per_byte) * (1 - PRICE_AGEING)

    def settle(self, trial: Trial) -> None:
        """Take in what moves got and cost in the end."""
        self.got_ms = AGEING * self.got_ms + trial.got_ms
        self.paid_ms = AGEING * self.paid_ms + trial.paid_ms
        self.patience = max(1, self.patience // 2) if trial.has_paid else min(2 * self.patience, PATIENCE_MOST)


def told(trial: Trial) -> str:
    """What came of moves.

    >>> import numpy as np
    >>> told(Trial(np.array([7]), np.array([0]), 100.0, got_ms=-3.2))
    'the moves before got -3 ms and cost 20 ms'
    """
    return f"the moves before got {trial.got_ms:.0f} ms and cost {trial.paid_ms:.0f} ms"
