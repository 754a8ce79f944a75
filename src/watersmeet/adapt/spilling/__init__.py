"""Which groups to spill when a site's live state exceeds its budget; decisions only, the engine carries them out."""

from watersmeet.adapt.spilling.candidates import Candidate, Pressure
from watersmeet.adapt.spilling.strategies import DEFAULT_STRATEGY, STRATEGIES, choose

__all__ = ["DEFAULT_STRATEGY", "STRATEGIES", "Candidate", "Pressure", "choose"]
