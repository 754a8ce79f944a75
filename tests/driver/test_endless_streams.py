"""Endless streams: with windows, with punctuations, and with both, nothing grows with the number of epochs."""

from statistics import median

import numpy as np
import pyarrow as pa
import pytest
from tests.support.in_process import InProcess

from watersmeet.adapt.merging.purging import SMALL_BYTES
from watersmeet.adapt.policy import REWRITE_AT
from watersmeet.model.query import JoinNode, Query, StreamNode
from watersmeet.planning import plan
from watersmeet.state.sizes import live_bytes_by_site
from watersmeet.state.stored import to_json

EPOCHS, ROWS, KEYS_ALIVE = 500, 20, 100
SCHEMA = pa.schema([("k", pa.int64()), ("ts", pa.timestamp("us", "UTC"))])
PROMISES = pa.schema([("#shape", pa.int64()), ("k", pa.int64()), ("k#until", pa.int64())])
FLAT = 1.15


def tables(rng: np.random.Generator, epoch: int, *, punctuated: bool) -> dict[str, pa.Table]:
    """Keys come for a while, and then are promised not to come any more; times go on by a hundred an epoch."""
    first = epoch * 5
    found = {}
    for name in "AB":
        times = 100 * epoch + rng.integers(0, 100, ROWS)
        columns = [pa.array(first + rng.integers(0, KEYS_ALIVE, ROWS)), pa.array(times).cast(SCHEMA.field("ts").type)]
        found[name] = pa.Table.from_arrays(columns, schema=SCHEMA)
        if punctuated:
            shapes, keys = [1] * 5, list(range(first, first + 5))
            found[f"{name}#promises"] = pa.table([shapes, keys, [None] * 5], PROMISES)
    return found


def ran(folder, *, windows: bool, punctuated: bool) -> tuple[list[dict[str, int]], int]:
    """What was weighed after every epoch, and how many results there were."""
    said = {"time": "ts", "window_us": 1_000, "delay_us": 100} if windows else {}
    promised = {"punctuated": ("k",)} if punctuated else {}
    a, b = (StreamNode(name, SCHEMA, **said, **promised) for name in "AB")
    query = InProcess(plan(Query(JoinNode((a, b), "A.k = B.k"))), str(folder), groups=4, sites=1)
    rng, weighed, results = np.random.default_rng(5), [], 0
    for epoch in range(EPOCHS):
        results += len(query.epoch(tables(rng, epoch, punctuated=punctuated)))
        manifest = query.manifest
        weighed.append(
            {
                "rows": manifest.rows,
                "files": len(list(folder.rglob("*.arrow"))) if epoch % 10 == 0 else 0,
                "manifest": len(to_json(manifest)) if epoch % 10 == 0 else 0,
            }
        )
    return weighed, results


def late_against_early(weighed: list[dict[str, int]], what: str) -> float:
    series = [each[what] for each in weighed if each[what]]
    part = len(series) // 10
    return median(series[-part:]) / median(series[part : 2 * part])


def many(rng: np.random.Generator, epoch: int) -> dict[str, pa.Table]:
    """A thousand rows of each stream, of keys that come for twenty epochs."""
    first, new, found = epoch * 300, 300, {}
    promised = [np.ones(new, np.int64), rng.permutation(np.arange(first, first + new)), pa.nulls(new, pa.int64())]
    for name in "AB":
        keys = rng.integers(first, first + 20 * new, 1_000)
        times = pa.array(np.full(1_000, epoch)).cast(SCHEMA.field("ts").type)
        found[name] = pa.Table.from_arrays([pa.array(keys), times], schema=SCHEMA)
        found[f"{name}#promises"] = pa.table(promised, PROMISES)
    return found


@pytest.mark.long
@pytest.mark.timeout(600)
def test_much_state_is_flat_with_punctuations_alone(tmp_path):
    a, b = (StreamNode(name, SCHEMA, punctuated=("k",)) for name in "AB")
    query = InProcess(plan(Query(JoinNode((a, b), "A.k = B.k"))), str(tmp_path), groups=16, sites=2)
    rng, weighed, letting_go_ms, run_ms = np.random.default_rng(7), [], 0, 0
    for epoch in range(200):
        query.epoch(many(rng, epoch))
        metrics = query.loop.history.get(query.manifest.batch)
        letting_go_ms += sum(site.promises_ms for site in metrics.sites)
        run_ms += metrics.duration_ms["run"]
        files = len(list(tmp_path.rglob("*.arrow")))
        weighed.append({"rows": metrics.state_rows, "bytes": metrics.state_bytes, "files": files})
    assert min(int(size) for size in live_bytes_by_site(query.manifest)) > 2 * SMALL_BYTES
    for what in ("rows", "bytes", "files"):
        assert late_against_early(weighed, what) <= FLAT, what
    needed = 2 * 1_000 * 20 / 2  # of the rows of twenty epochs, half have a key that still comes
    assert median(each["rows"] for each in weighed[100:]) <= needed / (1 - REWRITE_AT["purge"])
    assert letting_go_ms < run_ms / 2, "no measure of time, but of what goes wrong if everything is looked at"


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_state_files_and_manifest_are_flat_and_smaller_with_both(tmp_path):
    held = {}
    for windows, punctuated in ((True, False), (False, True), (True, True)):
        folder = tmp_path / f"{windows}-{punctuated}"
        weighed, results = ran(folder, windows=windows, punctuated=punctuated)
        assert results > EPOCHS
        for what in ("rows", "files", "manifest"):
            assert late_against_early(weighed, what) <= FLAT, (windows, punctuated, what)
        held[windows, punctuated] = median(each["rows"] for each in weighed[EPOCHS // 2 :])
    assert held[True, True] < min(held[True, False], held[False, True]), held
