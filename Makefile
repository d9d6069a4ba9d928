# Everything a newcomer needs: `make` lists the targets. The first one that needs the environment
# makes it (.venv); after that nothing is downloaded again until pyproject.toml changes.

.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:

VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
JOBS   ?= 2
MINUTES ?= 5
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3 python; do \
            if $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; \
            then echo $$p; break; fi; done)
say    := @printf 'viewmill: %s\n'

.PHONY: help setup warm demo test test-fast postgres jars services test-lake test-spark check format golden fuzz mutate crash bench docs site dist clean

help:    ## Show this list
	@echo "Viewmill keeps SQL views fresh. What make can do here:"
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{split($$1, name, ":"); printf "  make %-10s %s\n", name[1], $$2}'

setup: $(READY)  ## Create .venv and install Viewmill with everything it can use
	$(say) "the environment is ready: source $(BIN)/activate"

$(READY): pyproject.toml
	@test -n "$(PYTHON)" || { echo "viewmill: Python 3.11 or newer is needed and was not found."; \
	  echo "  hint: install it, or say where it is: make $(or $(MAKECMDGOALS),setup) PYTHON=/path/to/python3.11"; exit 1; }
	$(say) "[1/3] creating $(VENV) with $$($(PYTHON) --version)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { \
	  echo "viewmill: $(PYTHON) cannot create environments."; \
	  echo "  hint: on Debian and Ubuntu, apt install python3-venv"; rm -rf $(VENV); exit 1; }
	$(say) "[2/3] installing the product: DuckDB, Numba, PyArrow, sqlglot (about 600 MB on disk)"
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --editable .
	$(say) "[3/3] installing PySpark and the tools for tests (1.1 GB more, a few minutes, once)"
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --editable '.[dev,spark]'
	@touch $(READY)

warm: $(READY)  ## Compile the kernels that views share, so that the first views do not wait
	@$(BIN)/viewmill warm

demo: $(READY)  ## Run the order-book demo: views refreshed live in the terminal, then on Spark
	$(say) "running viewmill demo"
	@$(BIN)/viewmill demo
	$(say) "running viewmill demo --spark"
	@$(BIN)/viewmill demo --spark

test: $(READY)  ## Run all tests
	$(say) "running the tests on $(JOBS) processes"
	@$(BIN)/python -m pytest -n $(JOBS) --dist loadgroup -m "not slow and not lake" -q

test-fast: $(READY)  ## Run the short tests of every room: no Spark, nothing compiled, two minutes
	@VIEWMILL_COMPILER=off HYPOTHESIS_PROFILE=debug $(BIN)/python -m pytest -n $(JOBS) \
	  --dist loadgroup -m "not slow and not spark and not long and not lake" -q

postgres: ## Install PostgreSQL from Debian's packages, for its tests, where that can be done
	@command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 \
	  || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null \
	    && apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq postgresql >/dev/null; } \
	  || echo "viewmill: PostgreSQL is not installed, its tests will be skipped"

LAKE := .cache/lake
jars:
	@if command -v mvn >/dev/null; then \
	  mvn -q -B -f tests/lake/pom.xml dependency:copy-dependencies \
	    -DoutputDirectory="$(CURDIR)/$(LAKE)/kafka" || echo "viewmill: the jars cannot be fetched"; \
	  else echo "viewmill: Maven is not installed (apt install maven), so no jars are fetched"; fi

services: $(READY) postgres jars  ## Start a PostgreSQL and a Kafka on loopback for demos, until Ctrl-C
	@PYTHONPATH=. $(BIN)/python tools/services.py

test-lake: $(READY) jars  ## Run the tests that need jars of Maven Central: a Kafka broker
	@VIEWMILL_COMPILER=off $(BIN)/python -m pytest -q -rs -m "lake and not slow" tests/lake

SPARKS ?= 4.1.4 4.2.1
test-spark: $(READY)  ## Run the tests of Spark on older versions: make test-spark SPARKS="4.1.4 4.2.1"
	@for version in $(SPARKS); do \
	  printf 'viewmill: Spark %s\n' "$$version"; \
	  $(BIN)/python -m pip install -qq --disable-pip-version-check --no-deps --upgrade \
	    --target ".cache/pyspark-$$version" "pyspark==$$version"; \
	  VIEWMILL_COMPILER=off PYTHONPATH=".cache/pyspark-$$version" $(BIN)/python -m pytest -q \
	    -m "spark and not slow" -W ignore::ResourceWarning \
	    -W ignore::pytest.PytestUnraisableExceptionWarning; done

check: $(READY)  ## Format, lint, types, import contracts, words: what CI runs first
	$(say) "ruff: format and lint"
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	$(say) "mypy: types"
	@$(BIN)/mypy
	$(say) "import-linter: the arrows between the rooms"
	@$(BIN)/lint-imports
	$(say) "check_words: one word per concept"
	@$(BIN)/python tools/check_words.py

format: $(READY)  ## Let ruff rewrite what it can
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

golden: $(READY)  ## Rewrite golden outputs; review the diff
	@test -d tests/golden || { echo "viewmill: there are no golden scripts yet"; exit 1; }
	$(say) "rewriting golden outputs: read the diff before you commit it"
	@$(BIN)/python -m pytest tests/golden -q --update-golden

fuzz: $(READY)  ## Random queries and sessions against DuckDB, as long as asked: make fuzz MINUTES=10 SEED=7
	$(say) "random schemas, queries, rows and deletes for $(MINUTES) minutes"
	@$(BIN)/python -m viewmill.testing.fuzz --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(if $(COMPILED),--compiled)
	$(say) "random sessions for $(MINUTES) minutes in each lane"
	@for lane in memory durable compiled slots shards; do \
	  $(BIN)/python -m viewmill.testing.sessions --lane $$lane --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)); done

mutate: $(READY)  ## Plant mistakes and see whether the tests notice: make mutate COUNT=60 SEED=1
	@$(BIN)/python tools/mutate.py --count $(or $(COUNT),60) --seed $(or $(SEED),1) --jobs $(JOBS)

crash: $(READY)  ## Long sweeps of kills, failing disks and interrupts
	$(say) "killing and restarting"
	@VIEWMILL_KILLS=100 VIEWMILL_INTERRUPTS=500 $(BIN)/python -m pytest -n $(JOBS) --dist loadgroup -q \
	  tests/recovery tests/mill/test_thread_interrupts.py tests/pipeline/test_crash.py tests/pipeline/test_clusters.py

bench: $(READY)  ## Timed workloads, compared with DuckDB
	@$(BIN)/viewmill bench groupby

docs: $(READY)  ## Run the examples, check what the docs say, and build the site in site/
	@$(BIN)/python -m pytest -q tests/docs
	@$(MAKE) --no-print-directory site

site: $(READY)  ## Build the documentation site in site/, without running its examples
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	$(say) "the site is site/index.html"

dist: $(READY)  ## Build the wheel and the sdist, and try each in an environment of its own
	$(say) "building dist/"
	@rm -rf dist
	@$(BIN)/python -m build --outdir dist . >/dev/null
	@$(BIN)/python tools/check_dist.py dist

clean:   ## Remove the environment and every cache
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
