"""All experiments, one module each, in the order in which they are listed and run.

To add one: write a module with an ``EXPERIMENT``, or several ``EXPERIMENTS``, and name it here.
"""

from importlib import import_module

from watersmeet.lab.reproduce.experiment import Experiment

_MODULES = (
    "spill_run_time",
    "spill_17",
    "spill_18",
    "spill_cleanup",
    "lazy_06",
    "lazy_07",
    "lazy_09",
    "lazy_10",
    "lazy_11",
    "lazy_12",
    "lazy_14",
    "lazy_15",
    "lazy_16",
    "lazy_17",
    "lazy_20",
    "lazy_21",
    "cape_punct",
    "cape_events",
    "flux_03",
    "flux_06",
    "flux_07",
    "flux_08",
    "flux_09",
    "flux_10",
    "flux_1000",
    "flux_two_sites",
    "flux_two_sites_memory",
    "policies",
    "psp_8ab",
    "psp_8cf",
    "psp_8gh",
    "psp_on_spark",
    "chaos",
)


def _of(module: str) -> tuple[Experiment, ...]:
    found = vars(import_module(f"{__name__}.{module}"))
    return tuple(found["EXPERIMENTS"]) if "EXPERIMENTS" in found else (found["EXPERIMENT"],)


_FOUND = tuple(experiment for name in _MODULES for experiment in _of(name))
EXPERIMENTS = {experiment.name: experiment for experiment in _FOUND}
