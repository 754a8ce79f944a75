"""The session a contender runs in: two cores of one process, or two executors of one core each."""

from collections.abc import Mapping

from pyspark.sql import SparkSession

from watersmeet.lab.bench.outcome import CORES, Task

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": str(CORES),
    "spark.sql.streaming.numRecentProgressUpdates": "2000",
}
ALL_REGISTERED = {
    "spark.scheduler.minRegisteredResourcesRatio": "1",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
}
"""The start of the executors is the start of the session: no run pays for it."""


def start_session(task: Task, more: Mapping[str, str], *, on_cluster: bool) -> SparkSession:
    """Start Spark with a task's heap; on a cluster, every executor has one as large."""
    own = {"spark.driver.memory": task.heap, "spark.local.dir": f"{task.work}/local"}
    own |= ALL_REGISTERED | {"spark.executor.memory": task.heap} if on_cluster else {}
    builder = SparkSession.builder.master(master(task.heap, on_cluster=on_cluster)).appName("watersmeet-bench")
    for name, value in {**SETTINGS, **own, **more}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def master(heap: str, *, on_cluster: bool) -> str:
    """Where tasks run; a worker of a local cluster is told its memory in MiB.

    >>> master("4g", on_cluster=False), master("4g", on_cluster=True)
    ('local[2]', 'local-cluster[2,1,4096]')
    """
    return f"local-cluster[{CORES},1,{int(heap.removesuffix('g')) << 10}]" if on_cluster else f"local[{CORES}]"
