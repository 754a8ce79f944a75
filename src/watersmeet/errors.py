"""Every error of Watersmeet's, as ``wm.errors``. All are a `WatersmeetError` and say what, why and how to fix it.

>>> import watersmeet as wm
>>> issubclass(wm.errors.UnknownNameError, wm.QueryError)
True
"""

from watersmeet.model.errors import (
    CheckpointCorruptError,
    CheckpointError,
    CheckpointInUseError,
    CheckpointMismatchError,
    DuplicateNameError,
    NoEqualityError,
    NotStreamingError,
    OptionError,
    PredicateError,
    QueryError,
    QueryFailedError,
    StateLimitError,
    StoppedError,
    StorageError,
    StorageFullError,
    TypeMismatchError,
    UnknownAttributeError,
    UnknownNameError,
    UnsupportedCallError,
    UnsupportedError,
    WatersmeetError,
    WorkerError,
)

__all__ = [
    "CheckpointCorruptError",
    "CheckpointError",
    "CheckpointInUseError",
    "CheckpointMismatchError",
    "DuplicateNameError",
    "NoEqualityError",
    "NotStreamingError",
    "OptionError",
    "PredicateError",
    "QueryError",
    "QueryFailedError",
    "StateLimitError",
    "StoppedError",
    "StorageError",
    "StorageFullError",
    "TypeMismatchError",
    "UnknownAttributeError",
    "UnknownNameError",
    "UnsupportedCallError",
    "UnsupportedError",
    "WatersmeetError",
    "WorkerError",
]
