"""Streams as folders of Parquet files, one file per epoch: written once, read by every contender."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from watersmeet.testing.replay import FIRST_EPOCH_S

Tables = Mapping[str, Sequence[pa.Table]]
PAYLOAD_CHARACTERS = 13


def write_streams(folder: Path, streams: Tables) -> None:
    """Write every stream's epochs, dated so that Spark's file source takes them in order."""
    for name, tables in streams.items():
        (folder / name).mkdir(parents=True)
        for epoch, table in enumerate(tables):
            file = folder / name / f"epoch-{epoch:05}.parquet"
            pq.write_table(table, file)
            os.utime(file, (FIRST_EPOCH_S + epoch, FIRST_EPOCH_S + epoch))


def read_streams(spark: SparkSession, folder: Path, names: Sequence[str]) -> dict[str, DataFrame]:
    """The streams as Spark's file source delivers them: an epoch of each per batch."""
    return {name: _read_stream(spark, folder / name) for name in names}


def show_epochs(source: Path, target: Path, epochs: slice) -> Path:
    """Give a folder in which each stream has some of its epochs; those it has already stay."""
    for stream in source.iterdir():
        (target / stream.name).mkdir(parents=True, exist_ok=True)
        for file in sorted(stream.iterdir())[epochs]:
            if not (shown := target / stream.name / file.name).exists():
                os.link(file, shown)
    return target


def keyed(keys: npt.NDArray[np.int64], epoch: int, characters: int = PAYLOAD_CHARACTERS) -> pa.Table:
    """Rows with a key, a value and a string of some characters.

    >>> keyed(np.array([7]), 2).to_pylist()
    [{'k': 7, 'v': 51, 'p': '0000000000007'}]
    """
    payload = pc.utf8_lpad(pa.array(keys).cast(pa.string()), width=characters, padding="0")
    return pa.table({"k": keys, "v": keys * 7 + epoch, "p": payload})


def _read_stream(spark: SparkSession, folder: Path) -> DataFrame:
    schema = from_arrow_schema(pq.read_schema(min(folder.iterdir())))
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(f"file://{folder}")
