# The two commands of the README are `make demo` and `make test`: each sets up all it needs, in .venv.
# Needs Python 3.11 or newer; say which with PYTHON=python3.12.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# A stamp per set of packages: nothing is installed twice, and a changed pyproject.toml installs again.
BASE := $(VENV)/.base
DEV := $(VENV)/.dev
# Tests wait for processes and sockets: twice as many workers as there are cores, at most four.
WORKERS := $(shell cores=$$(getconf _NPROCESSORS_ONLN); echo $$((cores < 2 ? 2 : 4)))

.PHONY: help demo demo-room test lint format eval bench interop-table pictures soak mutants release-check site clean

help:  ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/'

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit("tenex needs Python 3.11 or newer; this is %d.%d. Try: make PYTHON=python3.12" \
		% sys.version_info[:2] if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)

$(BASE): $(VENV)/bin/python pyproject.toml
	@echo "Installing tenex and the packages it needs into $(VENV): about a minute, once."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[relay]'
	@touch $@

$(DEV): $(BASE)
	@echo "Installing what tests and checks need into $(VENV): about a minute, once."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

demo: $(BASE)  ## talk to the agents on this machine: embedded relay, daemon, chat
	@$(BIN)/tenex demo --data . $(ARGS)

demo-room: $(DEV)  ## watch two people and three agents in a room, on this machine; needs no key
	@$(BIN)/python -m tests.interop.room_demo

test: $(DEV)  ## run the tests
	@[ -e tests/interop/node_modules/.installed ] || ! command -v npm >/dev/null || \
		echo "Tests with clients in JavaScript install their npm packages into tests/interop: about a minute, once."
	@# tests start hundreds of programs: where compiled modules are not kept, each would compile all of ours again
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist worksteal $(ARGS)

lint: $(DEV)  ## check style, types and layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(DEV)  ## put the code into shape
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

eval: $(BASE)  ## run the shipped scenarios with scripted models; ARGS=--json for programs
	$(BIN)/tenex eval $(ARGS)

bench: $(DEV)  ## measure against the budgets of the design; ARGS=--quick for fewer turns, AGAINST=COMMIT to compare
	$(BIN)/python -m tests.benchmarks $(if $(AGAINST),--against $(AGAINST)) $(ARGS)

interop-table: $(DEV)  ## compare our relay client with three libraries under faults; ARGS=--only=CLOSED for some rows
	$(BIN)/python -m tests.interop.table $(ARGS)

pictures: $(DEV)  ## take the pictures of docs/web.md, with Chromium
	$(BIN)/python -m tests.web.pictures

soak: $(DEV) mutants  ## the long sweeps
	$(BIN)/python -m pytest -m soak $(ARGS)

mutants: $(DEV)  ## change the code in small ways and count how many changes the tests notice; MUTANTS=--count=200 for more
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[mutation]'
	$(BIN)/python -m tests.mutation $(MUTANTS)

site: $(DEV)  ## build the documents as pages in build/site; a link that leads nowhere is an error
	@$(BIN)/python -m tests.site

release-check: $(DEV)  ## build the sdist and the wheel, check them, install them with each Python of this machine; ARGS=--python=FILE
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[release]'
	$(BIN)/python -m tests.packaging $(ARGS)

clean:  ## remove what was built or installed; conversations, keys and workspace stay
	rm -rf $(VENV) .venv-* build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	rm -rf tests/interop/node_modules tests/interop/.venv-* tests/features/acp_agents/npm/*/bin tests/features/acp_agents/npm/*/lib/node_modules
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
