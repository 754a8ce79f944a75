"""Lazy/Active, Figure 21: one machine is much more productive than the others; these make room for its partitions."""

from watersmeet.lab.reproduce.experiment import Runs
from watersmeet.lab.reproduce.experiments.sites import AUTO, BY_SITE, experiment, with_budget
from watersmeet.lab.reproduce.figures import output_over_time
from watersmeet.lab.reproduce.findings import Finding, ahead, shares, spill_counts
from watersmeet.lab.reproduce.setting import Treatment

LAZY, ACTIVE = "lazy-disk", "active-disk"
TREATMENTS = {
    LAZY: Treatment(adaptation="lazy-disk", theta_d=0.8, span=1),
    ACTIVE: Treatment(adaptation="active-disk", theta_d=0.8, span=1),
    AUTO: Treatment(adaptation="auto"),
}
PART = 0.15
"""Not half of the state fits into all sites together: with more memory there is little to push, and no difference."""


def _judge(runs: Runs) -> list[Finding]:
    lazy, active, auto = (runs[name] for name in TREATMENTS)
    behind = [
        epoch
        for epoch, (less, more) in enumerate(zip(active.cumulative, lazy.cumulative, strict=True), start=1)
        if less < more
    ]
    dip = f"behind in {len(behind)} epochs" + (f", first after {runs.minute(behind[0]):.0f} minutes" if behind else "")
    return [
        Finding("Active-disk falls behind after it has begun to push.", f"it is {dip}", bool(behind)),
        Finding(
            "In the long run active-disk gives more results than lazy-disk.",
            f"{shares(runs.only(LAZY, ACTIVE))}; spills of each site: {spill_counts(runs.only(LAZY, ACTIVE))}",
            ahead(active.results, lazy.results),
        ),
        Finding(
            "(ours) The default policy is not behind lazy-disk.",
            shares(runs.only(AUTO)),
            not ahead(lazy.results, auto.results),
        ),
    ]


EXPERIMENT = experiment(
    21,
    "Lazy-disk and active-disk where one of three sites is most productive",
    with_budget(
        BY_SITE,
        PART,
        TREATMENTS,
        _judge,
        lambda runs: output_over_time(runs, runs.treated, "Results at run time, ratios 4, 1 and 1 by site"),
    ),
)
