"""The split operator, as Spark SQL: key -> hash -> group -> site.

The group is defined as in `watersmeet.state.groups`. A routing table is a literal array that Spark folds into a
constant; its entries are the *site keys*, integers that Spark's own hash partitioning sends to distinct partitions.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from watersmeet.engine.layout import HASH, TAG
from watersmeet.model.plan import Key

CANDIDATES_PER_SITE = 64
COMPARED_RANGES = 8
_WORD = 0xFFFFFFFF


def hash_of(keys: Sequence[Key]) -> str:
    """The SQL of a composite key's hash."""
    return f"xxhash64({', '.join(key.sql for key in keys)})"


def joins_something(keys: Sequence[Key]) -> str:
    """A null in any part of a key joins nothing."""
    return " AND ".join(f"({key.sql}) IS NOT NULL" for key in keys)


def group_of(hashed: str, groups: int) -> str:
    """The SQL of a hash's group.

    >>> group_of("hash", 300)
    'shiftright(shiftrightunsigned(hash, 32) * 300L, 32)'
    """
    return f"shiftright(shiftrightunsigned({hashed}, 32) * {groups}L, 32)"


def site_of(routings: Mapping[int, Sequence[int]], groups: int, hashed: str = f"`{HASH}`") -> str:
    """The SQL of a row's site key, by the routing table of its tag.

    It never is a constant, even if all keys or all sites are the same: Spark would partition by the constant, and not
    by the column, and could not tell any more that sites are kept apart.
    """
    return f"{_site_of(routings, groups, hashed)} + 0 * spark_partition_id()"


def _site_of(routings: Mapping[int, Sequence[int]], groups: int, hashed: str) -> str:
    tables: dict[tuple[int, ...], list[int]] = {}
    for tag, routing in routings.items():
        tables.setdefault(tuple(routing), []).append(tag)
    cases = [(tags, _look_up(table, groups, hashed)) for table, tags in tables.items()]
    if len(cases) == 1:
        return cases[0][1]
    whens = " ".join(f"WHEN `{TAG}` IN ({', '.join(map(str, tags))}) THEN {sql}" for tags, sql in cases)
    return f"CASE {whens} END"


def site_keys(sites: int) -> tuple[int, ...]:
    """For every site, an integer that Spark's hash partitioning sends to the partition of the site's number.

    With 64 candidates a partition, the chance that one is left without is below ``sites * exp(-64)``.

    >>> site_keys(2)
    (2, 0)
    """
    found = {spark_hash(key) % sites: key for key in reversed(range(sites * CANDIDATES_PER_SITE))}
    return tuple(found[site] for site in range(sites))


def spark_hash(value: int) -> int:
    """Spark's ``hash`` of an INT: 32-bit Murmur3 with seed 42. Known here to spare a Spark job at the start.

    >>> spark_hash(1)
    -559580957
    """
    mixed = _rotate(value * 0xCC9E2D51 & _WORD, 15) * 0x1B873593 & _WORD
    mixed = (_rotate(42 ^ mixed, 13) * 5 + 0xE6546B64 & _WORD) ^ 4
    mixed = (mixed ^ mixed >> 16) * 0x85EBCA6B & _WORD
    mixed = (mixed ^ mixed >> 13) * 0xC2B2AE35 & _WORD
    mixed ^= mixed >> 16
    return mixed - (1 << 32) if mixed >> 31 else mixed


def _rotate(word: int, bits: int) -> int:
    return (word << bits | word >> 32 - bits) & _WORD


def _look_up(table: Sequence[int], groups: int, hashed: str) -> str:
    """Few ranges are compared with; many are looked up in a list, which takes Spark longer to plan."""
    group = group_of(hashed, groups)
    ends = [number for number, (here, following) in enumerate(pairwise(table), start=1) if here != following]
    if len(ends) < COMPARED_RANGES:
        whens = "".join(f" WHEN {group} < {end} THEN {table[end - 1]}" for end in ends)
        return f"CASE{whens} ELSE {table[-1]} END" if whens else str(table[-1])
    entries = ",".join(map(str, table))
    return f"element_at(CAST(split('{entries}', ',') AS ARRAY<INT>), CAST({group} + 1 AS INT))"
