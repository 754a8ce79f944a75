"""Planning: from what the user wrote to what the engine carries out. Pure; it knows SQL and types, not Spark."""

from watersmeet.planning.describe import difference, explain, fingerprint
from watersmeet.planning.expressions import columns_of
from watersmeet.planning.planner import plan

__all__ = ["columns_of", "difference", "explain", "fingerprint", "plan"]
