"""Our metrics for those who listen to Spark's progress events."""

from typing import Any

import msgspec

from watersmeet.runners.spark.run import HISTORIES


def metrics(event: object) -> dict[str, Any]:
    """Watersmeet's metrics for the epoch in a progress event of a ``StreamingQueryListener``.

    They are those under ``customMetrics`` in ``query.lastProgress``; for other queries the result is empty.

    >>> from pyspark.sql.streaming import StreamingQueryListener
    >>> import watersmeet as wm
    >>> class Printer(StreamingQueryListener):
    ...     def onQueryStarted(self, event): ...
    ...     def onQueryProgress(self, event):
    ...         print(event.progress.batchId, wm.metrics(event).get("results"))
    ...
    ...     def onQueryTerminated(self, event): ...
    """
    progress = getattr(event, "progress", event)
    history = HISTORIES.get(str(getattr(progress, "runId", "")))
    found = None if history is None else history.get(int(getattr(progress, "batchId", -1)))
    return {} if found is None else dict(msgspec.to_builtins(found))
