"""A query file carried out: its streams read by Spark, joined in a flow, and a writer for the result."""

from typing import TYPE_CHECKING

from watersmeet.cli.output import said_by_spark
from watersmeet.cli.query_tables import PunctuationsTable, SourceTable, StreamTable
from watersmeet.model.errors import QueryError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from watersmeet.api.flow import Flow
    from watersmeet.api.relation import Relation
    from watersmeet.api.writer import StreamWriter
    from watersmeet.cli.query_tables import QueryFile


def writer_of(spark: "SparkSession", file: "QueryFile") -> "StreamWriter":
    """Everything said in the file, ready to start."""
    writer = _result(spark, file).writeStream.format(file.sink.format).partitionBy(*file.sink.partition_by)
    for name, value in {**file.sink.options, **file.options}.items():
        writer = writer.option(name, value)
    if file.sink.path is not None:
        writer = writer.option("path", file.sink.path)
    if file.sink.query_name is not None:
        writer = writer.queryName(file.sink.query_name)
    if file.sink.output_mode is not None:
        writer = writer.outputMode(file.sink.output_mode)
    if file.trigger is not None:
        writer = writer.trigger(availableNow=file.trigger.available_now, processingTime=file.trigger.processing_time)
    return writer


def _result(spark: "SparkSession", file: "QueryFile") -> "Relation":
    """The last join, or the only stream: filtered, grouped and projected."""
    from watersmeet.api.flow import Flow

    flow = Flow(spark)
    relations = {name: _stream(spark, flow, name, each) for name, each in file.streams.items()}
    for name, each in file.punctuations.items():
        flow.punctuations(name, _punctuations(spark, name, each))
    result = next(iter(relations.values()))
    for join in file.joins:
        result = flow.join(*(relations[name] for name in join.inputs), on=join.on, how=join.how)
        relations[join.name or ""] = result
    result = result.where(file.where) if file.where else result
    if file.aggregate:
        groups = result.groupBy(*(file.group_by or ()))
        groups = groups if file.over is None else groups.over(rows=file.over.rows, time=file.over.time)
        result = groups.agg(*file.aggregate)
        result = result.where(file.having) if file.having else result
    result = result.select(*file.select) if file.select else result
    if file.distinct:
        return result.distinct() if file.distinct is True else result.dropDuplicates(file.distinct)
    return result


def _stream(spark: "SparkSession", flow: "Flow", name: str, table: StreamTable) -> "Relation":
    frame = _read(spark, f"stream {name}", f"[streams.{name}]", table)
    relation = flow.stream(
        name, frame, time=table.time, window=table.window, watermark=table.watermark, unique=table.unique
    )
    return relation.where(table.where) if table.where else relation


def _punctuations(spark: "SparkSession", name: str, table: PunctuationsTable) -> "DataFrame":
    from pyspark.errors import PySparkException

    frame = _read(spark, f"punctuations of stream {name}", f"[punctuations.{name}]", table)
    try:
        frame = frame.where(table.where) if table.where else frame
        return frame.selectExpr(*table.select) if table.select else frame
    except PySparkException as error:
        raise QueryError(
            f"punctuations of stream {name} cannot be made of their source",
            why=said_by_spark(error),
            how=f"correct where and select of [punctuations.{name}]",
        ) from error


def _read(spark: "SparkSession", what: str, where: str, table: SourceTable) -> "DataFrame":
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    reader = spark.readStream.format(table.format).options(**table.options)
    try:
        reader = reader.schema(table.schema) if table.schema else reader
        return reader.load(table.path)
    except (PySparkException, Py4JJavaError) as error:
        raise QueryError(
            f"{what} cannot be read",
            why=said_by_spark(error),
            how=f"correct format, path, schema and options of {where}; files need a schema",
        ) from error
