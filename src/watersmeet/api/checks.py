"""Checks that find mistakes in a query before it starts, which Spark would report only while it runs."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, cast

from pyspark.sql import SparkSession
from pyspark.sql import types as spark_types

from watersmeet.model.errors import DuplicateNameError, OptionError, UnknownNameError, UnsupportedError, nearest
from watersmeet.model.plan import Input, Operator, Plan
from watersmeet.planning.endless import unbounded
from watersmeet.planning.lives import ends_by_time
from watersmeet.runners.spark.sinks import FILE_FORMATS, FileSink, FormatSink, Sink
from watersmeet.runners.spark.tables import TableSink

_FORMATS = (*FILE_FORMATS, "memory", "console", "noop", "jdbc")
_NESTED = (spark_types.StructType, spark_types.ArrayType, spark_types.MapType)


def check_trigger(spark: SparkSession, trigger: Mapping[str, object]) -> None:
    """Refuse an invalid trigger interval."""
    interval = trigger.get("processingTime")
    if interval is None:
        return
    if not isinstance(interval, str):
        raise OptionError(
            f"processingTime is {interval!r}", why="it must be a text", how='write for example "1 second"'
        )
    try:
        java = cast("Any", spark._jvm)  # noqa: SLF001
        java.org.apache.spark.sql.streaming.Trigger.ProcessingTime(interval)
    except Exception as error:  # py4j's own for a wrong type, Spark's for a wrong text
        raise OptionError(
            f"processingTime is {interval!r}", why="it is not an interval", how='write for example "1 second"'
        ) from error


def check_name(spark: SparkSession, name: str | None) -> None:
    """Refuse a query name that is already in use."""
    if name is not None and any(query.name == name for query in spark.streams.active):
        raise OptionError(
            f"a query named {name} is running already",
            why="query names in a session are unique",
            how="stop the other one, or choose another queryName",
        )


def check_format(spark: SparkSession, sink: Sink) -> None:
    """Refuse a format for which the session has no data source."""
    if not isinstance(sink, FileSink | FormatSink | TableSink):
        return
    state = spark._jsparkSession.sessionState()  # noqa: SLF001
    sources = cast("Any", spark._jvm).org.apache.spark.sql.execution.datasources.DataSource  # noqa: SLF001
    try:
        sources.lookupDataSource(sink.format, state.conf())
    except Exception as error:  # py4j's own if no class has the name, Spark's if it knows the package that has
        if not state.dataSourceManager().dataSourceExists(sink.format):  # those written in Python
            raise OptionError(
                f"the sink has the format {sink.format}",
                why="Spark has no data source of that name",
                how=f"check the spelling ({nearest(sink.format, _FORMATS)}), or start the session with the package "
                "that has it, as with spark.jars.packages",
            ) from error


def check_columns(sink: Sink, schema: spark_types.StructType, partition_by: Sequence[str]) -> None:
    """Refuse columns that the sink cannot write."""
    form = sink.format if isinstance(sink, FileSink | TableSink) else None
    _check_partitions(schema, partition_by)
    if form is None:
        return
    names = [name.lower() for name in schema.names]
    twice = next((name for name, folded in zip(schema.names, names, strict=True) if names.count(folded) > 1), None)
    if twice:
        raise DuplicateNameError(
            f"the results have two columns named {twice}",
            why=f"column names in a {form} file must be unique",
            how=f"rename one in the select, as in 'B.{twice} AS b_{twice}'",
        )
    for field in schema.fields:
        _check_type(form, field)
    written = [field for field in schema.fields if field.name not in partition_by]
    if form == "text" and [field.dataType for field in written] != [spark_types.StringType()]:
        raise UnsupportedError(
            f"the text sink was given the columns {', '.join(field.name for field in written)}",
            why="it writes one column of strings",
            how="make one in the select, as in \"concat_ws(',', A.x, B.y) AS value\"",
        )


def check_place(sink: Sink, checkpoint: str, rejected: str | None = None) -> None:
    """Refuse an output path or rejectedPath inside the checkpoint, and both in one folder."""
    path = sink.path.rstrip("/") if isinstance(sink, FileSink) else None
    own = checkpoint.rstrip("/")
    for what, place in (("output path", path), ("rejectedPath", rejected and rejected.rstrip("/"))):
        if place is not None and (place == own or place.startswith(f"{own}/")):
            raise OptionError(
                f"the {what} {place} is inside the checkpoint",
                why="foreign files there would be mistaken for state, or deleted",
                how="choose a path beside checkpointLocation",
            )
    if rejected is not None and rejected.rstrip("/") == path:
        raise OptionError(
            f"rejectedPath is {rejected}, where the results go",
            why="rejected rows have other columns, so the folder could not be read as one table",
            how="choose a folder of their own",
        )


def _check_partitions(schema: spark_types.StructType, partition_by: Sequence[str]) -> None:
    known = {name.lower(): name for name in schema.names}
    for name in partition_by:
        if name.lower() not in known:
            raise UnknownNameError(
                f"partitionBy names {name}",
                why="the results have no such column",
                how=f"check the spelling ({nearest(name, schema.names)})",
            )
    if partition_by and len(set(map(str.lower, partition_by))) == len(known):
        raise OptionError(
            "partitionBy names all columns", why="the files would have none left", how="leave one of them out"
        )


def _check_type(form: str, field: spark_types.StructField) -> None:
    kind = field.dataType
    is_refused = (
        (form in ("csv", "text") and (isinstance(kind, _NESTED) or kind.typeName() == "variant"))
        or (isinstance(kind, spark_types.NullType) and form != "json")
        or (form == "orc" and kind.typeName() == "variant")
    )
    if is_refused:
        raise UnsupportedError(
            f"column {field.name} has type {kind.simpleString()}",
            why=f"the {form} sink cannot take it",
            how=f'select plain columns, as in "{field.name}.x", or to_json({field.name}) AS {field.name}'
            if isinstance(kind, _NESTED)
            else f"cast it, as in CAST({field.name} AS STRING) AS {field.name}",
        )


def check_ends(plan: Plan, trigger: Mapping[str, object], *, ends_input: bool) -> None:
    """Refuse `endOfInput` without an end, and warn of rows that would never be emitted, or be kept for ever."""
    if ends_input and "availableNow" not in trigger:
        raise OptionError(
            "option endOfInput is true, and the query does not end by itself",
            why="the input ends when all available rows are consumed, and a running query always waits for more",
            how="use trigger(availableNow=True), or leave endOfInput out",
        )
    for condition, stream in unbounded(plan) if not ends_input else ():
        warnings.warn(_no_bound(condition, stream), stacklevel=4)
    for operator in plan.operators if not ends_input else ():
        if operator.kind == "aggregate":
            _warn_of_groups(plan, operator)
            continue
        for number in operator.preserved if operator.how != "semi" else ():
            source, other = operator.inputs[number], operator.inputs[1 - number]
            if not _may_be_decided(plan, source, other):
                names = [" and ".join(_streams_below(plan, each)) for each in (source, other)]
                warnings.warn(_never_alone(operator, *names), stacklevel=4)


def _warn_of_groups(plan: Plan, operator: Operator) -> None:
    if operator.mode != "append" or _may_promise_keys(plan, operator.inputs[0]):
        return
    if operator.final is None or not _may_be_final(plan, operator.inputs[0], operator.final.stream):
        warnings.warn(
            "groups never come out: nothing says when no more rows of a group can arrive. Group by "
            "window(A.ts, '1 minute') of a stream with a time and a watermark; if it is joined, give the other streams "
            "watermarks, too, and A a window or a condition between the times; or give all streams punctuations or "
            "unique columns, use outputMode('update'), or run with trigger(availableNow=True) and "
            "option('endOfInput', 'true').",
            stacklevel=5,
        )


def _may_be_final(plan: Plan, source: Input, stream: str) -> bool:
    """Whether an aggregate knows when no more rows of a stream reach it, directly or from joins that keep them."""
    if source.stream:
        return _promises_times(plan, [stream])
    inputs = plan.operator(str(source.operator)).inputs
    own = next(each for each in inputs if stream in _streams_below(plan, each))
    leave = all(_ends_for(plan, own, other) or _may_promise_keys(plan, other) for other in inputs if other is not own)
    is_known = own.stream is not None or plan.longest_us(stream) is not None
    return leave and is_known and _may_be_final(plan, own, stream)


def _ends_for(plan: Plan, source: Input, other: Input) -> bool:
    """Whether rows of an input end, so that no row of another can be joined with them any more."""
    is_bounded = source.life is not None and other.life is not None and ends_by_time(plan, source)
    is_reached = any(name == other.name for name, _ in source.reach)
    return _promises_times(plan, _streams_below(plan, other)) and (is_bounded or is_reached)


def _promises_times(plan: Plan, names: Sequence[str]) -> bool:
    """Whether watermarks or punctuations may bound the times of the rows that streams still deliver."""
    streams = [plan.stream(name) for name in names]
    return all(each.time and (each.delay_us is not None or each.punctuated is not None) for each in streams)


def _may_be_decided(plan: Plan, source: Input, other: Input) -> bool:
    """Whether the other side ever promises that no match for a row arrives any more."""
    return _ends_for(plan, source, other) or _may_promise_keys(plan, other)


def _may_promise_keys(plan: Plan, source: Input) -> bool:
    """Whether all streams of an input may promise keys; the content of punctuations is not known yet."""
    streams = [plan.stream(name) for name in _streams_below(plan, source)]
    return all(stream.punctuated is not None or stream.unique for stream in streams)


def _streams_below(plan: Plan, source: Input) -> list[str]:
    """The streams below an input; a result ends when the row of any of them does."""
    if source.stream:
        return [source.stream]
    return [name for each in plan.operator(str(source.operator)).inputs for name in _streams_below(plan, each)]


def _never_alone(operator: Operator, own: str, other: str) -> str:
    return (
        f"rows of {own} that have no match never come out of the {operator.how} join: nothing says when no "
        f"match of {other} can arrive any more. Give {other} a time and a watermark, and {own} a "
        f"window or a condition between the times; or {other} punctuations; or run with trigger(availableNow=True) "
        f"and option('endOfInput', 'true')."
    )


def _no_bound(condition: str, stream: str) -> str:
    return (
        f"{condition} bounds no state: only comparisons of a time with another one, plus or minus lengths without "
        f"months and years, say how long rows of {stream} can find a match, as in "
        f"B.ts <= A.ts + INTERVAL 1 HOUR. Write it like that, or give {stream} a window."
    )
