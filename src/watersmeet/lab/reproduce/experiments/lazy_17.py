"""Lazy/Active, Figure 17: one of three machines has most partitions; relocation keeps all in memory."""

from watersmeet.lab.reproduce.experiment import Runs
from watersmeet.lab.reproduce.experiments.sites import AUTO, NONE, UNEVEN, experiment, with_budget
from watersmeet.lab.reproduce.figures import output_over_time
from watersmeet.lab.reproduce.findings import Finding, ahead, shares, spill_counts
from watersmeet.lab.reproduce.setting import Treatment

MOVED = "relocation"
TREATMENTS = {
    NONE: Treatment(),
    MOVED: Treatment(adaptation="memory", theta_d=0.8, span=1),
    AUTO: Treatment(adaptation="auto"),
}
PART = 4 / 9
"""A site with two thirds of the groups is full after two thirds of the run, as in the paper; all three have room."""


def _judge(runs: Runs) -> list[Finding]:
    still, moved, auto = (runs[name] for name in TREATMENTS)
    first = min((spill.epoch for spill in still.spills), default=0)
    return [
        Finding(
            "Without relocation the throughput drops once the fullest machine pushes to disk.",
            f"the first spill is after {runs.minute(first):.0f} minutes; {shares(runs.only(NONE))}",
            bool(still.spills) and ahead(runs.unlimited.results, still.results),
        ),
        Finding(
            "With relocation all state stays in memory, and all results come at run time.",
            f"spills of each site: {spill_counts(runs.treated)}; {shares(runs.only(MOVED))}, {moved.decisions} moves",
            not moved.spills and moved.results == runs.unlimited.results,
        ),
        Finding(
            "(ours) The default policy does as well.",
            f"{shares(runs.only(AUTO))}, {auto.decisions} moves",
            not ahead(moved.results, auto.results),
        ),
    ]


EXPERIMENT = experiment(
    17,
    "Relocation or disk, where one of three sites has most groups",
    with_budget(
        UNEVEN,
        PART,
        TREATMENTS,
        _judge,
        lambda runs: output_over_time(runs, runs.treated, "Results at run time, two thirds of the groups on one site"),
    ),
)
