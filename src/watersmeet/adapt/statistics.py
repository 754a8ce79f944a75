"""What is known of an operator's partition groups (Spill 3.2, Lazy/Active 4.3 and its footnote 5).

Two kinds of memory, because the strategies ask two kinds of questions:

1. *Of the live generation*, as the papers count: P_size, P_output (the operator's own, and the query's traced back to
   the group) and P_inter since the group was last spilled, and the epoch of its last use. A spill ends a generation,
   and these counts with it.
2. *Of the group itself*, whatever is live of it: how many results it yields for what it holds. Results of a join of m
   inputs grow with the product of their states, so a small young generation yields little however good the group is.
   An epoch that takes the inputs' live bytes from L to L' is therefore an *exposure* of ``prod(L') - prod(L)``, and
   results per exposure is a property of the data alone. It outlives a spill: a group that was spilled is no stranger.

The second kind ages: with every epoch all sums shrink by `AGEING`, those of what becomes of results by `FATE_AGEING`.
Results and exposures of long ago count less than those of today, and drift is followed; after a sudden change those
that rates are made of shrink faster (`watersmeet.adapt.change`); ``aged_made``, all results of the operator, does not:
what a result weighs above is bytes by results, and both must have forgotten as much. A group of which little is known
is taken for an average one; how much is little is the business of the strategy (`watersmeet.adapt.spilling.adaptive`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from watersmeet.adapt.spread import differences
from watersmeet.state.vectors import Vector

Floats: TypeAlias = NDArray[np.float64]

AGEING = 0.9
"""What is left of a count after an epoch: half of it after 7 epochs."""

FATE_AGEING = 0.95
"""What becomes of results downstream takes longer to tell than how many there are."""

SETTLED_EPOCHS = 5
"""From this age on, a generation's results downstream are its own, and not those of one spilled before it."""

OFF_MAX = 9.0
"""So many times the usual is the most that counts: else after a change all that follows would pass for chance."""

NEVER = -1.0
"""The epoch of what has not happened."""

SINGLE_MAX = 1e37
"""Up to here estimates are stored with seven digits: more than they deserve."""

EXACT = frozenset({"last_use", "spilled", "epochs"})
"""Numbers of epochs are not estimates."""

STORED_MAX = 1e300
"""What is larger would be read back as infinite."""

EXPOSURE_UNIT_BYTES = 1024.0
"""Keeps powers of byte counts near 1."""

EXPOSURE_MAX = 1e200
"""Nothing real is so large, and sums and squares of it are still finite."""

GONE = 1e-60
"""Less than this is nothing: what ages for thousands of epochs would end as the smallest number there is, and stay."""


@dataclass(frozen=True)
class Observation:
    """What one epoch told about one operator, by group.

    ``arrived_by_input`` has a row for each input; where it is not given, all inputs are taken to get the same.
    """

    arrived_bytes: Floats
    local_output: Floats
    global_output: Floats
    inter_bytes: Floats
    arrived_by_input: Floats | None = None


