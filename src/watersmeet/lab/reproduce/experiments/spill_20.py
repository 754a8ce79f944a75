"""Spill, Figure 20: results at run time by strategy, with join ratios 3, 2 and 3."""

from watersmeet.lab.reproduce.experiment import Experiment
from watersmeet.lab.reproduce.experiments.spilling import RATIOS_323, run_time_results

EXPERIMENT = Experiment(
    "spill-20",
    "Spill, Figure 20",
    "Results at run time by strategy, join ratios 3,2,3",
    run_time_results(RATIOS_323, "Results at run time, join ratios 3,2,3"),
)
