# The two commands: `make demo` and `make test`. Both set up .venv by themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest --dist loadgroup --no-loadscope-reorder $(PYTEST_FLAGS)
USUAL := not long and not agents and not system and not check
# uv installs several times faster; pip knows indexes that uv is not configured for.
install = @echo "installing the packages of $(1) into $(VENV) …"; \
	$(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python -r $(1) || \
	$(BIN)/python -m pip install --quiet -r $(1)

# A run and its tests start hundreds of interpreters: none should compile every module again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup setup-dev demo test-quick test test-system test-long test-agents check clean

setup: $(VENV)/.run-ready
setup-dev: $(VENV)/.dev-ready

$(BIN)/python:
	@$(PYTHON) -B swe_retry/oldest.py || { echo "give another: make PYTHON=python3.12"; exit 2; }
	@echo "installing into $(VENV): the first time takes a minute or more"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip uv

# The distributions of this repository, in place: the house, and the exercises beside it.
$(VENV)/.run-ready: requirements.txt requirements-build.txt exercises/requirements.txt | $(BIN)/python
	$(call install,requirements.txt)
	$(call install,requirements-build.txt)
	$(call install,exercises/requirements.txt)
	$(BIN)/uv pip install --quiet --no-deps --no-build-isolation --python $(BIN)/python -e . -e ./exercises
	@touch $@

$(VENV)/.dev-ready: requirements-dev.txt requirements-ray.txt requirements-trace.txt $(VENV)/.run-ready
	$(call install,requirements-dev.txt)
	@touch $@

demo: setup
	$(BIN)/python -m swe_retry.demo

# Pure parts and a few whole runs: what a developer repeats.
test-quick: setup-dev
	$(PYTEST) -n 2 -m "$(USUAL) and (quick or not run)"

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

check: setup-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q -p no:xdist tests/test_architecture.py tests/test_documents.py \
		tests/test_measure.py tests/test_import_time.py

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache
