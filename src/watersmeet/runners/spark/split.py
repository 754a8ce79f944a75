"""The split operator, as Spark's columns: key -> hash -> group -> site.

The group is defined as in `watersmeet.state.groups`. A routing table is part of the plan; its entries are the *site
keys*, integers that Spark's own hash partitioning sends to distinct partitions.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
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


@dataclass(frozen=True)
class Shared:
    """A group that several sites share, by their keys: rows of ``input`` are dealt out to them, others go to each."""

    group: int
    input: str
    keys: tuple[int, ...]


@dataclass(frozen=True)
class Goal:
    """What rows of a case are for: an input of an operator. They are ``copied`` if the next tasks join them."""

    operator: str
    input: str
    copied: bool


@dataclass(frozen=True)
class Routing:
    """The routing table of every operator: for each group the key of its site.

    Tables are written into the plan of a batch. Few ranges of groups are compared with, which Spark plans quickest; but
    constants of whole numbers are part of the code that Spark makes of a plan, so that every other table would be
    compiled anew, which takes longer than many an epoch. Where tables change while a query runs, they are *listed*: all
    of them are one list, which is an argument of the code. Whatever is in it, the code is the same. While any groups
    are split, the same holds of lists that tell all sites of a group (`sites_of`).
    """

    tables: Mapping[str, tuple[int, ...]]
    groups: int
    is_listed: bool = False
    splits: Mapping[str, tuple[Shared, ...]] = field(default_factory=dict)

    def after(self, before: "Routing | None") -> "Routing":
        """The same, listed if another was there before; once that has happened, tables stay listed."""
        is_listed = before is not None and (before.is_listed or before.tables != self.tables)
        return replace(self, is_listed=is_listed)


def site_of(case: str, operators: Mapping[int, str], routing: Routing, hashed: SparkColumn) -> SparkColumn:
    """A row's site key, by the routing table of its case's operator: a case is its stream, or the input it is for.

    It never is a constant, even if all keys or all sites are the same: Spark would partition by the constant, and not
    by the column, and could not tell any more that sites are kept apart.
    """
    tables = {number: routing.tables[name] for number, name in operators.items()}
    group = group_of(hashed, routing.groups)
    if routing.is_listed or any(len(_ends(table)) >= COMPARED_RANGES for table in tables.values()):
        key = _listed(case, operators, routing, group)
    else:
        key = by_case(case, {number: _compared(table, group) for number, table in tables.items()}, tables)
    return key + F.lit(0) * F.spark_partition_id()


def sites_of(
    case: str, goals: Mapping[int, Goal], routing: Routing, hashed: SparkColumn, lots: SparkColumn
) -> SparkColumn:
    """The keys of all sites that a row goes to, as an array: one, or, of groups that sites share, each of them.

    Of the input that is dealt out, it is one of them, by ``lots``: a number that a row always has, as a task may be
    repeated. There are three lists. One tells for every group of every case where its sites begin in the third. One
    tells how many of these a row goes to; they are negative where it goes to one of so many.
    """
    keys = sorted({key for table in routing.tables.values() for key in table})
    firsts, counts, kinds = list[int](), list[int](), list(dict.fromkeys(goals.values()))
    for goal in kinds:
        first, count = [1 + keys.index(key) for key in routing.tables[goal.operator]], [1] * routing.groups
        for shared in routing.splits.get(goal.operator, ()):
            if goal.copied or goal.input == shared.input:
                is_dealt = goal.input == shared.input
                first[shared.group], count[shared.group] = 1 + len(keys), len(shared.keys) * (-1 if is_dealt else 1)
                keys += shared.keys
        firsts, counts = firsts + first, counts + count
    begin = {number: 1 + kinds.index(goal) * routing.groups for number, goal in goals.items()}
    place = group_of(hashed, routing.groups) + by_case(case, {n: F.lit(at) for n, at in begin.items()}, begin)
    first_of, count_of = (F.element_at(_list(each), place.cast(IntegerType())) for each in (firsts, counts))
    lot = F.when(count_of < 0, F.pmod(lots, -count_of).cast(IntegerType())).otherwise(0)
    return F.slice(_list(keys), first_of + lot, F.greatest(count_of, F.lit(1)))


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


def _listed(case: str, operators: Mapping[int, str], routing: Routing, group: SparkColumn) -> SparkColumn:
    """The entry of a group in the list of all operators' tables."""
    names = sorted(set(operators.values()))
    first = {number: 1 + names.index(name) * routing.groups for number, name in operators.items()}
    entries = _list([key for name in names for key in routing.tables[name]])
    place = group + by_case(case, {number: F.lit(at) for number, at in first.items()}, first)
    return F.element_at(entries, place.cast(IntegerType()))


def _list(numbers: Iterable[int]) -> SparkColumn:
    """A list that Spark's compiled code takes as an argument."""
    return F.split(F.lit(",".join(map(str, numbers))), ",").cast(ArrayType(IntegerType()))


def _compared(table: Sequence[int], group: SparkColumn) -> SparkColumn:
    ends = _ends(table)
    if not ends:
        return F.lit(table[-1])
    return _first((group < end, F.lit(table[end - 1])) for end in ends).otherwise(table[-1])


def _ends(table: Sequence[int]) -> list[int]:
    """Where another range of groups with one site begins."""
    return [number for number, (here, following) in enumerate(pairwise(table), start=1) if here != following]


def _first(cases: Iterable[tuple[SparkColumn, SparkColumn]]) -> SparkColumn:
    """The value of the first condition that holds."""
    (condition, value), *rest = cases
    return reduce(lambda chosen, case: chosen.when(*case), rest, F.when(condition, value))
