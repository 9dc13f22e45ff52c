# Two commands, each enough on a fresh clone: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin

# the tests start a thousand interpreters: compile each module once, wherever the environment forbids it
unexport PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX := $(CURDIR)/.pycache

.PHONY: demo test lint chaos bench install install-test clean

demo: install
	$(BIN)/bsprun -p 64 examples/doctor_visits.py

# all of it on all cores; with ARGS only what they name (a file, a folder, -k ...), as pytest runs it
test: install-test $(if $(ARGS),,lint)
	$(BIN)/python -m pytest -rs $(or $(ARGS),-n auto --dist worksteal)

lint: install-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy -p bsp
	$(BIN)/mypy tools

CHAOS := chaos_kill_loop folder launcher resume scenarios simulation  # what repeats, and what is struck from outside

chaos: install-test
	BSP_REPEAT=20 BSP_SCHEDULES=10000 $(BIN)/python -m pytest --timeout 2400 $(CHAOS:%=tests/faults/test_%.py) tests/mpi/test_world.py

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

clean:
	rm -rf .venv .pycache build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
