"""Looks for rows that can go by the keys that were promised, at one site in one step.

A look costs what was promised since the last one, not what is held: the keys that are new are found in a run by binary
search, as its rows are sorted by the hash of theirs; or, if these are fewer, its rows among the keys. Only where the
new keys cannot be told one by one, or nobody has looked before, all rows are asked. Rows found are counted, until they
are enough for the run to be written anew.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from watersmeet.operators.ranges import Index, distinct, expand
from watersmeet.operators.spec import InputSpec
from watersmeet.site.expiry import End
from watersmeet.site.partners import Partners
from watersmeet.site.promise_spec import PurgeRule
from watersmeet.site.promises import PromiseReader
from watersmeet.site.spec import MergeOrder
from watersmeet.state.groups import GroupSet, Hashes, group_of
from watersmeet.state.looks import Look, Looked
from watersmeet.state.manifest import LIVE
from watersmeet.state.rows import SortedRows, take_rows
from watersmeet.state.runs import open_groups, release_run
from watersmeet.storage.base import Storage


@dataclass(frozen=True)
class NewKeys:
    """The hashes of keys that were promised since some version, sorted, and their groups."""

    hashes: Hashes
    groups: Index

    @classmethod
    def of(cls, hashes: Hashes, groups: int) -> "NewKeys":
        """Keys with the groups they are of."""
        return cls(hashes, group_of(hashes, groups))

    def within(self, some: GroupSet, groups: int) -> Hashes:
        """Those of some groups."""
        found: Hashes = self.hashes[some.mask(groups)[self.groups]]
        return found


@dataclass
class Purger:
    """Looks at slices; the new keys of an input are the same for many of them."""

    storage: Storage
    groups: int
    reader: PromiseReader
    _new: dict[tuple[int, int], NewKeys | None] = field(default_factory=dict)

    def look(self, order: MergeOrder, look: Look, live: frozenset[str], partners: Partners | None) -> Looked | None:
        """How many rows of a slice can go; None where that cannot be told without looking at all of them.

        What was spilled is let go of again; ``live`` are the paths of the runs that are probed here. Of an outer join,
        ``partners`` are what is stored of the other input.
        """
        keys = None if look.told is None or order.purge is None else self._keys(order.source, order.purge, look.told)
        if keys is None and not look.scans:
            return None
        looked = self._look(order, look, keys, partners)
        if order.generation != LIVE:
            release_run(self.storage, order.runs[0][0])
            self.storage.forget({order.runs[0][0].path} - live)
        return looked

    def _look(self, order: MergeOrder, look: Look, keys: NewKeys | None, partners: Partners | None) -> Looked:
        run, part = order.runs[0]
        pieces = open_groups(self.storage, run, part.groups & order.groups, self.groups)
        rows, end = sum(map(len, pieces)), order.end(self.groups, self.reader, partners)
        if keys is not None:
            is_plain, some = bool(order.purge and order.purge.is_plain), keys.within(order.groups, self.groups)
            found = [(piece, _with_keys(piece, some)) for piece in pieces]
            if is_plain:
                count = sum(len(index) for _, index in found)
            else:
                count = sum(end.count_promised(_asked(order.source, *each)) for each in found)
            looked = Looked(run.id, order.generation, rows, look.gone + count)
            if is_plain or not looked.is_worth(look.at):
                return looked
        return Looked(run.id, order.generation, rows, _going(end, pieces, look), scanned=True)

    def _keys(self, source: InputSpec, rule: PurgeRule, told: int) -> NewKeys | None:
        if (source.tag, told) not in self._new:
            hashes = self._hashes(rule, told)
            self._new[source.tag, told] = None if hashes is None else NewKeys.of(hashes, self.groups)
        return self._new[source.tag, told]

    def _hashes(self, rule: PurgeRule, told: int) -> Hashes | None:
        """The keys that rows may go by since a version; None where they cannot be told, or rows go by times as well."""
        if rule.mixes_times:
            return None
        asked = [each.keys for each in rule.others if each.keys is not None]
        asked += [] if rule.own is None else [rule.own]
        known = [self.reader.keys(each).hashes_since(told + 1) for each in asked]
        told_apart = [each for each in known if each is not None]
        return distinct(told_apart) if known and len(told_apart) == len(known) else None


def _going(end: End, pieces: Iterable[SortedRows], look: Look) -> int:
    """All rows that can go by promised keys; if any shall, by their times, too."""
    if look.at:
        return sum(end.count_promised(piece) for piece in pieces)
    return sum(len(piece) - len(end.still_needed(piece)) for piece in pieces)


def _with_keys(rows: SortedRows, keys: Hashes) -> Index:
    """The rows whose hashes are among those of some keys."""
    few, many = (rows.hashes, keys) if len(rows) < len(keys) else (keys, rows.hashes)
    if not len(few):
        return np.empty(0, np.int64)
    low = np.searchsorted(many, few)
    is_there = many[np.minimum(low, len(many) - 1)] == few
    if few is rows.hashes:
        return np.flatnonzero(is_there)
    low, high = low[is_there], np.searchsorted(many, few[is_there], side="right")
    return expand(low, high - low)


def _asked(source: InputSpec, rows: SortedRows, index: Index) -> SortedRows:
    """Some rows, with no more columns than are asked about."""
    names = dict.fromkeys([*source.key_columns, *([] if source.last is None else [source.last])])
    return SortedRows(rows.hashes[index], take_rows(rows.rows.select(list(names)), index))
