"""Sees to it that missing results are produced: which groups to clean next, and what becomes of them (`choice`).

Three things call for cleanup: input that pauses, a user who asks for it, and the end. One more cannot wait: every spill
closes a generation, and probing, merging and the manifest's size follow the number of generations. With more than
``generations_max`` of an operator, the groups of its oldest ones are cleaned between two epochs, a slice at a time,
even if input never pauses. Groups that miss nothing then become one generation: each has only one, whichever it is.

So are those whose rows have ended for the most part, once that is too much (`ended`).

Parked groups are cleaned between epochs, too, as soon as they are due (`draining`). Those for which nothing came miss
nothing, and only have to be live again.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np

from watersmeet.adapt.cleaning import choice
from watersmeet.adapt.cleaning.draining import Draining
from watersmeet.adapt.cleaning.ended import mostly_ended
from watersmeet.adapt.policy import MemoryOptions, Moment, Suggestion, View
from watersmeet.adapt.spilling.policy import budget_room
from watersmeet.model.ids import InputName, OperatorId
from watersmeet.model.plan import Operator
from watersmeet.state.applying import apply
from watersmeet.state.changes import BeginCleaning, FinishCleaning, ReviveGroups, UniteGenerations
from watersmeet.state.decided import decided, undecided_keys
from watersmeet.state.ends import ends
from watersmeet.state.groups import GroupSet
from watersmeet.state.manifest import Cleaning, Manifest
from watersmeet.state.passing import newly_passed
from watersmeet.state.promises import decidable
from watersmeet.state.sizes import bytes_by_generation, live_bytes_by_site, total_bytes


@dataclass
class CleanPolicy:
    """Suggests what is cleaned; ``slice_bytes`` is how much at a time while the query runs."""

    options: MemoryOptions
    slice_bytes: int = choice.SLICE_FIRST_BYTES
    draining: Draining = field(default_factory=Draining)
    moments: frozenset[Moment] = frozenset({"step", "between", "idle", "drain", "asked", "end"})

    def suggest(self, view: View) -> Iterator[Suggestion]:
        """The next step of cleanup, if anything is missing; in a step, that generations become one or live again."""
        if view.moment == "step":
            yield from self._united(view.manifest)
            yield from self._unparked(view.manifest)
            return
        cleaning = self._next_step(view) if view.manifest.cleaning is None else None
        if cleaning is not None:
            yield Suggestion(BeginCleaning(cleaning), {cleaning.operator: GroupSet.of(cleaning.groups)})

    def finish(self, manifest: Manifest, read_bytes: int, results: int) -> FinishCleaning:
        """What becomes of groups that were cleaned: live again as far as there is room, else closed.

        At the end they stay closed, so that an operator that is done holds no memory while those above are cleaned.
        """
        step = manifest.cleaning
        if step is None:
            raise ValueError(manifest.version)
        live = GroupSet() if step.at_end else returning(manifest, step.operator, step.groups, self.options)
        missing = len(manifest.spilled(step.operator))
        return FinishCleaning(live, GroupSet.of(step.groups) - live, read_bytes, results, missing)

    def learn(self, read_bytes: int, seconds: float) -> None:
        """A step has read so much in so long."""
        self.slice_bytes = choice.next_slice(read_bytes, seconds)

    def _united(self, manifest: Manifest) -> Iterator[Suggestion]:
        for name in manifest.operators:
            generations = manifest.generations(name)
            many = len(generations) > self.options.generations_max
            complete = _complete(manifest, name) if many else GroupSet()
            if sum(groups.meets(complete) for groups in generations.values()) > 1:
                reason = f"{name} has {len(generations)} generations, and {len(complete)} groups miss nothing"
                yield Suggestion(UniteGenerations(name, complete, reason), {name: complete})

    def _unparked(self, manifest: Manifest) -> Iterator[Suggestion]:
        """Parked groups for which nothing came before they were due: they are parked no longer, live or closed."""
        for name in manifest.operators if manifest.cleaning is None else ():
            idle = self.draining.due(manifest, name) - manifest.spilled(name)
            closed = idle & GroupSet.union(manifest.generations(name).values())
            fitting = (idle - closed) | returning(manifest, name, tuple(closed), self.options)
            reason = f"nothing has come for {len(idle)} parked groups of {name}"
            if fitting:
                yield Suggestion(ReviveGroups(name, fitting, reason), {name: fitting})
            if left := closed - fitting:
                why = f"{reason}, and there is no room for {len(left)} of them"
                yield Suggestion(UniteGenerations(name, left, why), {name: left})

    def _next_step(self, view: View) -> Cleaning | None:
        plan = view.manifest.plan
        operators = [o for o in plan.operators if not view.operators or o.id in view.operators]
        ended = mostly_ended(view.manifest, self.options) if view.moment == "between" else {}
        wanted = {o.id: self._wanted(view, o) | ended.get(o.id, GroupSet()) for o in operators}
        dirty = [_dirty(view, operator, wanted[operator.id]) for operator in operators]
        piece, budget, at_end = self.slice_bytes, self.options.budget_bytes, view.moment == "end"
        root = plan.root.id
        allowed = {o.id: choice.allowance(None if at_end else piece, budget, is_root=o.id == root) for o in operators}
        chosen = choice.choose(dirty, allowed, at_end=at_end)
        return None if chosen is None else _told(view.manifest, chosen)

    def _wanted(self, view: View, operator: Operator) -> GroupSet:
        """The groups of an operator that should be cleaned at this moment."""
        generations = view.manifest.generations(operator.id)
        if view.moment == "between":
            many = len(generations) > self.options.generations_max
            old = list(generations)[: len(generations) // 2] if many else []
            due = self.draining.due(view.manifest, operator.id)
        elif view.moment == "drain":
            old, due = [], view.manifest.parked(operator.id)
        elif view.closed_by is not None:
            old, due = [generation for generation in generations if generation <= view.closed_by], GroupSet()
        else:
            return view.manifest.spilled(operator.id)
        closed = due | GroupSet.union(generations[generation] for generation in old)
        return closed & view.manifest.spilled(operator.id) if closed else closed


@dataclass(frozen=True)
class DuePolicy:
    """Suggests a step that cleans nothing, for rows that come out alone and are due while no input is there.

    Promises that can only now be passed on may make more rows due, so they ask for a step, too.
    """

    moments: frozenset[Moment] = frozenset({"idle", "final"})

    def suggest(self, view: View) -> Iterator[Suggestion]:
        """Such a step, if any are due."""
        manifest = view.manifest
        due = [*_due(manifest)] if manifest.cleaning is None else []
        if due:
            lowest, reason = min(due, key=lambda pair: manifest.plan.operator(pair[0]).level)
            cleaning = Cleaning(lowest, (), choice.GATHER_LEAST_BYTES, reason=reason)
            yield Suggestion(BeginCleaning(cleaning))


@dataclass
class RevivePolicy:
    """Suggests that closed groups that miss nothing be live again as far as there is room, productive ones first."""

    options: MemoryOptions
    moments: frozenset[Moment] = frozenset({"over"})

    def suggest(self, view: View) -> Iterator[Suggestion]:
        """A change for every operator, from the root down."""
        manifest = view.manifest
        for operator in reversed(manifest.plan.operators):
            order = _by_productivity(manifest, operator.id)
            fitting = returning(manifest, operator.id, order, self.options)
            if fitting:
                change = ReviveGroups(operator.id, fitting, "all is produced, and there is room")
                manifest = apply(manifest, change)
                yield Suggestion(change, {operator.id: fitting})


def returning(manifest: Manifest, operator: OperatorId, groups: Sequence[int], options: MemoryOptions) -> GroupSet:
    """Those of some groups, in order of preference, for which their sites have room."""
    if not options.is_limited:
        return GroupSet.of(groups)
    sizes, routing = total_bytes(manifest, operator), manifest.operators[operator].routing
    room = budget_room(manifest, options, live_bytes_by_site(manifest))
    fitting = GroupSet()
    for site in range(manifest.sites):
        here = {group: float(sizes[group]) for group in groups if routing[group] == site}
        fitting |= GroupSet.of(choice.fits_again(here, float(room[site])))
    return fitting


def _due(manifest: Manifest) -> Iterator[tuple[OperatorId, str]]:
    """The operators for which a step has something to do that is not done yet, and what that is."""
    for operator, source in _undecided(manifest):
        yield operator, f"no match can come any more for rows of {source}"
    for change in newly_passed(manifest):
        yield change.operator, f"what {change.stream} has promised is passed on"


def _undecided(manifest: Manifest) -> Iterator[tuple[OperatorId, InputName]]:
    """The operators and inputs that have rows which will be decided in the next step, and are not yet."""
    yield from undecided_keys(manifest)
    for (operator, source), limit in decidable(manifest).items():
        known = decided(manifest, operator, source).array
        missing = manifest.spilled(operator)
        planned = next(each for each in manifest.plan.operator(operator).inputs if each.name == source)
        for part in manifest.operators[operator].slices:
            run, groups = manifest.runs[part.run], part.groups - missing
            span = ends(run, planned.life) if planned.life else (limit, limit)
            before = int(known[groups.mask(manifest.groups)].min()) if groups else limit
            if run.input == source and span is not None and span[0] <= limit and span[1] > before and before < limit:
                yield operator, source
                break


def missing_groups(manifest: Manifest) -> int:
    """How many groups have results missing."""
    return sum(len(manifest.spilled(name)) for name in manifest.operators)


def parked_groups(manifest: Manifest) -> int:
    """How many of them were parked."""
    parked = ((name, manifest.parked(name)) for name in manifest.operators)
    return sum(len(groups & manifest.spilled(name)) for name, groups in parked if groups)


def _dirty(view: View, operator: Operator, wanted: GroupSet) -> choice.Dirty:
    if not wanted:
        return choice.Dirty(operator.id, (), np.empty(0), np.empty(0))
    inputs = [str(source.name) for source in operator.inputs]
    sizes = bytes_by_generation(view.manifest, operator.id, inputs)
    known = view.statistics[operator.id]
    promise = choice.expected_missing(sizes, (known.aged_local + 1.0) / (known.aged_exposure + 1.0))
    read = np.sum([each.sum(axis=0) for each in sizes.values()], axis=0)
    return choice.Dirty(operator.id, tuple(wanted), read[wanted.numbers], promise[wanted.numbers])


def _told(manifest: Manifest, cleaning: Cleaning) -> Cleaning:
    """Add the reason if groups were parked."""
    parked = manifest.parked(cleaning.operator) & GroupSet.of(cleaning.groups)
    if not parked:
        return cleaning
    return msgspec.structs.replace(cleaning, reason=f"{cleaning.reason}; {len(parked)} of them were parked")


def _by_productivity(manifest: Manifest, operator: OperatorId) -> list[int]:
    """The closed groups that miss nothing, those with most results for their bytes first."""
    state, sizes = manifest.operators[operator], total_bytes(manifest, operator)
    output = state.output.array if state.output else np.zeros(manifest.groups)
    complete = _complete(manifest, operator)
    return sorted(complete, key=lambda group: -float(output[group]) / max(1.0, float(sizes[group])))


def _complete(manifest: Manifest, operator: OperatorId) -> GroupSet:
    """The closed groups that miss nothing: they have a single generation."""
    return GroupSet.union(manifest.generations(operator).values()) - manifest.spilled(operator)
