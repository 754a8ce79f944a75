"""A ring in this process, under the shipped driver: what its sites look at, hold and take.

Sites work one after the other, so that the time of each is its own. Two streams of images are matched by a function
that counts the pairs it is asked about.
"""

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import mean

import numpy as np
import pyarrow as pa

from watersmeet.adapt.policy import MemoryOptions
from watersmeet.driver.checkpoint import Expectation, open_checkpoint
from watersmeet.driver.start import DriverOptions, start_driver
from watersmeet.driver.task_specs import owners_of
from watersmeet.lab.columns import plain_column
from watersmeet.model.ids import OperatorId, RunId
from watersmeet.model.query import JoinNode, Query, StreamNode
from watersmeet.operators.ring.schemes import Scheme
from watersmeet.planning import plan
from watersmeet.planning.predicates import predicate_name
from watersmeet.runners.local import LocalOffsets, LocalRunner
from watersmeet.site.spec import LevelSpec
from watersmeet.state.manifest import Manifest

GROUPS, SECOND = 60, 1_000_000
SHADES = 4
"""By how much images that are alike differ, on average."""

RING, PREDICATE = OperatorId("join1"), predicate_name(1, "similar")
SIMILAR = f"{PREDICATE}(A.image, B.image)"
SCHEMA = pa.schema([("id", pa.int64()), ("image", pa.list_(pa.uint8())), ("ts", pa.timestamp("us", "UTC"))])


@dataclass(frozen=True)
class Size:
    """So many images of so many pixels come from each camera in each epoch, which is a second; they stay for some."""

    epochs: int
    rows: int
    pixels: int
    window_s: int


@dataclass
class Ran:
    """What a run gave; by site, the pairs that were looked at and the time it took; of all sites, what they hold.

    ``held`` and ``file_bytes`` are what they held after each epoch: rows, copies counted, and the sizes of their files.
    """

    results: int = 0
    pairs: dict[int, int] = field(default_factory=dict)
    busy_s: dict[int, float] = field(default_factory=dict)
    held_rows: int = 0
    probes: int = 0
    held: list[int] = field(default_factory=list)
    file_bytes: list[int] = field(default_factory=list)

    def mean_rows(self, size: Size) -> float:
        """The rows held, on average of the epochs since the first rows have ended."""
        return mean(self.held[size.window_s :])

    def mean_bytes(self, size: Size) -> float:
        """The bytes of files, on average of the same epochs."""
        return mean(self.file_bytes[size.window_s :])


def images(size: Size, names: str = "AB", seed: int = 15) -> list[dict[str, pa.Table]]:
    """The epochs of some cameras: grey images, some alike."""
    rng, epochs = np.random.default_rng(seed), []
    for epoch in range(size.epochs):
        tables = {}
        for name in names:
            shades = np.repeat(rng.integers(0, 250, size.rows)[:, None], size.pixels, axis=1)
            pixels = (shades + rng.integers(0, 6, shades.shape)).astype(np.uint8)
            offsets = np.arange(size.rows + 1, dtype=np.int32) * size.pixels
            moments = epoch * SECOND + np.sort(rng.integers(0, SECOND, size.rows))
            tables[name] = pa.table(
                {
                    "id": epoch * size.rows + np.arange(size.rows),
                    "image": pa.ListArray.from_arrays(pa.array(offsets), pa.array(pixels.ravel())),
                    "ts": pa.array(moments).cast(SCHEMA.field("ts").type),
                },
                schema=SCHEMA,
            )
        epochs.append(tables)
    return epochs


def run_ring(
    size: Size, epochs: Sequence[Mapping[str, pa.Table]], scheme: Scheme, sites: int, on: str = SIMILAR
) -> Ran:
    """Match the images of two cameras, or join them on another condition."""
    streams = tuple(StreamNode(name, SCHEMA, "ts", size.window_s * SECOND, 0) for name in "AB")
    query = Query(JoinNode(streams, on), ("A.id", "B.id"))
    expected, ran = Expectation("ring", plan(query), GROUPS, GROUPS, sites, ()), Ran()
    with tempfile.TemporaryDirectory(prefix="watersmeet-ring-") as folder:
        offsets = LocalOffsets()
        checkpoint = open_checkpoint(folder, expected, offsets, "ring")
        runner = _SiteBySite(checkpoint.storage, plain_column)
        function = partial(_counted, runner.count)
        options = DriverOptions(
            "ring",
            expected,
            MemoryOptions(),
            adaptation="none",
            functions={PREDICATE: (function, ("A.image", "B.image"))} if on == SIMILAR else {},
            ring_scheme=scheme,
        )
        loop = start_driver(checkpoint, runner, options)
        for number, tables in enumerate(epochs):
            offsets.last = number
            before = set(loop.manifest.runs)
            loop.batch(dict(tables), number)
            ran.probes += _probes(loop.manifest, scheme, before)
            ran.held.append(_held(loop.manifest, scheme))
            ran.file_bytes.append(sum(checkpoint.storage.size(run.path) or 0 for run in loop.manifest.runs.values()))
        ran.results = sum(len(rows) for rows in runner.results.values())
        ran.pairs, ran.busy_s = dict(sorted(runner.pairs.items())), dict(sorted(runner.busy_s.items()))
        ran.held_rows = ran.held[-1]
        loop.close()
    return ran


def _counted(count: Callable[[int], None], left: pa.Array, right: pa.Array) -> pa.Array:
    count(len(left))
    return similar(left, right)


def similar(left: pa.Array, right: pa.Array) -> pa.Array:
    """Whether two images differ by few shades on average."""
    if not len(left):
        return pa.array([], pa.bool_())
    one, other = (each.flatten().to_numpy().reshape(len(each), -1).astype(np.int16) for each in (left, right))
    return pa.array(np.abs(one - other).mean(axis=1) < SHADES)


@dataclass
class _SiteBySite(LocalRunner):
    pairs: dict[int, int] = field(default_factory=dict)
    busy_s: dict[int, float] = field(default_factory=dict)
    _site: int = 0

    def count(self, pairs: int) -> None:
        self.pairs[self._site] = self.pairs.get(self._site, 0) + pairs

    def _run_level(self, spec: LevelSpec, messages: pa.Table, names: list[str]) -> pa.Table:
        outputs = []
        for site, here in spec.sites.items():
            self._site, started = site, time.process_time()
            outputs.append(super()._run_level(replace(spec, sites={site: here}), messages, names))
            if spec.level:  # rows are only stored below the ring
                self.busy_s[site] = self.busy_s.get(site, 0.0) + time.process_time() - started
        return pa.concat_tables(outputs)


def _held(manifest: Manifest, scheme: Scheme) -> int:
    """The rows that all sites hold together, copies counted."""
    owners, total = owners_of(manifest, RING), 0
    names = [source.name for source in manifest.plan.operator(RING).inputs]
    for part in manifest.operators[RING].slices:
        run = manifest.runs[part.run]
        by_group = dict(zip(run.groups, run.group_rows.array.tolist(), strict=True))
        for site in owners:
            held = scheme.held(owners, site, names.index(run.input)) & part.groups
            total += sum(by_group[group] for group in held)
    return total


def _probes(manifest: Manifest, scheme: Scheme, before: set[RunId]) -> int:
    """How many rows the sites had to look at in an epoch, those that it brought."""
    owners, total = owners_of(manifest, RING), 0
    names = [source.name for source in manifest.plan.operator(RING).inputs]
    for run in (run for name, run in manifest.runs.items() if name not in before):
        by_group = dict(zip(run.groups, run.group_rows.array.tolist(), strict=True))
        for site in owners:
            for visit in scheme.visits(owners, site, names.index(run.input)):
                total += sum(rows for group, rows in by_group.items() if group in visit.probing)
    return total
