"""The split operator, as Spark's columns: key -> hash -> group -> site.

The group is defined as in `watersmeet.state.groups`. A routing table becomes constants of the plan; its entries are the
*site keys*, integers that Spark's own hash partitioning sends to distinct partitions.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import reduce
from itertools import pairwise

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, IntegerType

from watersmeet.model.plan import QUOTED

CANDIDATES_PER_SITE = 64
COMPARED_RANGES = 8
_WORD = 0xFFFFFFFF
_PLAIN_NAME = re.compile(rf"{QUOTED}(?:\.{QUOTED})*")


def expression(sql: str) -> SparkColumn:
    """Some SQL as a column. Mere names pass by Spark's parser, whose first use takes the JVM a second or more."""
    return F.col(sql) if _PLAIN_NAME.fullmatch(sql) else F.expr(sql)


def hash_of(keys: Sequence[str]) -> SparkColumn:
    """The hash of a composite key, of which some SQL gives the parts."""
    return F.xxhash64(*map(expression, keys))


def is_whole(keys: Sequence[str]) -> SparkColumn:
    """Whether a key joins anything: a null in any part of it does not."""
    return all_of([expression(key).isNotNull() for key in keys])


def all_of(conditions: Sequence[SparkColumn]) -> SparkColumn:
    """Whether all conditions hold."""
    return reduce(SparkColumn.__and__, conditions)


def group_of(hashed: SparkColumn, groups: int) -> SparkColumn:
    """A hash's group."""
    return F.shiftright(F.shiftrightunsigned(hashed, 32) * F.lit(groups), 32)


def site_of(case: str, routings: Mapping[int, Sequence[int]], groups: int, hashed: SparkColumn) -> SparkColumn:
    """A row's site key, by the routing table of its case: its stream, or the input it is for.

    It never is a constant, even if all keys or all sites are the same: Spark would partition by the constant, and not
    by the column, and could not tell any more that sites are kept apart.
    """
    group = group_of(hashed, groups)
    texts = {number: tuple(routing) for number, routing in routings.items()}
    key = by_case(case, {number: _look_up(table, group) for number, table in texts.items()}, texts)
    return key + F.lit(0) * F.spark_partition_id()


def by_case(
    case: str,
    values: Mapping[int, SparkColumn],
    alike: Mapping[int, object] | Collection[int] = (),
    *,
    guarded: bool = False,
) -> SparkColumn:
    """The value of a row's own case. Cases that are ``alike``, written in the same way, are told apart by nobody.

    It is guarded where there are rows of other cases, which the value may not fit.
    """
    classes: dict[object, list[int]] = {}
    for number in values:
        kind = alike[number] if isinstance(alike, Mapping) else number
        classes.setdefault(kind, []).append(number)
    if len(classes) == 1 and not guarded:
        return next(iter(values.values()))
    return _first((F.col(case).isin(numbers), values[numbers[0]]) for numbers in classes.values())


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


def _look_up(table: Sequence[int], group: SparkColumn) -> SparkColumn:
    """Few ranges are compared with; many are looked up in a list, which takes Spark longer to plan."""
    ends = [number for number, (here, following) in enumerate(pairwise(table), start=1) if here != following]
    if not ends:
        return F.lit(table[-1])
    if len(ends) < COMPARED_RANGES:
        return _first((group < end, F.lit(table[end - 1])) for end in ends).otherwise(table[-1])
    entries = F.split(F.lit(",".join(map(str, table))), ",").cast(ArrayType(IntegerType()))
    return F.element_at(entries, (group + 1).cast(IntegerType()))


def _first(cases: Iterable[tuple[SparkColumn, SparkColumn]]) -> SparkColumn:
    """The value of the first condition that holds."""
    (condition, value), *rest = cases
    return reduce(lambda chosen, case: chosen.when(*case), rest, F.when(condition, value))
