"""Spill, Figure 19: results at run time by strategy, with join ratios 1, 3 and 3."""

from watersmeet.lab.reproduce.experiment import Experiment
from watersmeet.lab.reproduce.experiments.spilling import RATIOS_133, run_time_results

EXPERIMENT = Experiment(
    "spill-19",
    "Spill, Figure 19",
    "Results at run time by strategy, join ratios 1,3,3",
    run_time_results(RATIOS_133, "Results at run time, join ratios 1,3,3"),
)
