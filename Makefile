# Two commands on a fresh machine: `make reproduce` and `make test`. Each makes .venv itself.
VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= python3
STAMP := $(VENV)/.installed
# One BLAS thread per process: several spinning pools on few cores are 3-10 times slower.
export OPENBLAS_NUM_THREADS := 1
export OMP_NUM_THREADS := 1
export MKL_NUM_THREADS := 1

.PHONY: reproduce test test-all check format bench docs mutants explore size clean install

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $(STAMP)

reproduce: $(STAMP)
	$(BIN)/sparsetoken reproduce

# The core, in minutes; test-all adds the explorer, scikit-learn's checks, devices, notebooks, pages, packaging and long runs.
test: $(STAMP)
	$(BIN)/python -m pytest -n 2 -m "not slow"

test-all: test
	$(BIN)/python -m pytest -n 2 -m slow

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache --no-logo

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(STAMP)
	$(BIN)/python -m benchmarks

# The site, into build/site: no network, warnings are errors. A second build reuses what its scripts and notebooks computed.
docs: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

mutants: $(STAMP)
	$(BIN)/python -m tests.mutation

# Files, source lines, constants and argument lists, package by package.
size: $(STAMP)
	$(BIN)/python docs/tools/size.py

explore: $(STAMP)
	$(BIN)/sparsetoken explore

clean:
	rm -rf $(VENV) build dist .cache *.egg-info .pytest_cache .ruff_cache .mypy_cache
