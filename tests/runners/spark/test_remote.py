"""State on storage that is not a local folder: objects without renames, with copies on the hosts that use them."""

import uuid

import numpy as np
import pyarrow as pa
import pytest
from tests.support.oracle import joined
from tests.support.spark_runs import Collected

import watersmeet as wm
from watersmeet.adapt.merging import choice as merging
from watersmeet.driver.checkpoint import state_storage
from watersmeet.model.ids import Version
from watersmeet.runners.spark import run as spark_run
from watersmeet.state.runs import epoch_of
from watersmeet.state.versions import VersionStore
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


class Stopped(Exception):  # noqa: N818 -- the test has seen what it wanted
    pass


def test_the_place_of_copies_is_an_option(spark, tmp_path, monkeypatch):
    """From the writer to the storage; Spark itself has no remote file system here."""

    def opened(*_, copies, **__):
        raise Stopped(copies)

    monkeypatch.setattr(spark_run, "open_checkpoint", opened)
    flow = wm.Flow(spark)
    a, b = (flow.stream(name, wm.testing.replay(spark, DATA[name])) for name in "AB")
    writer = a.join(b, on="A.k = B.k").writeStream.format("noop").option("copyLocation", str(tmp_path))
    with pytest.raises(Stopped, match=str(tmp_path)):
        writer.start()
    storage = state_storage(f"memory://{uuid.uuid4().hex}", copies=str(tmp_path))
    storage.create("runs/x.arrow", b"x")
    assert storage.local("runs/x.arrow").is_relative_to(tmp_path)


@pytest.mark.slow
def test_copies_on_a_host_are_bounded_by_what_is_live_however_many_epochs_have_spilled(spark, tmp_path):
    rng, epochs, rows = np.random.default_rng(3), 8, 200
    remote = FsspecStorage(f"file://{tmp_path}/ck/state", cache=str(tmp_path / "copies"))
    flow = wm.Flow(spark)
    tables = {
        name: [pa.table({"k": rng.integers(0, 60, rows), "v": np.arange(rows)}) for _ in range(epochs)]
        for name in "ABC"
    }
    frames = {name: wm.testing.replay(spark, parts, str(tmp_path / name)) for name, parts in tables.items()}
    a, b, c = (flow.stream(name, frame) for name, frame in frames.items())
    writer = a.join(b, on="A.k = B.k").join(c, on="B.k = C.k AND A.v >= 0").writeStream.format("noop")
    writer = writer.options(
        checkpointLocation=str(tmp_path / "ck"), sites=2, partitionGroups=40, memoryBudget="6k", cleanup="end"
    )
    with wm.testing.thrown(wrap=lambda _: remote):
        query = writer.start()
    query.processAllAvailable()
    query.stop()
    store = VersionStore(remote)
    last = store.latest()
    before = store.read(Version(last.version - 1))
    (folder,) = (tmp_path / "copies").iterdir()
    copied = {str(file.relative_to(folder)) for file in folder.rglob("[!.]*") if file.is_file()}
    written = {path for path in remote.list("runs") if epoch_of(path) == before.version}
    assert last.batch == epochs - 1
    assert len(paths_of(last, "disk")) > epochs, "most of the state was spilled"
    assert copied <= paths_of(before, "memory") | written
    assert copied <= set(remote.list("runs"))


def paths_of(manifest, tier):
    slices = [part for state in manifest.operators.values() for part in state.slices]
    return {manifest.runs[part.run].path for part in slices if part.tier == tier}
