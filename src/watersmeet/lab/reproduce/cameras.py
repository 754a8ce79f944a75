"""PSP's own query (section 8.1): images of three cameras that are alike, within a window of time.

The paper's images have thousands of pixels, and a tuple comes every 20 ms; here an epoch is a second of fewer images.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from watersmeet.api.flow import Flow
from watersmeet.api.predicate import predicate
from watersmeet.api.relation import Relation
from watersmeet.lab.reproduce.setting import Size, Streams
from watersmeet.lab.ring import local

CAMERAS = "ABC"
WINDOW_S = 20
FULL = Size(epochs=32, rows=16, tuple_range=2_000, groups=local.GROUPS)
QUICK, QUICK_BUDGET = Size(epochs=4, rows=6, tuple_range=20, groups=8), 5_000


@dataclass(frozen=True)
class Cameras:
    """The query on some sites; of its size, the tuple range is the number of pixels."""

    sites: int
    minutes: float = 0.5
    weights: tuple[float, ...] = ()

    @property
    def name(self) -> str:
        """For people."""
        return f"three cameras, {self.sites} sites"

    def size(self, *, quick: bool) -> Size:
        """How many images, and how large."""
        return QUICK if quick else FULL

    def budget_bytes(self, *, quick: bool) -> int:
        """There is none; what warms up has one."""
        return QUICK_BUDGET if quick else 1 << 40

    def streams(self, size: Size) -> Streams:
        """Make the images."""
        epochs = local.images(local.Size(size.epochs, size.rows, size.tuple_range, WINDOW_S), CAMERAS)
        return {name: [tables[name] for tables in epochs] for name in CAMERAS}

    def relation(self, spark: SparkSession, frames: Mapping[str, DataFrame]) -> Relation:
        """Two rounds: images of the first two cameras that are alike, and then those of the third."""
        flow, window = Flow(spark), f"{WINDOW_S} seconds"
        streams = [flow.stream(name, frames[name], time="ts", window=window, watermark="0 seconds") for name in CAMERAS]
        pairs = [predicate(local.similar, f"{one}.image", f"{other}.image") for one, other in ("AB", "BC")]
        return flow.join(*streams, on=pairs).select("A.id AS a", "B.id AS b", "C.id AS c")
