"""Partition groups: the hash space cut into equal ranges.

A row's *hash* is Spark's ``xxhash64`` of its join key, read as an unsigned 64-bit number. Its group is
``((hash >> 32) * groups) >> 32``: monotone in the hash, so rows sorted by hash lie group by group, a group of a run is
one contiguous range, and a narrower range of hashes is a part of a group. `watersmeet.runners.spark.split` has the same
definition as a Spark expression; a test holds the two together.

A set of groups (`GroupSet`) is a mask of bits: 8 KiB for the most groups there may be, and set operations are those of
whole numbers.
"""

import base64
import zlib
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Hashes: TypeAlias = npt.NDArray[np.uint64]
Mask: TypeAlias = npt.NDArray[np.bool_]
Ranges: TypeAlias = tuple[tuple[int, int], ...]

_SHIFT = np.uint64(32)
MAX_GROUPS = 1 << 16
"""What results are traced by has two bytes. The driver's part of a step follows the number of groups; measured, with
two operators of five inputs on four sites, about 180 runs, a budget, and up to a million rows an epoch:

| groups | a step | one that spills | a commit | a version | with statistics | a snapshot | driver's memory |
|---|---|---|---|---|---|---|---|
| 300 | 20 ms | 0.07 s | 2 ms | 20 kB | 75 kB | 0.2 MB | 10 MB |
| 4,096 | 40 ms | 0.3 s | 3 ms | 0.1 MB | 0.6 MB | 1.5 MB | 60 MB |
| 16,384 | 0.1 s | 0.9 s | 12 ms | 0.35 MB | 2 MB | 5 MB | 140 MB |
| 65,536 | 0.4 s | 4 s | 30 ms | 1.2 MB | 8 MB | 18 MB | 270 MB |
"""

PACKED, PLAIN_TEXT_MAX = "z:", 256
"""How the text of a set begins that is compressed, as those of more than some thousand groups are."""

MASKS_CACHED = 1 << 10
"""With the most groups there may be, 64 MiB."""


def group_of(hashes: Hashes, groups: int) -> npt.NDArray[np.int64]:
    """The partition group of each hash.

    >>> group_of(np.array([0, 2**63, 2**64 - 1], dtype=np.uint64), 300).tolist()
    [0, 150, 299]
    """
    return (((hashes >> _SHIFT) * np.uint64(groups)) >> _SHIFT).astype(np.int64)