@dataclass(frozen=True)
class Statistics:
    """The counts of one operator, by group.

    >>> seen = Observation(np.array([80.0, 0.0]), np.array([3.0, 0.0]), np.array([2.0, 0.0]), np.array([9.0, 0.0]))
    >>> known = Statistics.cold(groups=2).after(seen, epoch=5)
    >>> known.size_bytes.tolist(), known.global_output.tolist(), known.last_use.tolist()
    ([80.0, 0.0], [2.0, 0.0], [5.0, -1.0])
    >>> spilled = known.without(np.array([True, False]))
    >>> spilled.size_bytes.tolist(), spilled.global_output.tolist(), spilled.settled_global.tolist()
    ([0.0, 0.0], [0.0, 0.0], [2.0, 0.0])
    """

    inputs: int
    live_by_input: Floats
    local_output: Floats
    global_output: Floats
    inter_bytes: Floats
    last_use: Floats
    spilled: Floats
    epochs: Floats
    aged_surprise: Floats
    aged_spread: Floats
    aged_bytes: Floats
    aged_exposure: Floats
    aged_local: Floats
    aged_made: Floats
    settled_local: Floats
    settled_global: Floats
    settled_inter: Floats

    @classmethod
    def cold(cls, groups: int, inputs: int = 2) -> "Statistics":
        """Nothing is known yet; ``inputs`` is the operator's m."""
        nothing, by_input, never = np.zeros(groups), np.zeros((inputs, groups)), np.full(groups, NEVER)
        return cls(
            inputs=inputs,
            live_by_input=by_input,
            local_output=nothing,
            global_output=nothing,
            inter_bytes=nothing,
            last_use=never,
            spilled=never,
            epochs=np.zeros(1),
            aged_surprise=np.zeros(2),
            aged_spread=np.zeros(2),
            aged_bytes=by_input,
            aged_exposure=nothing,
            aged_local=nothing,
            aged_made=np.zeros(1),
            settled_local=nothing,
            settled_global=nothing,
            settled_inter=nothing,
        )

    def after(self, seen: Observation, epoch: int, trust: float = 1.0) -> "Statistics":
        """One epoch later; ``trust`` is the part of what is known of rates that still holds."""
        arrived = self.arrivals_in(seen)
        live = self.live_by_input + arrived
        used = (seen.arrived_bytes > 0) | (seen.local_output > 0)
        exposed = exposure(live) - exposure(self.live_by_input)
        settled = self.since_spill > SETTLED_EPOCHS
        later = replace(
            self,
            live_by_input=live,
            local_output=self.local_output + seen.local_output,
            global_output=self.global_output + seen.global_output,
            inter_bytes=self.inter_bytes + seen.inter_bytes,
            last_use=np.where(used, float(epoch), self.last_use),
            epochs=self.epochs + 1,
            aged_surprise=_aged(self.aged_surprise, AGEING) + self._surprise(exposed, seen.local_output),
            aged_bytes=_aged(self.aged_bytes, AGEING) + arrived,
            aged_exposure=_aged(self.aged_exposure, AGEING * trust) + exposed,
            aged_local=_aged(self.aged_local, AGEING * trust) + seen.local_output,
            aged_made=_aged(self.aged_made, AGEING) + seen.local_output.sum(),
            settled_local=_aged(self.settled_local, FATE_AGEING) + settled * seen.local_output,
            settled_global=_aged(self.settled_global, FATE_AGEING) + settled * seen.global_output,
            settled_inter=_aged(self.settled_inter, FATE_AGEING) + settled * seen.inter_bytes,
        )
        differ, weight = differences(later.aged_exposure, later.aged_local, later.dispersion)
        return replace(later, aged_spread=_aged(self.aged_spread, AGEING) + np.array([differ * weight, weight]))

    def holding(self, seen: Observation) -> "Statistics":
        """With the rows that arrived, and nothing learnt from them."""
        return replace(self, live_by_input=self.live_by_input + self.arrivals_in(seen))

    def without(self, spilled: NDArray[np.bool_]) -> "Statistics":
        """These groups were spilled: their generation begins anew, what they yield is still known."""
        return replace(
            self,
            live_by_input=np.where(spilled, 0.0, self.live_by_input),
            local_output=np.where(spilled, 0.0, self.local_output),
            global_output=np.where(spilled, 0.0, self.global_output),
            inter_bytes=np.where(spilled, 0.0, self.inter_bytes),
            spilled=np.where(spilled, self.epochs, self.spilled),
        )

    @property
    def size_bytes(self) -> Floats:
        """P_size: what is live of each group."""
        total: Floats = self.live_by_input.sum(axis=0)
        return total

    @property
    def arrival_by_input(self) -> Floats:
        """Bytes that lately arrived in an epoch, by input and group: a weighted mean."""
        weights = (1 - AGEING ** float(self.epochs[0])) / (1 - AGEING)
        mean: Floats = self.aged_bytes / max(weights, 1.0)
        return mean

    @property
    def dispersion(self) -> float:
        """How much more results vary than independent ones would: the variance of a count, for its mean; at least 1.

        Results come in bunches: a row that matches many others brings them all at once.
        """
        surprise, cases = self.aged_surprise.tolist()
        return float(max(surprise / cases, 1.0)) if cases > 0 else 1.0

    @property
    def since_spill(self) -> Floats:
        """How many epochs have passed since each group was spilled; endless where it never was."""
        return np.where(self.spilled == NEVER, np.inf, self.epochs - self.spilled)

    @property
    def spread(self) -> float:
        """How much the rates of groups differ by nature: their variance, for a mean of 1; 0 where they do not.

        It is remembered apart from the rates: when these have changed, they still differ as much as before.
        """
        differ, weight = self.aged_spread.tolist()
        return float(max(differ / weight, 0.0)) if weight > 0 else 0.0

    def arrivals_in(self, seen: Observation) -> Floats:
        """The bytes that arrived, by input and group."""
        if seen.arrived_by_input is not None:
            return seen.arrived_by_input
        return np.tile(seen.arrived_bytes / self.inputs, (self.inputs, 1))

    def expected(self, exposed: Floats) -> Floats:
        """The results that the rates so far let expect of an exposure."""
        rate = np.divide(self.aged_local, self.aged_exposure, out=np.zeros_like(exposed), where=self.aged_exposure > 0)
        return rate * exposed

    def _surprise(self, exposed: Floats, results: Floats) -> Floats:
        """How far an epoch's results are from those expected, within reason, and in how many cases."""
        expected = self.expected(exposed)
        told = expected >= 1
        off = (results - expected)[told] ** 2 / expected[told]
        most = OFF_MAX * self.dispersion if self.aged_surprise[1] > 0 else np.inf
        return np.array([float(np.minimum(off, most).sum()), float(told.sum())])

    def stored(self) -> dict[str, Vector]:
        """For the manifest: all counts, rounded.

        >>> Statistics.cold(2).stored()["last_use"]
        Vector.of([-1.0, -1.0])
        """
        columns = {name: _storable(getattr(self, name), exact=name in EXACT) for name in _COLUMNS}
        return {"inputs": Vector.of([float(self.inputs)], "<f8"), **columns}

    @classmethod
    def restored(cls, stored: Mapping[str, Vector], groups: int) -> "Statistics":
        """Read what ``stored`` gave; a count that is missing, or of another number of groups, starts cold.

        >>> Statistics.restored({}, groups=2).size_bytes.tolist()
        [0.0, 0.0]
        """
        cold = cls.cold(groups, int(stored["inputs"].array[0]) if stored else 2)
        found = {
            name: stored[name].array.astype(np.float64).reshape(getattr(cold, name).shape)
            for name in _COLUMNS
            if len(stored.get(name, Vector())) == getattr(cold, name).size
        }
        return replace(cold, **found)  # type: ignore[arg-type]


_COLUMNS = tuple(field.name for field in fields(Statistics) if field.name != "inputs")


def exposure(bytes_by_input: Floats) -> Floats:
    """The product over the inputs: of so many combinations a part are results.

    >>> exposure(np.array([[1024.0], [2048.0]])).tolist()
    [2.0]
    """
    with np.errstate(over="ignore"):
        product: Floats = np.minimum(np.prod(bytes_by_input / EXPOSURE_UNIT_BYTES, axis=0), EXPOSURE_MAX)
    return product


def _aged(values: Floats, ageing: float) -> Floats:
    left: Floats = values * ageing
    return np.where(np.abs(left) < GONE, 0.0, left)


def _storable(values: Floats, *, exact: bool) -> Vector:
    if exact:
        return Vector.of(values.ravel(), "<f8")
    numbers = np.clip(np.nan_to_num(values), -STORED_MAX, STORED_MAX).ravel()
    return Vector.of(numbers, "<f8") if np.abs(numbers).max(initial=0.0) > SINGLE_MAX else Vector.of(numbers, "<f4")
