"""The user's session: read, never changed."""

import os
import sys
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pyarrow as pa
from pyspark.sql import SparkSession

from watersmeet.model.errors import QueryError, UnsupportedError, WorkerError

DEFAULT_SITES = 4

_INTERPRETER = threading.Lock()

# What one epoch's job needs, set on the session Spark clones for the stream, never on the user's. Adaptive execution
# would plan each level by itself; a union must keep sites apart; a merge join may not hold a whole delta on the heap:
# beyond 16 rows, which may be parcels (`watersmeet.site.travel.PARCEL_LIMIT_BYTES` each), it goes to memory that Spark
# manages by bytes, and to disk.
STREAM_SETTINGS = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.unionOutputPartitioning": "true",
    "spark.sql.sortMergeJoinExec.buffer.in.memory.threshold": "16",
}


def check_session(spark: object) -> None:
    """Refuse what is not a session of this process."""
    if isinstance(spark, SparkSession) and getattr(spark, "_jsparkSession", None) is not None:
        return
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        raise UnsupportedError(
            "the session is one of Spark Connect",
            why="the driver's loop runs beside Spark's own driver, which a Connect client cannot reach",
            how="run the program with spark-submit, with SparkSession.builder.getOrCreate() and no remote",
        )
    raise QueryError(
        f"Flow was given {spark!r}", why="it needs a SparkSession", how="write Flow(SparkSession.builder.getOrCreate())"
    )


def prepare_stream_session(session: SparkSession) -> None:
    """Set what our jobs need on the stream's own session."""
    for name, value in STREAM_SETTINGS.items():
        session.conf.set(name, value)


def clone_session(session: SparkSession) -> SparkSession:
    """A session of our own for jobs that no batch has brought a session for.

    It is made as Spark makes the one of a streaming query: with the settings, temporary views and registered functions
    that the user's session has now.
    """
    return SparkSession(session.sparkContext, session._jsparkSession.cloneSession())  # noqa: SLF001


def has_one_executor(spark: SparkSession) -> bool:
    """Whether all tasks run in the driver's own process."""
    context = getattr(spark, "_sc", None)
    return context is not None and (str(context.master) == "local" or str(context.master).startswith("local["))


def executor_names(spark: SparkSession) -> tuple[str, ...]:
    """The ids of all executors that are registered now, as Spark's pages show them; none where there is but the driver.

    It is one question to the driver's own scheduler, of some milliseconds. An id is never used again.
    """
    if has_one_executor(spark):
        return ()
    context = spark.sparkContext._jsc.sc()  # noqa: SLF001 -- PySpark's status tracker knows jobs, and no executors
    return tuple(sorted(str(context.getExecutorIds().mkString(" ")).split()))


def default_sites(spark: SparkSession) -> int:
    """As many sites as the session runs tasks at once: Spark's default parallelism, which counts cores."""
    context, given = getattr(spark, "_sc", None), spark.conf.get("spark.default.parallelism", None)
    parallelism = int((context.defaultParallelism if context else given) or DEFAULT_SITES)
    cores_each = 1 if given else int(spark.conf.get("spark.task.cpus", None) or 1)
    return max(1, parallelism // cores_each)


def is_case_sensitive(spark: SparkSession) -> bool:
    """Whether names that differ in case only are different."""
    return str(spark.conf.get("spark.sql.caseSensitive", "false")).lower() == "true"


@contextmanager
def this_python(spark: SparkSession) -> Iterator[None]:
    """Let the functions made inside be run by the driver's own Python, on this machine, unless the user chose one.

    Spark starts ``python3`` from the PATH where neither ``PYSPARK_PYTHON`` nor a setting names an interpreter, and
    that one often lacks the packages of the driver's virtual environment. A function keeps the interpreter it was made
    with, and Spark has no other way to name one; so the session is left as it was. One query at a time does this, or
    one would put back what another has set.
    """
    context = getattr(spark, "_sc", None)
    local = context is not None and str(context.master).startswith("local")
    chosen = os.environ.get("PYSPARK_PYTHON") or spark.conf.get("spark.pyspark.python", None)
    if context is None or not local or chosen:
        yield
        return
    with _INTERPRETER:
        before, context.pythonExec = context.pythonExec, sys.executable
        try:
            yield
        finally:
            context.pythonExec = before


def start_workers(spark: SparkSession, sites: int) -> Future[None]:
    """Have Spark start its Python workers in the background, while the query is still being prepared.

    The job is a site task's journey without its work: rows into Python and back.
    """
    pool = ThreadPoolExecutor(1, thread_name_prefix="watersmeet-workers")
    started = pool.submit(_start_workers, spark, sites)
    pool.shutdown(wait=False)
    return started


def check_workers(spark: SparkSession, started: Future[None]) -> None:
    """Refuse a session whose workers cannot import what site tasks need.

    Workers that run the driver's own Python on its own machine can; there is no need to wait for them.
    """
    context = getattr(spark, "_sc", None)
    chosen = os.environ.get("PYSPARK_PYTHON") or spark.conf.get("spark.pyspark.python", None)
    if context is not None and str(context.master).startswith("local") and chosen in (None, "", sys.executable):
        return
    try:
        started.result()
    except Exception as error:
        if "ModuleNotFoundError" not in str(error) and "ImportError" not in str(error):
            raise
        raise WorkerError(
            "Spark's Python workers cannot import watersmeet",
            why=f"they run another Python than the driver's, {sys.version.split()[0]}",
            how="install watersmeet where they run and set PYSPARK_PYTHON to that interpreter before Spark starts",
        ) from error


def _start_workers(spark: SparkSession, sites: int) -> None:
    rows = spark.range(sites, numPartitions=sites)
    with this_python(spark):
        rows = rows.mapInArrow(_import_task, rows.schema)
    rows.write.format("noop").mode("overwrite").save()


def _import_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import watersmeet.site.task  # noqa: F401, PLC0415 -- in the worker

    yield from batches
