"""Every Python example in the documents runs."""

import re
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

import watersmeet as wm

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)
DOCUMENTS = sorted(path.relative_to(ROOT) for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"\]\((?!http)([^)#]+)[^)]*\)")


@pytest.mark.parametrize("document", DOCUMENTS, ids=str)
def test_links_lead_somewhere(document):
    text = (ROOT / document).read_text()
    missing = [link for link in LINK.findall(text) if not (ROOT / document).parent.joinpath(link).exists()]
    assert not missing


@pytest.mark.spark
@pytest.mark.parametrize("document", [d for d in DOCUMENTS if BLOCK.search((ROOT / d).read_text())], ids=str)
def test_examples_run(spark, document, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"spark": spark, "folder": str(tmp_path), **streams(spark)}
    for block in BLOCK.findall((ROOT / document).read_text()):
        exec(compile(block, str(document), "exec"), names)  # noqa: S102 -- our own documents
    for query in spark.streams.active:
        query.stop()


def streams(spark):
    """The streams the documents speak of."""
    tables = {
        "orders_df": pa.table({"id": [1, 2]}),
        "payments_df": pa.table({"order": [2], "cents": [250]}),
        "parcels_df": pa.table({"order": [2], "carrier": ["post"]}),
    }
    frames = {name: wm.testing.replay(spark, [table]) for name, table in tables.items()}
    views = [pa.table({"ad": [1, 2], "seen": [noon(0), noon(5)]}), pa.table({"ad": [3], "seen": [noon(0)]})]
    clicks = pa.table({"ad": [1, 2], "clicked": [noon(9), None]})
    return frames | {
        "views_df": wm.testing.replay(spark, views),
        "clicks_df": wm.testing.replay(spark, [clicks]),
    }


def noon(minutes):
    return datetime(2026, 1, 1, 12, minutes, tzinfo=UTC)
