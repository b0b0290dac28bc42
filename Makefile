# Every target works in a fresh clone: what is missing on the host is installed first (tools/bootstrap).

RELEASES ?= 3.9.1 4.3.1
PYTEST_ARGS ?=
MUTANTS ?=
BUGS ?=
# Those that need neither records nor Docker.
BENCHES ?= explore random_guidance_model journal_cost wire_proxy relay cluster_start reconcile page_load
BIN := .venv/bin

# Images for CI often set it. Every process that a run or a test starts would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup setup-dev demo test test-all mutants broken-kafkas lint docs picture bench changelog release lock clean-host

help:
	@echo 'make demo        lose 2,000 acknowledged records on Kafka 3.9.1, and none on 4.3.1, and say why'
	@echo 'make test        the tests that this host can run (root: also those that need it), without slow repetitions'
	@echo 'make test-all    all tests that this host can run, as a nightly CI job does'
	@echo 'make mutants     spoil each checker of the reconciliation, and show that its tests see it'
	@echo 'make broken-kafkas  plant bugs in real Kafka (as root), and show which are caught; BUGS="name" only some'
	@echo 'make lint        ruff, mypy, the check of the prose and the links of docs/'
	@echo 'make docs        build the searchable site of docs/ into site/'
	@echo 'make picture     the picture of the README: two recorded runs side by side, light and dark'
	@echo 'make changelog   put the files of changes/ together in CHANGELOG.md'
	@echo 'make release     build a release, and install it on each Python that this host has'
	@echo 'make bench       measurements in bench/ (as root); BENCHES="wire_proxy" only some'
	@echo 'make setup       install what is missing: system packages, .venv, Kafka releases'
	@echo 'make lock        lock the newest Python packages that pyproject.toml allows, with their hashes'
	@echo 'make clean-host  remove what killed runs left on this host'

setup:
	@tools/bootstrap $(RELEASES)

setup-dev:
	@tools/bootstrap --dev $(RELEASES)

# Both releases at once where each has a core, and the memory that --jobs 2 needs (cluster/doctor.py).
DEMO_JOBS ?= $(shell awk -v cores="$$(nproc)" '/^MemAvailable/ { print (cores > 1 && $$2 > 4194304) ? 2 : 1 }' /proc/meminfo)

demo: setup
	$(BIN)/ebbtide run last-replica-standing --kafka 3.9.1,4.3.1 --jobs $(DEMO_JOBS)
	@command -v ebbtide > /dev/null || echo 'To type `ebbtide ...` in this shell, type first:  . .venv/bin/activate'

# More workers than cores: tests of clusters mostly wait, the slow ones also for each other. A worker takes up to 3 GB
# with its Spark session.
WORKERS ?= $(shell awk -v cores="$$(nproc)" '/^MemTotal/ { print (cores > 1 && $$2 > 14e6) ? 3 : 2 }' /proc/meminfo)
PYTEST = $(BIN)/pytest -n $(WORKERS) --dist loadscope --no-loadscope-reorder

test: setup-dev
	@$(BIN)/python -m tools.class_archive
	$(PYTEST) -m 'not slow' $(PYTEST_ARGS)

test-all: WORKERS := $(shell expr $(WORKERS) + 1)
test-all: setup-dev
	@$(BIN)/python -m tools.class_archive
	$(PYTEST) $(PYTEST_ARGS)

mutants: setup-dev
	$(BIN)/python -m bench.mutate_reconcile $(MUTANTS)

broken-kafkas: setup-dev
	$(BIN)/python -m bench.broken_kafka $(BUGS)

lint: docs
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m tools.prose

docs:
	@tools/bootstrap --dev
	@# Not --quiet, with which --strict lets warnings pass.
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

picture:
	@tools/bootstrap --dev
	$(BIN)/python -m tools.pages.picture

changelog: setup-dev
	$(BIN)/towncrier build --yes --version "$$($(BIN)/python -c 'import ebbtide; print(ebbtide.__version__)')"

release: setup-dev
	$(BIN)/python -m tools.release

bench: setup-dev
	@code=0; for name in $(BENCHES); do echo "bench.$$name"; PYTHONPATH=tests:tests/support $(BIN)/python -m bench.$$name || code=1; done; exit $$code

lock:
	python3 -m tools.lock

clean-host:
	@tools/bootstrap
	$(BIN)/ebbtide clean
