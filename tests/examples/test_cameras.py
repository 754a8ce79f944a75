"""The script of the cameras, at a small size: the matches are those of comparing all images one by one."""

import importlib.util
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark import cloudpickle

SCRIPT = Path(__file__).parents[2] / "examples" / "cameras.py"


@pytest.fixture(scope="module")
def cameras():
    spec = importlib.util.spec_from_file_location("cameras", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules["cameras"] = module
    spec.loader.exec_module(module)
    cloudpickle.register_pickle_by_value(module)  # as that of a script, which workers cannot import
    yield module
    cloudpickle.unregister_pickle_by_value(module)
    del sys.modules["cameras"]


def expected(cameras, streams):
    rows = [pa.concat_tables(tables).to_pylist() for tables in streams.values()]
    found = []
    for first, *others in product(*rows):
        times = [row["at"] for row in (first, *others)]
        is_near = (max(times) - min(times)).total_seconds() < 2
        if is_near and all(alike(cameras, first, other) for other in others):
            found.append(tuple(row["id"] for row in (first, *others)))
    return sorted(found)


def alike(cameras, one, other):
    difference = np.abs(np.array(one["image"]) - np.array(other["image"])).mean()
    return difference < cameras.ALIKE and abs(one["brightness"] - other["brightness"]) < cameras.ALIKE


def test_cameras_see_most_things_at_about_the_same_time(cameras):
    streams = cameras.seen(seconds=3, things=5)
    assert all(len(tables) == 3 for tables in streams.values())
    pairs = expected(cameras, {name: streams[name] for name in "AB"})
    assert sum(a == b for a, b in pairs) > len(pairs) / 2 > 3


def test_matches_are_drawn(cameras, tmp_path):
    streams = cameras.seen(seconds=1, things=4)
    found = expected(cameras, streams)
    for name, some in (("some", found), ("none", [])):
        cameras.draw(streams, some, tmp_path / "out" / f"{name}.png")
    assert (tmp_path / "out" / "some.png").stat().st_size > (tmp_path / "out" / "none.png").stat().st_size


@pytest.mark.long
@pytest.mark.spark
def test_few_images_are_matched(cameras, spark):
    streams = cameras.seen(seconds=1, things=3)
    assert cameras.run(spark, streams) == expected(cameras, streams) != []


@pytest.mark.slow
@pytest.mark.spark
def test_the_images_of_three_cameras_are_matched(cameras, spark):
    streams = cameras.seen(seconds=3, things=5)
    assert cameras.run(spark, streams) == expected(cameras, streams) != []