def first_hash(group: int, groups: int) -> int:
    """The smallest hash of a group; of ``groups`` itself, one past the largest hash there is.

    >>> first_hash(150, 300) == 2**63
    True
    """
    return -((-group << 32) // groups) << 32


def row_range(hashes: Hashes, start: int, stop: int, groups: int) -> tuple[int, int]:
    """Where the rows of groups ``start`` to ``stop`` (half-open) lie among sorted hashes."""
    low = int(np.searchsorted(hashes, np.uint64(first_hash(start, groups))))
    if stop >= groups:
        return low, len(hashes)
    return low, int(np.searchsorted(hashes, np.uint64(first_hash(stop, groups))))


def group_offsets(hashes: Hashes, groups: int) -> npt.NDArray[np.int64]:
    """Where each group starts among sorted hashes, with the number of rows at the end."""
    return np.append(np.searchsorted(hashes, _starts(groups)), len(hashes)).astype(np.int64)


@lru_cache(maxsize=8)
def _starts(groups: int) -> Hashes:
    return np.array([first_hash(group, groups) for group in range(groups)], dtype=np.uint64)


class GroupSet:
    """Some partition groups, as the bits of a whole number; it never changes.

    >>> some = GroupSet.of([3, 1, 2, 7])
    >>> list(some), len(some), 3 in some, some.ranges
    ([1, 2, 3, 7], 4, True, ((1, 4), (7, 8)))
    >>> GroupSet.of([1, 2]) - GroupSet.of([2]) == GroupSet.of([1])
    True
    """

    __slots__ = ("bits",)

    def __init__(self, bits: int = 0) -> None:
        self.bits = bits

    @classmethod
    def of(cls, groups: Iterable[int]) -> "GroupSet":
        """The set of some groups."""
        numbers = np.fromiter(groups, np.int64)
        mask = np.zeros(int(numbers.max(initial=-1)) + 1, dtype=np.bool_)
        mask[numbers] = True
        return cls.within(mask)

    @classmethod
    def within(cls, mask: Mask) -> "GroupSet":
        """The groups for which a mask holds.

        >>> list(GroupSet.within(np.array([False, True, True])))
        [1, 2]
        """
        return cls(int.from_bytes(np.packbits(mask, bitorder="little").tobytes(), "little"))

    @classmethod
    def all(cls, count: int) -> "GroupSet":
        """The first so many groups."""
        return cls((1 << count) - 1)

    @classmethod
    def union(cls, sets: Iterable["GroupSet"]) -> "GroupSet":
        """The groups of all sets.

        >>> GroupSet.union([GroupSet.of([1]), GroupSet.of([2])])
        GroupSet.of([1, 2])
        """
        bits = 0
        for each in sets:
            bits |= each.bits
        return cls(bits)

    def mask(self, count: int) -> Mask:
        """The set as an array of so many flags, which is not to be changed."""
        return _mask(self.bits, count)

    @property
    def numbers(self) -> npt.NDArray[np.int64]:
        """The groups in order."""
        return self.mask(self.bits.bit_length()).nonzero()[0]

    @property
    def ranges(self) -> Ranges:
        """The groups as sorted half-open ranges."""
        edges = np.diff(self.mask(self.bits.bit_length()).astype(np.int8), prepend=0, append=0)
        starts, stops = np.flatnonzero(edges == 1).tolist(), np.flatnonzero(edges == -1).tolist()
        return tuple(zip(starts, stops, strict=True))

    def __and__(self, other: "GroupSet") -> "GroupSet":
        return GroupSet(self.bits & other.bits)

    def __or__(self, other: "GroupSet") -> "GroupSet":
        return GroupSet(self.bits | other.bits)

    def __sub__(self, other: "GroupSet") -> "GroupSet":
        return GroupSet(self.bits & ~other.bits)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GroupSet) and self.bits == other.bits

    def __hash__(self) -> int:
        return hash(self.bits)

    def meets(self, other: "GroupSet") -> bool:
        """Whether two sets have a group in common."""
        return self.bits & other.bits != 0

    def __contains__(self, group: int) -> bool:
        return bool(self.bits >> group & 1)

    def __iter__(self) -> Iterator[int]:
        return iter(self.numbers.tolist())

    def __len__(self) -> int:
        return self.bits.bit_count()

    def __bool__(self) -> bool:
        return self.bits != 0

    def __repr__(self) -> str:
        return f"GroupSet.of({list(self)})"

    @property
    def text(self) -> str:
        """The set for a file: a quarter of a byte a group, or less where that is long.

        >>> GroupSet.of([0, 9]).text
        '201'
        >>> len(GroupSet.of(range(5000)).text)
        26
        """
        plain = f"{self.bits:x}"
        if len(plain) <= PLAIN_TEXT_MAX:
            return plain
        data = self.bits.to_bytes((self.bits.bit_length() + 7) // 8, "little")
        return f"{PACKED}{base64.b64encode(zlib.compress(data, 1)).decode()}"

    @classmethod
    def parse(cls, text: str) -> "GroupSet":
        """Read what ``text`` gave."""
        if text.startswith(PACKED):
            return cls(int.from_bytes(zlib.decompress(base64.b64decode(text.removeprefix(PACKED))), "little"))
        return cls(int(text, 16))


@lru_cache(maxsize=MASKS_CACHED)
def _mask(bits: int, count: int) -> Mask:
    data = np.frombuffer(bits.to_bytes((count + 7) // 8, "little"), dtype=np.uint8)
    mask = np.unpackbits(data, bitorder="little", count=count).view(np.bool_)
    mask.setflags(write=False)
    return mask


@lru_cache(maxsize=1 << 8)
def groups_at(routing: tuple[int, ...], site: int) -> GroupSet:
    """The groups a routing table sends to a site.

    >>> groups_at((0, 1, 0), 0)
    GroupSet.of([0, 2])
    """
    return GroupSet.within(np.asarray(routing) == site)
