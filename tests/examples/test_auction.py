"""The script of the auction, at a small size: both ways are exact, and what punctuations let go is gone."""

import importlib.util
import sys
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

SCRIPT = Path(__file__).parents[2] / "examples" / "auction.py"
EXPECTED = """
    SELECT P.id, count(DISTINCT I.category)
    FROM items I JOIN bids B ON I.id = B.item JOIN persons P ON B.bidder = P.id
    WHERE B.at < P.registered + INTERVAL 4 HOURS
    GROUP BY P.id
"""


@pytest.fixture(scope="module")
def auction():
    spec = importlib.util.spec_from_file_location("auction", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules["auction"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["auction"]


def whole(streams):
    database = duckdb.connect()
    for name, tables in streams.items():
        database.register(name, pa.concat_tables(tables))
    return database


def test_the_streams_keep_what_the_auction_promises(auction):
    streams = auction.auction(hours=15, persons=6, items=8, bids=50)
    database = whole(streams)
    counts = {name: len(tables) for name, tables in streams.items()}
    assert counts == dict.fromkeys(streams, 5)
    early = "FROM bids B JOIN {} ON {} WHERE B.at < {}"
    assert database.execute("SELECT count(*) " + early.format("items I", "I.id = B.item", "I.opened")).fetchone() == (
        0,
    )
    assert database.execute(
        "SELECT count(*) " + early.format("persons P", "P.id = B.bidder", "P.registered")
    ).fetchone() == (0,)
    closed = set()
    for bids, ends in zip(streams["bids"], streams["closed"], strict=True):
        assert bids.num_rows > 0
        assert closed.isdisjoint(bids["item"].to_pylist())
        closed.update(ends["item"].to_pylist())


@pytest.mark.slow
@pytest.mark.spark
def test_both_ways_count_the_same_categories_and_one_keeps_little(auction, spark, tmp_path):
    streams = auction.auction(hours=12, persons=6, items=8, bids=60)
    without, promised = auction.compare(spark, streams, "4 hours").values()
    assert promised.categories == dict(whole(streams).execute(EXPECTED).fetchall())
    assert len(without.state_rows) == len(promised.state_rows) == 4
    assert 3 * promised.state_rows[-1] < without.state_rows[-1]
    auction.draw({"without": without, "with": promised}, tmp_path / "auction.png")
    assert (tmp_path / "auction.png").stat().st_size > 10_000
