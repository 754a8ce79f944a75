"""Methods of Spark's DataFrames that a relation does not have: the reason, and an alternative."""

from watersmeet.model.errors import UnsupportedCallError

_RESULTS = """
    collect count show take head first tail toPandas toArrow isEmpty toLocalIterator toJSON foreach foreachPartition
"""
_AGGREGATES = """
    agg rollup cube groupingSets dropDuplicatesWithinWatermark
    pivot describe summary corr cov crosstab freqItems approxQuantile stat
"""
_ORDERS = "orderBy sort sortWithinPartitions limit offset"
_BEFORE = """
    union unionAll unionByName intersect intersectAll subtract exceptAll sample sampleBy randomSplit na fillna dropna
    replace withMetadata unpivot melt transpose observe
"""
_IN_A_FUNCTION = """
    rdd mapInPandas mapInArrow pandas_api createTempView createOrReplaceTempView createGlobalTempView
    createOrReplaceGlobalTempView registerTempTable writeTo mergeInto lateralJoin
"""
_LAYOUT = """
    cache persist unpersist checkpoint localCheckpoint repartition repartitionByRange repartitionById coalesce hint
    storageLevel
"""

# names, why not, what to do instead
_REASONS = [
    (
        _RESULTS,
        "a stream's results never end",
        'write them, as .writeStream.format("memory").queryName("t").start(), and use spark.table("t")',
    ),
    (
        _AGGREGATES,
        "a stream is aggregated with groupBy and agg",
        'write groupBy("A.k").agg("count(*) AS n"), or aggregate what the sink has written',
    ),
    (
        _ORDERS,
        "results come as they are found, without end",
        "sort or limit what the sink has written, or each epoch in a function given to writeStream.foreachBatch",
    ),
    (
        _BEFORE,
        "only joins, filters, projections and aggregates are supported",
        "do it on the DataFrame before flow.stream(...)",
    ),
    (
        _IN_A_FUNCTION,
        "only Spark's own DataFrames have it",
        "do it in a function given to writeStream.foreachBatch, or on the DataFrame before flow.stream(...)",
    ),
    (_LAYOUT, "the engine lays state out itself", "leave it out; see the options sites and partitionGroups"),
    ("write", "a stream is written while it runs", "use writeStream"),
    (
        "crossJoin",
        "a join has a condition, and joins without an equality need windows or a memory budget",
        'write a.join(b, "id"), or a.join(b, on="TRUE") for streams with windows',
    ),
    (
        "withWatermark",
        "the watermark belongs to the stream, and is given when that is registered",
        'write flow.stream("A", df, time="ts", watermark="1 minute")',
    ),
]
REFUSED = {name: (why, how) for names, why, how in _REASONS for name in names.split()}


def refused_call(name: str) -> UnsupportedCallError | None:
    """The error for a method of Spark's DataFrames, or None if the name is not one of them.

    >>> print(refused_call("show"))
    [UnsupportedCallError] a relation has no show: a stream's results never end. To fix it, write them, as \
.writeStream.format("memory").queryName("t").start(), and use spark.table("t").
    """
    if name not in REFUSED:
        return None
    why, how = REFUSED[name]
    return UnsupportedCallError(f"a relation has no {name}", why=why, how=how)
