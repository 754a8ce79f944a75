"""The contender that stands for what Spark's users do today: its results are those of one join of all rows."""

from dataclasses import replace

import pytest
from tests.lab.outcomes import results_by_duckdb

from watersmeet.lab.bench import ring
from watersmeet.lab.bench.stored import StoredTables
from watersmeet.lab.bench.suite import Size

SUITE = replace(ring.BAND_SUITE, quick=Size(epochs=5, rows=30, heap="1g"))


@pytest.mark.long
@pytest.mark.spark
def test_new_rows_are_joined_with_stored_ones_once_also_if_an_epoch_is_repeated(spark, tmp_path):
    epochs = SUITE.tables(SUITE.quick)
    tables = StoredTables(SUITE.pipeline, SUITE.pipeline.time, tmp_path / "tables")

    def results(epoch):
        frames = {name: spark.createDataFrame(rows[epoch]) for name, rows in epochs.items()}
        return tables.joined(tables.together(frames), epoch).count()

    counts = [results(epoch) for epoch in range(SUITE.quick.epochs)]
    assert sum(counts) == results_by_duckdb(SUITE, slice(None), tmp_path / "data") > 0
    assert results(SUITE.quick.epochs - 1) == counts[-1]
