"""One Spark session for all tests, as a user would make it; examples in docstrings find it as ``spark``."""

import os
import re
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from watersmeet.storage.base import Storage
from watersmeet.storage.local import LocalStorage
from watersmeet.testing import thrown

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all that use the session: ``-m "not spark"`` starts none."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()) or _speaks_of_spark(item):
            item.add_marker("spark")


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A local session with two task slots."""
    session = (
        SparkSession.builder.master("local[2]")
        .appName("watersmeet-tests")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.memory", "2g")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    given_to_java = session.sparkContext._gateway.gateway_property.pool  # noqa: SLF001 -- it has no public name
    with thrown(wrap=_without_flushes):
        yield session
    session.stop()
    given_to_java.clear()  # or threads that outlive the interpreter hold sinks, their modules, and DuckDB in them


def _without_flushes(storage: Storage) -> Storage:
    """Flushing every file to the device is much of the time of a small query; a killed process loses nothing by it."""
    return replace(storage, durable=False) if isinstance(storage, LocalStorage) else storage


@pytest.fixture(autouse=True)
def _examples(request: pytest.FixtureRequest, doctest_namespace: dict[str, object]) -> None:
    """Give an example the session if it speaks of it."""
    if _speaks_of_spark(request.node):
        doctest_namespace["spark"] = request.getfixturevalue("spark")


def _speaks_of_spark(item: pytest.Item) -> bool:
    example = getattr(item, "dtest", None)
    return example is not None and any(re.search(r"\bspark\b", each.source) for each in example.examples)
