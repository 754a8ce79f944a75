"""Outcomes of benchmarks as they might be, and what DuckDB makes of their data."""

import duckdb

from watersmeet.lab.bench.data import write_streams
from watersmeet.lab.bench.outcome import Outcome
from watersmeet.lab.bench.report import Comparison


def outcomes(**changes: Outcome) -> dict[str, Outcome]:
    """A three-way run that meets every target, with some contenders replaced."""
    results = 150_000 * 6**3
    made = {
        "watersmeet": Outcome("watersmeet", 10.0, results, (1000.0, 2000.0), state_bytes=100),
        "watersmeet-rows": Outcome("watersmeet-rows", 15.0, results, (1000.0, 4000.0), state_bytes=100),
        "spark": Outcome("spark", 50.0, results, (1000.0, 12_000.0), state_bytes=3000),
        "spark-rocksdb": Outcome("spark-rocksdb", 150.0, results, (1000.0, 40_000.0)),
        "duckdb": Outcome("duckdb", 5.0, results),
        "duckdb-memory": Outcome("duckdb-memory", 2.0, results),
    }
    return made | {outcome.contender: outcome for outcome in changes.values()}


def unmet(comparisons: list[Comparison]) -> list[str]:
    return [each.what for each in comparisons if each.met is False]


def run_of(name, whole_s=10.0, results=0, epoch_ms=(), **rest) -> dict[str, Outcome]:
    return {name: Outcome(name, whole_s, results, epoch_ms, **rest)}


def results_by_duckdb(suite, epochs, folder) -> int:
    """How many results some epochs of a suite's data have."""
    write_streams(folder, {name: tables[epochs] for name, tables in suite.tables(suite.quick).items()})
    database = duckdb.connect()
    for stream in suite.pipeline.streams:
        database.execute(f"CREATE VIEW {stream} AS FROM read_parquet('{folder}/{stream}/*.parquet')")
    [(results,)] = database.execute(f"SELECT count(*) FROM ({suite.pipeline.sql})").fetchall()
    return results


def restarts(later_s=2.0, remote_later_s=2.0, with_state=2000) -> dict[str, Outcome]:
    made = run_of("watersmeet-built", 60.0) | run_of("watersmeet-empty", 5.0, 1000)
    made |= run_of("watersmeet-restarted", 5.0 + later_s, with_state) | run_of("watersmeet-remote-empty", 6.0, 1000)
    made |= run_of("watersmeet-remote-restarted", 6.0 + remote_later_s, 2000)
    return made | run_of("watersmeet-remote-moved", 30.0, 2000)
