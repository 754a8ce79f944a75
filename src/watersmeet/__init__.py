"""Continuous multi-way joins on Apache Spark: exact results inside a fixed memory budget, adapting while they run.

The public names are loaded when they are first used: Spark's workers import this package for every query, and need
only the kernels.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from watersmeet import errors, testing
    from watersmeet.api.flow import Flow
    from watersmeet.api.metrics import metrics
    from watersmeet.api.predicate import predicate
    from watersmeet.api.query import Query
    from watersmeet.api.relation import Relation
    from watersmeet.api.writer import StreamWriter
    from watersmeet.model.errors import (
        CheckpointError,
        OptionError,
        QueryError,
        QueryFailedError,
        UnsupportedError,
        WatersmeetError,
    )

__all__ = [
    "CheckpointError",
    "Flow",
    "OptionError",
    "Query",
    "QueryError",
    "QueryFailedError",
    "Relation",
    "StreamWriter",
    "UnsupportedError",
    "WatersmeetError",
    "errors",
    "metrics",
    "predicate",
    "testing",
]

_HOMES = {
    "Flow": "watersmeet.api.flow",
    "Query": "watersmeet.api.query",
    "metrics": "watersmeet.api.metrics",
    "predicate": "watersmeet.api.predicate",
    "Relation": "watersmeet.api.relation",
    "StreamWriter": "watersmeet.api.writer",
    **dict.fromkeys(
        ("CheckpointError", "OptionError", "QueryError", "QueryFailedError", "UnsupportedError", "WatersmeetError"),
        "watersmeet.model.errors",
    ),
}


def __getattr__(name: str) -> object:
    if name in ("errors", "testing"):
        return import_module(f"watersmeet.{name}")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'watersmeet' has no attribute {name!r}")
