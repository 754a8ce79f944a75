"""Endless streams: with windows, with punctuations, and with both, nothing grows with the number of epochs."""

from statistics import median

import numpy as np
import pyarrow as pa
import pytest
from tests.support.in_process import InProcess

from watersmeet.model.query import JoinNode, Query, StreamNode
from watersmeet.planning import plan
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
