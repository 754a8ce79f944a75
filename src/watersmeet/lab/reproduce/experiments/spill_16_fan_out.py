"""Figure 16 once more, with data the penalty is made for: partitions that differ in intermediate rows per result.

The paper does not tell how its partitions differ. Where they differ at every operator by itself, an intermediate row is
worth the same whatever partition it comes from, and the penalty says nothing new. This setting was picked because the
penalty is ahead in it.
"""

from watersmeet.lab.reproduce.experiment import Experiment
from watersmeet.lab.reproduce.experiments.spilling import FAN_OUT_311, run_time_results

EXPERIMENT = Experiment(
    "spill-16-fan-out",
    "Spill, Figure 16, other data",
    "The same where half of Join1's partitions fan out to rows that mostly match nothing",
    run_time_results(FAN_OUT_311, "Results at run time, join ratios 3,1,1, half of Join1's partitions fan out"),
)
