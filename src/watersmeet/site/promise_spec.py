"""What a site task is told of promises. Travels to the workers."""

from dataclasses import dataclass

import pyarrow as pa

from watersmeet.model.ids import InputName, RunId
from watersmeet.model.plan import Column
from watersmeet.operators.promises.stores import Store
from watersmeet.state.vectors import Vector


@dataclass(frozen=True)
class PunctuatedStream:
    """A stream of punctuations: the columns they name, and where what they say is kept.

    ``ranges`` are stores by the number of their column. ``until`` is the time before which punctuations have promised
    no row so far.
    """

    name: str
    columns: tuple[Column, ...]
    time: Column | None
    ranges: tuple[tuple[int, Store], ...]
    patterns: Store | None
    until: int | None = None


@dataclass(frozen=True)
class KeyPatternsSpec:
    """A store of patterns that promise keys (`watersmeet.operators.promises.sets.KeyPatterns`)."""

    store: InputName
    columns: tuple[str | None, ...]
    shape: int | None
    rehash: bool
    time: str | None = None
    length: int | None = None


@dataclass(frozen=True)
class StreamKeysSpec:
    """How a stream promises the keys of an operator.

    ``ranges`` are stores with the place of their column in the key, and its type where the hash is of it alone.
    ``patterns`` are in others. Some are ``passed`` on, though other streams have not promised them
    (`watersmeet.state.passing`).
    """

    ended: int | None = None
    ranges: tuple[tuple[int, InputName, pa.DataType | None], ...] = ()
    patterns: tuple[KeyPatternsSpec, ...] = ()
    hash_decides: bool = False
    passed: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class InputKeysSpec:
    """How an input promises keys: all streams it is made of have to (``is_whole``), or one that is passed on."""

    streams: tuple[StreamKeysSpec, ...]
    is_whole: bool = True


@dataclass(frozen=True)
class OtherInput:
    """Another input of an operator: how it promises keys, and by which ``limit`` of time rows have ended for it."""

    keys: InputKeysSpec | None
    limit: int | None = None


@dataclass(frozen=True)
class PurgeRule:
    """Which rows of an input can go because of the keys that others have promised.

    A row that comes out alone has to be decided first, and one that may be the match of others that come out alone has
    to wait for these, if there are any: ``decided`` tells, by group, up to which version keys were promised for which
    the own rows are decided, ``asked`` the same of the other input, whose keys the ``own`` input has promised. Rows
    that arrive go at once, unless they are spared.
    """

    others: tuple[OtherInput, ...]
    own: InputKeysSpec | None = None
    decided: Vector | None = None
    asked: Vector | None = None
    spares_arriving: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether a row goes as soon as one stream promises its key."""
        decides = (self.own, self.decided, self.asked)
        streams = [stream for each in self.others if each.keys for stream in each.keys.streams]
        return decides == (None, None, None) and len(self.others) == len(streams) == 1 and not streams[0].patterns

    @property
    def mixes_times(self) -> bool:
        """Whether a row may go that one other input has promised by its key, once it has ended for another one."""
        return len(self.others) > 1 and any(each.limit is not None for each in self.others)


@dataclass(frozen=True)
class PromiseMerge:
    """Runs of a store to merge; nobody asks any more which promises are new up to the version ``told_by``.

    Versions that have to be told ``apart`` for another reason stand for those before them. Those up to the one that is
    ``forgotten`` go.
    """

    store: InputName
    runs: tuple[RunId, ...]
    told_by: int
    apart: tuple[int, ...] = ()
    forgotten: int = 0
