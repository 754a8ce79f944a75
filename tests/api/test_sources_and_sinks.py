"""Sources and sinks of Spark's, really used."""

import socket
import threading
import time

import pyarrow as pa
import pytest
from pyspark.sql.streaming import StreamingQueryListener

import watersmeet as wm

pytestmark = pytest.mark.spark


def other(spark, flow, ids=(1, 2, 3)):
    return flow.stream("B", wm.testing.replay(spark, [pa.table({"id": list(ids), "n": [f"n{each}" for each in ids]})]))


def collected(rows, **options):
    got = {}
    query = rows.writeStream.foreachBatch(lambda batch, epoch: got.update({epoch: batch.collect()})).options(**options)
    assert query.trigger(availableNow=True).start().awaitTermination(120)
    return sorted(tuple(row) for batch in got.values() for row in batch)


@pytest.mark.parametrize(
    ("form", "text", "read"),
    [
        ("json", '{"id": 1, "t": "a"}\n{"id": 3, "t": "c"}\n', lambda reader: reader.schema("id long, t string")),
        ("csv", "id,t\n1,a\n3,c\n", lambda reader: reader.schema("id long, t string").option("header", "true")),
        ("text", "1\n3\n", lambda reader: reader),
    ],
)
def test_files_of_text_are_sources(spark, tmp_path, form, text, read):
    (tmp_path / "one").write_text(text)
    frame = read(spark.readStream.format(form)).load(str(tmp_path))
    frame = frame.selectExpr("CAST(value AS BIGINT) AS id", "value AS t") if form == "text" else frame
    flow = wm.Flow(spark)
    rows = flow.stream("A", frame).join(other(spark, flow), "id").select("t", "n")
    first, last = ("1", "3") if form == "text" else ("a", "c")
    assert collected(rows) == [(first, "n1"), (last, "n3")]


def test_a_micro_batch_of_rates_is_a_source(spark):
    frame = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 4).load().selectExpr("value AS id")
    flow = wm.Flow(spark)
    rows = flow.stream("A", frame).join(other(spark, flow), "id").select("n")
    query = rows.writeStream.format("memory").queryName("rates").start()
    try:
        wait_for(lambda: spark.table("rates").count() == 3)
        assert query.exception() is None
    finally:
        query.stop()


def test_rates_and_a_socket_are_sources(spark):
    server = socket.create_server(("127.0.0.1", 0))
    served = threading.Thread(target=serve, args=(server,), daemon=True)
    served.start()
    port = server.getsockname()[1]
    lines = spark.readStream.format("socket").option("host", "127.0.0.1").option("port", port).load()
    rates = spark.readStream.format("rate").option("rowsPerSecond", 20).load()
    flow = wm.Flow(spark)
    a = flow.stream("A", lines.selectExpr("CAST(value AS BIGINT) AS id"))
    rows = a.join(flow.stream("B", rates), "A.id = B.value").select("A.id")
    query = rows.writeStream.format("memory").queryName("lines").start()
    try:
        wait_for(lambda: spark.table("lines").count() == 3)
    finally:
        query.stop()
        server.close()


def serve(server):
    while True:
        try:
            client, _ = server.accept()
        except OSError:
            return
        client.sendall(b"1\n2\n3\n")


def wait_for(is_there, patience_s=60):
    deadline = time.monotonic() + patience_s
    while not is_there():
        assert time.monotonic() < deadline
        time.sleep(0.2)


@pytest.mark.parametrize(
    "form", ["orc", "text", *(pytest.param(form, marks=pytest.mark.slow) for form in ("json", "csv"))]
)
def test_files_of_every_format_are_sinks(spark, tmp_path, form):
    flow = wm.Flow(spark)
    a = flow.stream("A", wm.testing.replay(spark, [pa.table({"id": [1, 2]}), pa.table({"id": [3]})]))
    rows = a.join(other(spark, flow), "id").select(
        "n" if form == "text" else "A.id", *(["n"] if form != "text" else [])
    )
    writer = rows.writeStream.format(form).option("checkpointLocation", str(tmp_path / "ck"))
    assert writer.trigger(availableNow=True).start(str(tmp_path / "out")).awaitTermination(120)
    reader = spark.read.format(form)
    reader = reader if form == "text" else reader.schema("id long, n string")
    wanted = [("n1",), ("n2",), ("n3",)] if form == "text" else [(1, "n1"), (2, "n2"), (3, "n3")]
    assert sorted(map(tuple, reader.load(str(tmp_path / "out")).collect())) == wanted


def test_a_memory_table_has_the_results_of_epochs_after_an_empty_one(spark):
    none, some = pa.table({"id": pa.array([], pa.int64())}), pa.table({"id": [1, 2, 3]})
    flow = wm.Flow(spark)
    a, b = (flow.stream(name, wm.testing.replay(spark, [none, some, none])) for name in "AB")
    query = (
        a.join(b, "id").select("id").writeStream.format("memory").queryName("late").trigger(availableNow=True).start()
    )
    assert query.awaitTermination(120)
    assert spark.table("late").count() == 3


class Listener(StreamingQueryListener):
    """Keeps what it hears."""

    def __init__(self):
        self.heard, self.ended = [], threading.Event()

    def onQueryStarted(self, event):  # noqa: N802
        pass

    def onQueryProgress(self, event):  # noqa: N802
        self.heard.append((event.progress.batchId, event.progress.numInputRows, wm.metrics(event)))

    def onQueryIdle(self, event):  # noqa: N802
        pass

    def onQueryTerminated(self, event):  # noqa: ARG002, N802
        self.ended.set()


def test_a_listener_sees_every_epoch_with_our_metrics(spark):
    flow, listener = wm.Flow(spark), Listener()
    a = flow.stream("A", wm.testing.replay(spark, [pa.table({"id": [1, 2]}), pa.table({"id": [3]})]))
    rows = a.join(other(spark, flow), "id").select("n")
    spark.streams.addListener(listener)
    try:
        assert rows.writeStream.format("noop").trigger(availableNow=True).start().awaitTermination(120)
        assert listener.ended.wait(60)
    finally:
        spark.streams.removeListener(listener)
    assert [(batch, count) for batch, count, _ in listener.heard] == [(0, 5), (1, 1)]
    assert [metrics["results"] for _, _, metrics in listener.heard] == [2, 1]
