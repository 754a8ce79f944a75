"""The split on Spark and the groups of the kernels are one definition."""

import numpy as np
import pytest
from pyspark.sql import functions as F

from watersmeet.runners.spark.split import Routing, site_keys, site_of
from watersmeet.runners.spark.split import group_of as spark_group
from watersmeet.site.messages import HASH, TAG
from watersmeet.state.groups import first_hash, group_of, group_offsets

EDGES = [0, 1, -1, 2**63 - 1, -(2**63), 2**32, -(2**32)]


@pytest.mark.spark
@pytest.mark.parametrize("groups", [1, 7, 300, 65536])
def test_spark_and_the_kernels_agree_on_the_group_of_every_hash(spark, groups):
    rng = np.random.default_rng(groups)
    hashes = np.concatenate([np.array(EDGES), rng.integers(-(2**63), 2**63, 500)])
    rows = spark.createDataFrame([(int(h),) for h in hashes], "hash bigint")
    found = [row.g for row in rows.select(spark_group(F.col("hash"), groups).alias("g")).collect()]
    assert found == group_of(hashes.view(np.uint64), groups).tolist()


@pytest.mark.spark
def test_rows_go_to_the_site_of_their_tags_routing_table(spark):
    rows = spark.createDataFrame([(0, 0), (0, -1), (1, 0), (1, -1)], f"`{TAG}` int, `{HASH}` bigint")
    for is_listed in (False, True):
        routing = Routing({"x": (5, 6), "y": (7, 8)}, 2, is_listed)
        sites = rows.select(site_of(TAG, {0: "x", 1: "y"}, routing, F.col(HASH)).alias("site")).collect()
        assert [row.site for row in sites] == [5, 6, 7, 8]


@pytest.mark.spark
@pytest.mark.parametrize("sites", [1, 3, 9, 50])
def test_every_group_goes_to_its_site_be_there_few_or_many(spark, sites):
    groups, rng = 300, np.random.default_rng(sites)
    table = np.sort(rng.integers(0, sites, groups)) * 7
    hashes = rng.integers(-(2**63), 2**63, 500)
    rows = spark.createDataFrame([(0, int(h)) for h in hashes], f"`{TAG}` int, `{HASH}` bigint")
    routing = Routing({"x": tuple(table.tolist())}, groups)
    found = [row.site for row in rows.select(site_of(TAG, {0: "x"}, routing, F.col(HASH)).alias("site")).collect()]
    assert found == table[group_of(hashes.view(np.uint64), groups)].tolist()


def test_tables_are_listed_once_they_have_changed():
    first, other = Routing({"x": (0, 1)}, 2), Routing({"x": (1, 1)}, 2)
    assert not first.after(None).is_listed
    assert not first.after(first.after(None)).is_listed
    moved = other.after(first.after(None))
    assert moved.is_listed
    assert first.after(moved).is_listed


@pytest.mark.spark
@pytest.mark.parametrize("sites", [1, 2, 3, 16])
def test_every_site_gets_a_partition_of_its_own(spark, sites):
    keys = site_keys(sites)
    rows = spark.createDataFrame([(key,) for key in keys], "site int").repartition(sites, "site")
    placed = rows.select("site", F.spark_partition_id().alias("partition")).collect()
    assert {row.site: row.partition for row in placed} == {key: site for site, key in enumerate(keys)}


@pytest.mark.parametrize("groups", [1, 3, 7, 300, 65536])
def test_the_first_hash_of_a_group_is_where_it_begins(groups):
    for group in {0, 1, groups // 2, groups - 1} - {groups}:
        first = first_hash(group, groups)
        assert group_of(np.array([first], np.uint64), groups)[0] == group
        if group:
            assert group_of(np.array([first - 1], np.uint64), groups)[0] == group - 1


def test_groups_of_sorted_hashes_are_contiguous():
    hashes = np.sort(np.random.default_rng(1).integers(0, 2**64, 1000, dtype=np.uint64))
    offsets = group_offsets(hashes, 16)
    assert offsets[-1] == 1000
    for group in range(16):
        assert set(group_of(hashes[offsets[group] : offsets[group + 1]], 16)) <= {group}
