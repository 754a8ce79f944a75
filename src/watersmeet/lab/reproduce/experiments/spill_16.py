"""Spill, Figure 16: results at run time by strategy, with join ratios 3, 1 and 1."""

from watersmeet.lab.reproduce.experiment import Experiment
from watersmeet.lab.reproduce.experiments.spilling import RATIOS_311, run_time_results

EXPERIMENT = Experiment(
    "spill-16",
    "Spill, Figure 16",
    "Results at run time by strategy, join ratios 3,1,1",
    run_time_results(RATIOS_311, "Results at run time, join ratios 3,1,1"),
)
