# Each enough on a fresh clone: `make demo`, `make demo-nonstop` and `make test`.  `make docs` builds the documentation.
PYTHON ?= python3
BIN := .venv/bin

# the tests start a thousand interpreters: compile each module once, wherever the environment forbids it
unexport PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX := $(CURDIR)/.pycache

.PHONY: demo demo-nonstop test test-all test-rest lint docs chaos hosts bench install install-test clean

demo: install
	$(BIN)/bsprun -p 64 examples/doctor_visits.py

# a worker and two whole elements are killed, and one is ten times as slow for a while
FAULTS := kill:worker=0,superstep=60; kill:element=1,superstep=120; slow:element=2,factor=10,from=200,until=240; \
  kill:element=3,superstep=360

demo-nonstop: install
	$(BIN)/bsprun -p 8 -n 2 examples/nonstop_training.py > .venv/undisturbed
	$(BIN)/bsprun -p 8 -n 2 --clones 2 --standby 2 --progress --inject "$(FAULTS)" \
	  examples/nonstop_training.py > .venv/disturbed
	@cat .venv/disturbed
	@cmp .venv/undisturbed .venv/disturbed && echo "the same output, byte for byte, as without faults"

# a choice of minutes, on all cores (tests/thinning.py); with ARGS all that they name (a file, a folder, -k ...), as pytest runs it
test: install-test $(if $(ARGS),,lint)
	$(if $(ARGS),,BSP_TESTS=few) $(BIN)/python -m pytest -rs $(or $(ARGS),-n auto --dist worksteal)

# what continuous integration runs
test-all: install-test lint
	$(BIN)/python -m pytest -rs -n auto --dist worksteal

lint: install-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy -p bsp
	$(BIN)/mypy tools

docs: .venv/installed-docs
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/build/html
	@echo "make: the documentation is in docs/build/html/index.html"

COMMA := ,
CHAOS := tests/faults tests/hosts
STRUCK := $(patsubst %,tests/faults/jobs/test_%.py,chaos_kill_loop resume scenarios)  # real jobs, from outside
SIMULATED := tests/faults/protocol/test_simulation.py
WORLD := tests/mpi/test_world.py  # it takes all cores

# what `make test-all` leaves out of the tests: all combinations of parameters
test-rest: install-test
	BSP_REPEAT=20 $(BIN)/python -m pytest -n auto --dist worksteal -m rest $(patsubst %,--ignore=%,$(CHAOS) $(WORLD))
	BSP_REPEAT=20 $(BIN)/python -m pytest --timeout 2400 $(WORLD)

# what it leaves out of the tests of faults and hosts: real jobs, struck again and again; then simulated ones
chaos: install-test
	BSP_REPEAT=20 $(BIN)/python -m pytest -n auto --dist worksteal -m rest $(CHAOS) \
	  $(patsubst %,--ignore=%,$(STRUCK) $(SIMULATED))
	BSP_REPEAT=20 $(BIN)/python -m pytest --timeout 2400 $(STRUCK)
	BSP_SCHEDULES=10000 $(BIN)/python -m pytest --timeout 2400 -n auto --dist worksteal $(SIMULATED)

# a shell on the first of some hosts on this machine, joined by a network: make hosts HOSTS=4 RATE=1gbit SLURM=1
HOSTS ?= 3
hosts: install-test
	$(BIN)/python -m tests.hosts.by_hand $(HOSTS) $(if $(RATE),--rate $(RATE)) $(if $(SLURM),--slurm)

bench: install-test
	$(BIN)/python tests/benchmarks/run.py $(ARGS)

install: .venv/installed
install-test: .venv/installed-test

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "make: error: $(PYTHON) is older than 3.11; say which to use: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -m venv .venv || $(PYTHON) -m virtualenv .venv || \
	  { echo "make: error: $(PYTHON) has no venv module; install it (Debian: apt-get install python3-venv)"; exit 1; }

# pip says "No matching distribution found" whatever the reason; every index has some version of setuptools
UNREACHABLE := setuptools.*[(]from versions: none[)]|connection broken by
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[$(1)]' 2> .venv/pip.log || \
  { if grep -qE '$(UNREACHABLE)' .venv/pip.log; \
    then echo "make: error: the package index could not be reached: connect to the network, or name an index that you" \
      "can reach: PIP_INDEX_URL=https://... make $(MAKECMDGOALS) (what pip said: .venv/pip.log)"; \
    else cat .venv/pip.log; fi >&2; exit 1; }

.venv/installed: .venv/bin/python pyproject.toml $(wildcard bsp/*/*.c bsp/*/c/*)
	@echo "installing into .venv"
	@$(call PIP,mpi)
	@touch $@

.venv/installed-test: .venv/bin/python pyproject.toml $(wildcard bsp/*/*.c bsp/*/c/*)
	@echo "installing into .venv, with what tests need"
	@$(call PIP,mpi$(COMMA)test)
	@touch $@ .venv/installed

.venv/installed-docs: .venv/bin/python pyproject.toml
	@echo "installing into .venv, with what the documentation needs"
	@$(call PIP,mpi$(COMMA)docs)
	@touch $@ .venv/installed

clean:
	rm -rf .venv .pycache build docs/build docs/reference/made *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
