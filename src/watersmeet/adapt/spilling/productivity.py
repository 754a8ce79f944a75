"""The papers' productivity: results per byte, of the live generation, counted since it began (Spill 3.2).

| strategy | P_output | divided by |
|---|---|---|
| local output (3.2.1) | results of the operator itself | P_size |
| global output (3.2.2) | results of the query, traced back | P_size |
| global output with penalty (3.2.3) | results of the query, traced back | P_size + P_inter |

P_inter are the bytes of intermediate results that the group caused and that were stored downstream.
"""

from watersmeet.adapt.spilling.candidates import Pool, Pressure, Worth


def local_output(pool: Pool, _: Pressure) -> Worth:
    """P_output / P_size with the operator's own output."""
    return pool.gather(lambda each: each.statistics.local_output) / pool.live_bytes


def global_output(pool: Pool, _: Pressure) -> Worth:
    """P_output / P_size with the query's output."""
    return pool.gather(lambda each: each.statistics.global_output) / pool.live_bytes


def global_output_with_penalty(pool: Pool, _: Pressure) -> Worth:
    """P_output / (P_size + P_inter) with the query's output."""
    caused = pool.gather(lambda each: each.statistics.inter_bytes)
    return pool.gather(lambda each: each.statistics.global_output) / (pool.live_bytes + caused)
