"""The policies that move groups, by the names of ``option("adaptation", ...)``."""

from collections.abc import Callable, Mapping

from watersmeet.adapt.moving.active_disk import ActiveDiskPolicy
from watersmeet.adapt.moving.auto import AutoPolicy
from watersmeet.adapt.moving.exchanging import ExchangePolicy
from watersmeet.adapt.moving.flux import FluxPolicy
from watersmeet.adapt.moving.flux_hybrid import FluxHybridPolicy
from watersmeet.adapt.moving.flux_memory import FluxMemoryPolicy
from watersmeet.adapt.moving.hot import HotGroupPolicy
from watersmeet.adapt.moving.lazy_disk import LazyDiskPolicy
from watersmeet.adapt.moving.memory import MemoryPolicy
from watersmeet.adapt.moving.parking import ParkPolicy
from watersmeet.adapt.policy import MemoryOptions, Policy

NONE, DEFAULT_ADAPTATION = "none", "auto"

ADAPTATIONS: dict[str, Callable[[MemoryOptions], Policy]] = {
    "memory": MemoryPolicy,
    "lazy-disk": LazyDiskPolicy,
    "active-disk": ActiveDiskPolicy,
    "flux": FluxPolicy,
    "flux-memory": FluxMemoryPolicy,
    "flux-hybrid": FluxHybridPolicy,
    "auto": AutoPolicy,
}
NAMES = (NONE, *ADAPTATIONS)
PARKING = frozenset({"flux", "auto"})

MEANINGS: Mapping[str, str] = {
    NONE: "groups stay where they are",
    "memory": "productive groups move from the fullest site to the emptiest",
    "lazy-disk": "memory is balanced between sites, and spilled only where all is used",
    "active-disk": "memory is balanced between sites, and the site that yields least spills first",
    "flux": "busy sites give groups to idle ones; bursts are parked",
    "flux-memory": "sites short of memory give groups to those that are not",
    "flux-hybrid": "busy sites give groups to idle ones, or, once anything is spilled, full ones to empty ones",
    "auto": "groups move between sites where that pays, or make room for better ones of other sites; those too hot for "
    "one site are split; bursts are parked",
}


def policies_of(adaptation: str, options: MemoryOptions) -> list[Policy]:
    """The policies of a name; those of the papers never split a group, and of them only Flux has a buffer.

    >>> policies_of("none", MemoryOptions())
    []
    >>> [type(each).__name__ for each in policies_of("flux", MemoryOptions())]
    ['FluxPolicy', 'ParkPolicy']
    >>> [type(each).__name__ for each in policies_of("auto", MemoryOptions())]
    ['HotGroupPolicy', 'AutoPolicy', 'ExchangePolicy', 'ParkPolicy']
    """
    if adaptation == NONE:
        return []
    is_auto = adaptation == DEFAULT_ADAPTATION
    hot: list[Policy] = [HotGroupPolicy(options)] if is_auto else []
    exchanging: list[Policy] = [ExchangePolicy(options)] if is_auto else []
    parking: list[Policy] = [ParkPolicy(options)] if adaptation in PARKING else []
    return [*hot, ADAPTATIONS[adaptation](options), *exchanging, *parking]
