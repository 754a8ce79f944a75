"""What a site task is told: everything it needs to be a pure function of its rows. Travels to the workers."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from watersmeet.engine.crash import CrashPlan
from watersmeet.engine.direct import Direct
from watersmeet.engine.layout import Layout
from watersmeet.model.ids import EpochId, InputName, OperatorId, SiteId
from watersmeet.state.groups import Ranges
from watersmeet.state.manifest import LIVE, RunFile, Slice
from watersmeet.storage.base import Storage

ROUND_LIMIT_BYTES = 256 << 20
SITE_NUMBER = "uint16"


@dataclass(frozen=True)
class InputSpec:
    """One input of an operator: the tag of its rows, the level that joins them, and what it keeps."""

    tag: int
    operator: OperatorId
    name: InputName
    level: int
    schema: pa.Schema
    key_columns: tuple[str, ...]
    traces: tuple[str, ...] = ()


@dataclass(frozen=True)
class OperatorSpec:
    """An operator: its inputs, and the tag its results have in the exchange above (None: it is the root).

    ``group_column`` tells the operators above a result's group; at the root, ``traced`` are such columns of all below.
    """

    id: OperatorId
    inputs: tuple[InputSpec, ...]
    hash_decides: bool
    output_tag: int | None
    group_column: str | None = None
    traced: tuple[str, ...] = ()


@dataclass(frozen=True)
class MergeOrder:
    """Runs of an input to merge into one, as far as they hold some groups of a generation."""

    operator: OperatorId
    input: InputName
    runs: tuple[tuple[RunFile, Slice], ...]
    groups: Ranges
    generation: int = LIVE


@dataclass(frozen=True)
class CleaningOrder:
    """Groups of an operator to clean, in this order, with all their slices.

    ``sizes`` are the bytes of the groups.
    """

    operator: OperatorId
    groups: tuple[int, ...]
    sizes: tuple[int, ...]
    slices: tuple[tuple[RunFile, Slice], ...]
    gather_bytes: int


@dataclass(frozen=True)
class SiteSlice:
    """The part of the manifest that concerns one site at one level."""

    key: int
    live: Mapping[OperatorId, tuple[tuple[RunFile, Slice], ...]]
    merges: tuple[MergeOrder, ...] = ()
    cleaning: CleaningOrder | None = None


@dataclass(frozen=True)
class Route:
    """Where an operator's results go: their tag, the columns of their next key, and the site of each of its groups.

    ``sites`` are the bytes of an array of `SITE_NUMBER`.
    """

    tag: int
    keys: tuple[str, ...]
    sites: bytes


@dataclass(frozen=True)
class LevelSpec:
    """One level of the plan in one epoch, for all sites.

    A level that ``only_stores`` closes what it is given as a generation of its own, and joins nothing; one that
    ``weighs`` tells the sizes of groups. Arriving rows are taken up in rounds of ``round_bytes``.

    With ``routes``, by the tag of the results, they leave in parcels; ``packed`` are those that arrive so.
    """

    driver: str
    epoch: EpochId
    level: int
    groups: int
    storage: Storage
    incoming: Layout
    inputs: Mapping[int, InputSpec]
    operators: tuple[OperatorSpec, ...]
    outgoing: Layout | None
    output: pa.Schema
    sites: Mapping[SiteId, SiteSlice]
    direct: Direct | None = None
    crash: CrashPlan | None = None
    forget_pairs: bool = False
    only_stores: bool = False
    weighs: bool = False
    round_bytes: int = ROUND_LIMIT_BYTES
    packed: bool = False
    routes: Mapping[int, Route] = field(default_factory=dict)

    @property
    def is_root(self) -> bool:
        """Whether this level's output is the query's."""
        return self.outgoing is None
