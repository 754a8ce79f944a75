"""All experiments, one module each, in the order in which they are listed and run.

To add one: write a module with an ``EXPERIMENT``, and name it here.
"""

from watersmeet.lab.reproduce.experiment import Experiment
from watersmeet.lab.reproduce.experiments import (
    lazy_09,
    lazy_10,
    lazy_11,
    lazy_12,
    spill_16,
    spill_16_fan_out,
    spill_17,
    spill_18,
    spill_19,
    spill_20,
    spill_cleanup,
)

_MODULES = (
    spill_16,
    spill_16_fan_out,
    spill_17,
    spill_18,
    spill_19,
    spill_20,
    spill_cleanup,
    lazy_09,
    lazy_10,
    lazy_11,
    lazy_12,
)
EXPERIMENTS: dict[str, Experiment] = {module.EXPERIMENT.name: module.EXPERIMENT for module in _MODULES}
