# Two commands, each enough on a fresh clone: `make demo` and `make test`.  `make docs` builds the documentation.
PYTHON ?= python3
BIN := .venv/bin

# the tests start a thousand interpreters: compile each module once, wherever the environment forbids it
unexport PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX := $(CURDIR)/.pycache

.PHONY: demo test lint docs chaos bench install install-test clean

demo: install
	$(BIN)/bsprun -p 64 examples/doctor_visits.py

test: install-test lint
	$(BIN)/python -m pytest

lint: install-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy -p bsp
	$(BIN)/mypy tools

docs: .venv/installed-docs
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/build/html
	@echo "make: the documentation is in docs/build/html/index.html"

CHAOS := chaos_kill_loop checkpoint launcher resume scenarios simulation  # what repeats, and what is struck from outside

chaos: install-test
	BSP_REPEAT=20 BSP_SCHEDULES=10000 $(BIN)/python -m pytest --timeout 2400 $(CHAOS:%=tests/faults/test_%.py)

bench: install-test
	$(BIN)/python tests/benchmarks/run.py $(ARGS)

install: .venv/installed
install-test: .venv/installed-test

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "make: error: $(PYTHON) is older than 3.11; say which to use: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -m venv .venv || $(PYTHON) -m virtualenv .venv || \
	  { echo "make: error: $(PYTHON) has no venv module; install it (Debian: apt-get install python3-venv)"; exit 1; }

.venv/installed: .venv/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[mpi]'
	@touch $@

.venv/installed-test: .venv/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[mpi,test]'
	@touch $@ .venv/installed

.venv/installed-docs: .venv/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[mpi,docs]'
	@touch $@ .venv/installed

clean:
	rm -rf .venv .pycache build docs/build docs/reference/made *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
