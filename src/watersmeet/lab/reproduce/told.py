"""What is told of the experiments, to people and to programs."""

from collections.abc import Sequence

import msgspec

from watersmeet.lab.reproduce.findings import Finding


class ExperimentReport(msgspec.Struct, frozen=True, rename="camel"):
    """One experiment: its findings, and the files that were written."""

    name: str
    source: str
    title: str
    exact: bool
    findings: tuple[Finding, ...]
    files: tuple[str, ...]

    def text(self) -> str:
        """A paragraph for every claim."""
        head = f"{self.name}: {self.title} ({self.source})"
        claims = (finding.text() for finding in self.findings)
        return "\n".join([head, "", "\n\n".join(claims), "", *(f"  wrote {file}" for file in self.files)])


class Report(msgspec.Struct, frozen=True):
    """Some experiments; a claim that did not hold is a finding, a run that is not exact is a failure."""

    experiments: tuple[ExperimentReport, ...]
    quick: bool = False

    @property
    def ok(self) -> bool:
        """Whether all runs were exact."""
        return all(each.exact for each in self.experiments)

    def text(self) -> str:
        """All experiments, and the sum of their verdicts."""
        return "\n\n".join([*(each.text() for each in self.experiments), _sum(self.experiments)])

    def to_builtins(self) -> dict[str, object]:
        """Everything, for JSON."""
        fields: dict[str, object] = msgspec.to_builtins(self)
        return {"ok": self.ok, **fields}


def _sum(experiments: Sequence[ExperimentReport]) -> str:
    findings = [finding for each in experiments for finding in each.findings]
    judged = [finding for finding in findings if finding.held is not None]
    held = sum(bool(finding.held) for finding in judged)
    unjudged = len(findings) - len(judged)
    return f"{held} of {len(judged)} claims held{f', {unjudged} were not judged' if unjudged else ''}."
