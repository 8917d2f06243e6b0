# The two commands: `make demo` and `make test`. Both set up .venv by themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LATEST := .venv-latest
PYTEST := $(BIN)/python -m pytest --dist loadgroup --no-loadscope-reorder $(PYTEST_FLAGS)
USUAL := not long and not agents and not system and not check
# The distributions of this repository are installed in place: the house, and the exercises.
install = @echo "installing the packages of $(2) into $(1) …"; \
	$(1)/bin/python -I .ci/install.py $(1) $(2) $(3) --in-place . --in-place exercises
LOCKS := $(wildcard requirements*.lock) pyproject.toml exercises/pyproject.toml

# A run and its tests start hundreds of interpreters: none should compile every module again.
unexport PYTHONDONTWRITEBYTECODE
export UV_COMPILE_BYTECODE ?= true

.PHONY: setup setup-dev setup-ray setup-trace demo test-quick test-pure test test-system test-long \
	test-agents test-latest check lock clean

setup: $(VENV)/.run-ready
setup-dev setup-ray setup-trace: setup-%: $(VENV)/.%-ready

$(BIN)/python:
	@$(PYTHON) -B swe_retry/oldest.py || { echo "give another: make PYTHON=python3.12"; exit 2; }
	@echo "installing into $(VENV): the first time takes a minute or more"
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run-ready: $(LOCKS) | $(BIN)/python
	$(call install,$(VENV),requirements-exercises.lock)
	@touch $@

$(VENV)/.%-ready: $(LOCKS) | $(BIN)/python
	$(call install,$(VENV),requirements-$*.lock)
	@touch $@

# The newest versions within all bounds, as releases for all systems. A lock begins with the lock of
# what it adds to, and has only what comes on top of that.
COMPILE := $(BIN)/uv pip compile --quiet --no-config --universal --python-version 3.11 \
	--only-binary :all: --generate-hashes --no-header --no-annotate
PINNED = $$(sed -n 's/^\([^ ]*\)==.*/--no-emit-package \1/p' $(1))
on_top = { for lock in $(3); do echo "-r $$lock"; done; $(COMPILE) $(2) --constraints \
	$(VENV)/all.lock $(call PINNED,requirements.lock $(3)); } >$(VENV)/part.lock && \
	mv $(VENV)/part.lock requirements-$(1).lock

lock: setup
	$(COMPILE) requirements-dev.txt requirements-build.txt --upgrade --output-file $(VENV)/all.lock
	$(COMPILE) requirements.txt --constraints $(VENV)/all.lock --upgrade --output-file requirements.lock
	$(COMPILE) requirements-build.txt --constraints $(VENV)/all.lock --upgrade --output-file requirements-build.lock
	$(call on_top,exercises,exercises/requirements.txt,requirements.lock)
	$(call on_top,trace,requirements-trace.txt,requirements.lock)
	$(call on_top,ray,requirements-ray.txt,requirements-trace.lock)
	$(call on_top,dev,requirements-dev.txt,requirements-exercises.lock requirements-trace.lock \
		requirements-ray.lock)

demo: setup
	$(BIN)/python -m swe_retry.demo

# Pure parts and a few whole runs: what a developer repeats.
test-quick: setup-dev
	$(PYTEST) -n 2 -m "$(USUAL) and (quick or not run)"

# What another Python would break first; .ci/run has the oldest and the newest.
test-pure: setup-dev
	$(PYTEST) -n 2 -m "$(USUAL) and not run" tests/core tests/llm tests/agent/formats

# Four workers on two cores: tests of signals and of servers mostly wait.
test: setup-dev
	$(PYTEST) -n 4 -m "$(USUAL)"

# The wheel, the demo, installers of packages, pages in a browser, collectors of traces, Ray, and the
# Docker engine; what is missing here is skipped.
test-system: setup-dev
	$(PYTEST) -n 3 -m "system and not long and not agents"

test-long: setup-dev
	$(BIN)/python -m pytest -m long

# The coding agents that harness.py install has installed, or that are in PATH.
test-agents: setup-dev
	$(BIN)/python -m pytest -m agents -n 2

# The newest packages within the bounds, in an environment of their own: a release that breaks us is
# seen here first.
test-latest: setup-dev
	$(PYTHON) -m venv --clear $(LATEST)
	$(call install,$(LATEST),requirements-dev.txt,--latest)
	$(PYTEST:$(BIN)/%=$(LATEST)/bin/%) -n 4 -m "$(USUAL)"

check: setup-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy .ci/install.py
	$(BIN)/python -m pytest -q -p no:xdist tests/test_architecture.py tests/test_documents.py \
		tests/test_measure.py tests/test_import_time.py

clean:
	rm -rf $(VENV) $(LATEST) .mypy_cache .pytest_cache .ruff_cache
