"""Cameras: the images of three cameras, taken within two seconds, that show the same thing.

Two images match if their pixels differ little on average: a function of ours over Arrow arrays, which no equality can
stand for. Spark's own stream joins refuse that; here it is a *ring*: every image is stored once, and meets all images
of the other cameras that were taken at about the same time. The brightness of an image is cheap to compare, and images
that match are about as bright: with that beside the function, few pairs are left for it to look at.

The images are made here: things of some shade and place pass by, and each camera sees most of them, a little later and
with some noise. Run it with::

    python examples/cameras.py

It takes about a minute, says how many things were seen by all three cameras, and draws some of them into
``out/cameras.png``.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

import watersmeet as wm

WIDTH = 12
PIXELS = WIDTH * WIDTH
NOISE, ALIKE, VISIBLE = 4, 5.0, 0.8
WINDOW = "2 seconds"
Cameras = Mapping[str, Sequence[pa.Table]]


# --- the query -------------------------------------------------------------------------------------------------------


def same_thing(left: pa.Array, right: pa.Array) -> pa.Array:
    """Whether pixels differ little on average; called with the images of many pairs at a time."""
    one, other = (pc.list_flatten(each).to_numpy().reshape(len(each), -1).astype(np.int16) for each in (left, right))
    return pa.array(np.abs(one - other).mean(axis=1) < ALIKE)


def matches(spark: SparkSession, cameras: Cameras) -> wm.Relation:
    """The images that show one thing, of all cameras."""
    flow = wm.Flow(spark)
    streams = [
        flow.stream(name, wm.testing.replay(spark, tables), time="at", window=WINDOW, watermark="1 second")
        for name, tables in cameras.items()
    ]
    first, *others = cameras
    on = [
        condition
        for name in others
        for condition in (
            f"ABS({first}.brightness - {name}.brightness) < {ALIKE}",
            wm.predicate(same_thing, f"{first}.image", f"{name}.image"),
        )
    ]
    return flow.join(*streams, on=on).select(*(f"{name}.id AS {name}" for name in cameras))


# --- what the cameras see --------------------------------------------------------------------------------------------


def seen(names: str = "ABC", seconds: int = 6, things: int = 15, seed: int = 8) -> Cameras:
    """For each camera a table a second: images of things that pass by, and the number of the thing."""
    rng = np.random.default_rng(seed)
    cameras: dict[str, list[pa.Table]] = {name: [] for name in names}
    for second in range(seconds):
        shapes = [_thing(rng) for _ in range(things)]
        moments = np.sort(rng.random(things)) + second
        for tables in cameras.values():
            visible = np.flatnonzero(rng.random(things) < VISIBLE)
            noise = rng.integers(0, NOISE, (things, PIXELS))
            images = [(shapes[each] + noise[each]).astype(np.uint8) for each in visible]
            late = rng.random(len(visible)) * 0.2
            micros = ((moments[visible] + late) * 1e6).astype(np.int64) + _START
            tables.append(
                pa.table(
                    {
                        "id": second * things + visible,
                        "at": pa.array(micros).cast(pa.timestamp("us", "UTC")),
                        "brightness": [float(image.mean()) for image in images],
                        "image": pa.array([image.tolist() for image in images], pa.list_(pa.int16())),
                    }
                )
            )
    return cameras


def _thing(rng: np.random.Generator) -> np.ndarray:
    """A rectangle before a background, each of some shade."""
    image = np.full((WIDTH, WIDTH), rng.integers(0, 200))
    top, left = rng.integers(0, WIDTH // 2, 2)
    image[top : top + WIDTH // 2, left : left + WIDTH // 2] = rng.integers(0, 250)
    return image.ravel()


_START = int(datetime(2026, 1, 5, 12, tzinfo=UTC).timestamp()) * 1_000_000


# --- run it ----------------------------------------------------------------------------------------------------------


def run(spark: SparkSession, cameras: Cameras, name: str = "matches") -> list[tuple[int, ...]]:
    """The numbers of the images that match, sorted."""
    query = matches(spark, cameras).writeStream.format("memory").queryName(name).trigger(availableNow=True).start()
    query.awaitTermination()
    return sorted(tuple(row) for row in spark.table(name).collect())


def draw(cameras: Cameras, found: Sequence[tuple[int, ...]], file: Path, most: int = 10) -> None:
    """Some matches: a column for each, a row for each camera."""
    from matplotlib.figure import Figure

    images = {name: _by_number(tables) for name, tables in cameras.items()}
    shown = found[:: max(1, len(found) // most)][:most]
    figure = Figure(figsize=(max(1, len(shown)), len(cameras)), layout="constrained")
    grid = figure.subplots(len(cameras), max(1, len(shown)), squeeze=False)
    for axes in grid.flat:
        axes.axis("off")
    for column, match in enumerate(shown):
        for row, (name, number) in enumerate(zip(cameras, match, strict=True)):
            grid[row, column].imshow(images[name][number], cmap="gray", vmin=0, vmax=255)
            grid[row, column].set_title(f"{name} {number}", fontsize=8)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=120)


def _by_number(tables: Sequence[pa.Table]) -> dict[int, np.ndarray]:
    rows = pa.concat_tables(tables).select(["id", "image"]).to_pylist()
    return {row["id"]: np.array(row["image"]).reshape(WIDTH, WIDTH) for row in rows}


def main() -> int:
    """Match the images of three cameras, tell how many things were found, and draw some."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    session = SparkSession.builder.master("local[2]").appName("cameras").config("spark.ui.enabled", "false")
    spark = session.getOrCreate()
    cameras = seen()
    found = run(spark, cameras)
    same = sum(len(set(row)) == 1 for row in found)
    images = sum(len(table) for tables in cameras.values() for table in tables)
    picture = Path("out", "cameras.png")
    draw(cameras, found, picture)
    print(f"{images} images of {len(cameras)} cameras: {same} things were seen by all, {len(found) - same} look alike")
    print(f"Some of them are in {picture}.")
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
