"""The seam to file systems: what state asks of a place to live in. ``base`` tells what every back end promises."""

from watersmeet.storage.base import Data, Paths, Storage
from watersmeet.storage.exclusive import Exclusion
from watersmeet.storage.faulty import Fault, FaultyStorage
from watersmeet.storage.local import LocalStorage
from watersmeet.storage.lock import Lock
from watersmeet.storage.open import open_storage
from watersmeet.storage.remote import FsspecStorage

__all__ = [
    "Data",
    "Exclusion",
    "Fault",
    "FaultyStorage",
    "FsspecStorage",
    "LocalStorage",
    "Lock",
    "Paths",
    "Storage",
    "open_storage",
]
