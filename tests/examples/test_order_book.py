"""The script of the order book, at a small size: its pairs are those of one join of all orders."""

import importlib.util
import sys
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

SCRIPT = Path(__file__).parents[2] / "examples" / "order_book.py"


@pytest.fixture(scope="module")
def order_book():
    spec = importlib.util.spec_from_file_location("order_book", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules["order_book"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["order_book"]


def expected(order_book, book):
    database = duckdb.connect()
    for side, tables in book.items():
        database.register(side, pa.concat_tables(tables))
    together = "abs(epoch_us(A.at) - epoch_us(B.at)) < 2000000"
    found = database.execute(f"SELECT B.id, A.id FROM B JOIN A ON {order_book.ON} AND {together}").fetchall()
    return sorted(found)


def test_some_orders_are_near_each_other_and_most_are_not(order_book):
    book = order_book.orders(seconds=4, rate=30)
    pairs = expected(order_book, book)
    assert 20 < len(pairs) < 120 * 120 / 10


def test_the_orders_and_their_pairs_are_drawn(order_book, tmp_path):
    book = order_book.orders(seconds=2, rate=10)
    order_book.draw(book, expected(order_book, book), tmp_path / "out" / "book.png")
    order_book.draw(book, [], tmp_path / "out" / "none.png")
    assert (tmp_path / "out" / "book.png").stat().st_size > (tmp_path / "out" / "none.png").stat().st_size


@pytest.mark.long
@pytest.mark.spark
def test_a_few_near_orders_are_found(order_book, spark):
    book = order_book.orders(seconds=2, rate=15)
    assert order_book.run(spark, book) == expected(order_book, book) != []


@pytest.mark.slow
@pytest.mark.spark
def test_near_orders_are_found(order_book, spark):
    book = order_book.orders(seconds=4, rate=30)
    assert order_book.run(spark, book) == expected(order_book, book) != []
