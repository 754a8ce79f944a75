"""Ratios against targets, and counts against each other. Absolute times are shown; the ratio is what counts."""

import msgspec

from watersmeet.lab.bench.contenders import WAYS
from watersmeet.lab.bench.outcome import Outcome
from watersmeet.lab.bench.text import Unit, show, table
from watersmeet.lab.spill.score_table import SpillReport


class Target(msgspec.Struct, frozen=True):
    """A bound on a ratio."""

    bound: float
    at_least: bool

    def met_by(self, ratio: float) -> bool:
        """Whether a ratio keeps it."""
        return ratio >= self.bound if self.at_least else ratio <= self.bound

    def __str__(self) -> str:
        return f"{'at least' if self.at_least else 'at most'} {self.bound:.3g}"


class Comparison(msgspec.Struct, frozen=True):
    """Ours and theirs; the ratio is *theirs / ours* where it tells a gain, *ours / theirs* where it tells a share."""

    what: str
    ours: float
    theirs: float
    unit: Unit
    is_gain: bool
    target: Target | None = None

    @property
    def ratio(self) -> float:
        """How many times less ours is, or what part of theirs it is."""
        over, under = (self.theirs, self.ours) if self.is_gain else (self.ours, self.theirs)
        return over / under if under else float("inf")

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None where there is none."""
        return None if self.target is None else self.target.met_by(self.ratio)


class Count(msgspec.Struct, frozen=True):
    """How many results each contender gave; right where all gave as many as expected."""

    what: str
    found: dict[str, int]
    expected: int | None = None

    @property
    def right(self) -> bool:
        """Whether all agree."""
        wanted = {self.expected} if self.expected is not None else set(list(self.found.values())[:1])
        return bool(self.found) and set(self.found.values()) == wanted


class Section(msgspec.Struct, frozen=True):
    """One suite's part of the report."""

    name: str
    title: str
    outcomes: tuple[Outcome, ...]
    comparisons: tuple[Comparison, ...]
    counts: tuple[Count, ...]

    @property
    def ok(self) -> bool:
        """Whether all targets are met and all counts right."""
        return all(each.met is not False for each in self.comparisons) and all(count.right for count in self.counts)

    def without_targets(self) -> "Section":
        """The same, with nothing to judge but the counts."""
        return msgspec.structs.replace(
            self, comparisons=tuple(msgspec.structs.replace(each, target=None) for each in self.comparisons)
        )


class Report(msgspec.Struct, frozen=True):
    """What a run of the benchmarks showed."""

    sections: tuple[Section, ...]
    versions: dict[str, str]
    quick: bool = False
    spill: SpillReport | None = None

    @property
    def ok(self) -> bool:
        """Whether all targets are met and all counts right."""
        return all(section.ok for section in self.sections) and (self.spill is None or self.spill.ok)

    def text(self) -> str:
        """A table for each suite, and the verdict."""
        parts = [line for section in self.sections for line in (*_section(section), "")]
        parts += [self.spill.text(), ""] if self.spill else []
        versions = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        return "\n".join([*parts, f"With {versions}.", self._verdict()])

    def to_json(self) -> str:
        """Everything, for machines."""
        built: dict[str, object] = {
            "ok": self.ok,
            "quick": self.quick,
            "versions": self.versions,
            "suites": [_built(section) for section in self.sections],
        }
        if self.spill:
            built["spill"] = self.spill.to_builtins()
        return msgspec.json.format(msgspec.json.encode(built), indent=2).decode()

    def _verdict(self) -> str:
        if not self.ok:
            return "NOT all targets were met, or counts differ."
        judged = any(each.target for section in self.sections for each in section.comparisons)
        return "All targets were met, and all counts are right." if judged else "All counts are right."


def _section(section: Section) -> list[str]:
    outcomes = [["contender", "whole run", "last epoch", "state", "peak memory", "others", "results"]]
    outcomes += [_outcome(outcome) for outcome in section.outcomes]
    comparisons = [["comparison", "ours", "theirs", "ratio", "target", "met"]]
    comparisons += [_comparison(comparison) for comparison in section.comparisons]
    counts = [f"  {_count(count)}" for count in section.counts]
    legend = [f"  {outcome.contender}: {WAYS[outcome.contender].about}" for outcome in section.outcomes]
    tables = [*legend, "", *table(outcomes), ""] if section.outcomes else []
    return [f"{section.name}: {section.title}", "", *tables, *table(comparisons), "", *counts]


def _outcome(outcome: Outcome) -> list[str]:
    last = show(outcome.last_s, "s") if outcome.epoch_ms else "-"
    state = show(outcome.state_bytes, "bytes") if outcome.state_bytes else "-"
    seen = [show(outcome.peak_bytes, "bytes"), f"{outcome.others_share:.0%}"]
    return [outcome.contender, _whole(outcome), last, state, *seen, f"{outcome.results:,}"]


def _whole(outcome: Outcome) -> str:
    """The time of the run, and of how many it is the median, between which bounds."""
    whole = show(outcome.whole_s, "s")
    if not outcome.runs_s:
        return whole
    shortest, longest = (show(bound(outcome.runs_s), "s") for bound in (min, max))
    return f"{whole} (of {len(outcome.runs_s)}: {shortest} to {longest})"


def _comparison(each: Comparison) -> list[str]:
    met = {True: "yes", False: "NO", None: "-"}[each.met]
    values = [show(each.ours, each.unit), show(each.theirs, each.unit), f"{each.ratio:.2f}"]
    return [each.what, *values, str(each.target or "-"), met]


def _count(count: Count) -> str:
    if count.right:
        return f"{count.what}: {next(iter(count.found.values())):,} in all, as expected"
    found = ", ".join(f"{name} {number:,}" for name, number in count.found.items())
    return f"{count.what}: WRONG: {found}" + (f"; expected {count.expected:,}" if count.expected is not None else "")


def _built(section: Section) -> dict[str, object]:
    """A section with what its properties say."""
    comparisons = [msgspec.to_builtins(each) | {"ratio": each.ratio, "met": each.met} for each in section.comparisons]
    counts = [msgspec.to_builtins(count) | {"right": count.right} for count in section.counts]
    fields: dict[str, object] = msgspec.to_builtins(section)
    return fields | {"ok": section.ok, "comparisons": comparisons, "counts": counts}
