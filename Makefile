# Every target sets up what it needs: a fresh clone may start with any of them.

INSTALLED := .venv/.installed
JAVA      := JAVA_HOME=$$(sh scripts/java.sh) && export JAVA_HOME &&

.DEFAULT_GOAL := help
.PHONY: help setup java demo test test-long test-all coverage bench lint format lock clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' Makefile

setup: java $(INSTALLED) ## Find or install Java, and make .venv with all that is needed

java:
	@sh scripts/java.sh > /dev/null

$(INSTALLED): pyproject.toml requirements.lock
	@sh scripts/setup.sh
	@touch $@

demo: setup ## Run the demonstration
	@$(JAVA) .venv/bin/watersmeet demo

# Two processes, each with a session of its own; sessions are short, so Java need not compile for long runs.
test: setup ## Run the tests that are quick
	@$(JAVA) SPARK_SUBMIT_OPTS="-XX:TieredStopAtLevel=1 -XX:+UseSerialGC" EXAMPLES_MOST=10 \
	    .venv/bin/python -m pytest -m "not slow and not long and not processes" --numprocesses 2 --dist worksteal

test-long: setup ## Run the tests that take some seconds, or start drivers, executors or commands of their own
	@$(JAVA) EXAMPLES_MOST=20 .venv/bin/python -m pytest -m "long and not slow and not processes" \
	    --numprocesses 2 --dist worksteal
	@$(JAVA) .venv/bin/python -m pytest -m "processes and not slow"

test-all: setup ## Run all tests
	@$(JAVA) .venv/bin/python -m pytest

# The lines counted are those of packages without Spark (pyproject.toml), so the tests are those that start no session.
coverage: $(INSTALLED) ## Run the tests without Spark, and check how many lines they reach
	@.venv/bin/coverage erase
	@EXAMPLES_MOST=20 COVERAGE_PROCESS_START=pyproject.toml .venv/bin/python -m pytest \
	    -m "not spark and not slow and not long" --numprocesses 2 --dist worksteal \
	    --ignore=tests/cli --ignore=tests/lab --ignore=src/watersmeet/cli --ignore=src/watersmeet/lab
	@.venv/bin/coverage combine --quiet
	@.venv/bin/coverage report

bench: setup ## Run the benchmarks
	@$(JAVA) .venv/bin/watersmeet bench

lint: $(INSTALLED) ## Check style, types and layers
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/mypy
	.venv/bin/lint-imports --no-logo

format: $(INSTALLED) ## Format the code and fix what can be fixed
	.venv/bin/ruff check --fix-only
	.venv/bin/ruff format

lock: $(INSTALLED) ## Resolve requirements.lock anew from pyproject.toml
	@sh scripts/lock.sh

clean: ## Remove .venv, caches and outputs
	rm -rf .venv build dist out .coverage .coverage.* artifacts derby.log metastore_db spark-warehouse
	rm -rf .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find src tests -name __pycache__ -prune -exec rm -rf {} +
