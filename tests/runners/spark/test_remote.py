"""State on storage that is not a local folder: objects without renames, with copies on the hosts that use them."""

import pyarrow as pa
import pytest
from tests.support.oracle import joined
from tests.support.spark_runs import Collected

import watersmeet as wm
from watersmeet.adapt import merging
from watersmeet.storage.remote import FsspecStorage

pytestmark = pytest.mark.spark

DATA = {
    name: [pa.table({"k": [epoch % 3, 7], "v": [epoch, seed]}) for epoch in range(6)] for seed, name in enumerate("ABC")
}


def run(spark, folder, sink, epochs):
    flow = wm.Flow(spark)
    frames = {name: wm.testing.replay(spark, parts[:epochs], str(folder / name)) for name, parts in DATA.items()}
    a, b, c = (flow.stream(name, frame) for name, frame in frames.items())
    rows = a.join(b, on="A.k = B.k").join(c, on="B.k = C.k AND A.v >= 0")
    writer = rows.writeStream.foreachBatch(sink).option("checkpointLocation", str(folder / "ck")).option("sites", 2)
    remote = FsspecStorage(f"file://{folder}/ck/state", cache=str(folder / "copies"))
    with wm.testing.thrown(wrap=lambda _: remote):
        query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    return query


def test_state_is_kept_on_remote_storage_and_copied_to_where_it_is_used(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(merging, "FAN_IN", 2)
    sink = Collected()
    run(spark, tmp_path, sink, 4)
    copies = [path for path in (tmp_path / "copies").rglob("*") if path.is_file()]
    assert copies
    for path in copies:
        path.unlink()
    query = run(spark, tmp_path, sink, 6)
    assert sink.rows == joined(DATA, ["A.k = B.k", "B.k = C.k"])
    assert query.state().count() > 0
