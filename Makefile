# Everything a newcomer needs; the first call makes .venv, later ones reuse it. Making it needs Python
# 3.11 or newer and a package index that pip can reach.
#
#   make demo                                   agents in separate processes, one of them killed in mid-work
#   make test                                   all tests, three at a time (TESTS="tests/unit -k ring" for some of them, JOBS=0 for one at a time)
#   make check                                  format, lint, types, import contracts, tests: what CI runs
#   make sim SEED=7 SCENARIO=partition-halves   one run of the simulator (NODES=32 to say how many nodes)
#   make clean                                  remove .venv, caches and builds
#
# PYTHON=/path/to/python3 chooses the interpreter for a new .venv.

SHELL := /bin/sh
.SHELLFLAGS := -ec
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules

VENV := .venv
BIN := $(VENV)/bin
TESTS ?=
# Most tests of processes wait, most of the simulator compute: three at a time keep two cores busy.
JOBS ?= 3
SCENARIO ?= partition-halves
SEED ?= 7
NODES ?= 32

CANDIDATES := $(or $(PYTHON),python3.11 python3.12 python3.13 python3.14 python3 python)

# A .venv whose set-up was interrupted leaves .unfinished behind; one whose interpreter has gone cannot run; one that was
# moved names its old place in its scripts. Each is removed and made again.
SOUND := $(shell test ! -e $(VENV)/.unfinished && grep -qF '$(CURDIR)/$(BIN)' $(BIN)/pip 2>/dev/null && $(BIN)/python -Ic 'import sys, pip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo yes)
REBUILD := $(if $(SOUND),,rebuild)

.PHONY: help demo test check sim clean rebuild

help:
	@sed -n 's/^#   //p' Makefile

demo: $(VENV)/.ready-node
	@$(BIN)/python -m compileall -q reachp2p node/reachp2p_node # seven processes start; none should compile
	@$(BIN)/reachp2p demo

test: $(VENV)/.ready-dev
	@$(BIN)/pytest -n $(JOBS) --dist worksteal $(TESTS)

check: $(VENV)/.ready-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	@$(MAKE) --no-print-directory test

sim: $(VENV)/.ready-sim
	@$(BIN)/reachp2p-sim run $(SCENARIO) --seed $(SEED) --nodes $(NODES)

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -path ./.git -prune -o -name __pycache__ -prune -exec rm -rf {} +

rebuild: ;

# One stamp an extra, made last. It is out of date when pyproject.toml is newer; the editable install follows every
# other file by itself.
$(VENV)/.ready-%: pyproject.toml $(REBUILD)
	@if [ "$(SOUND)" != yes ] || [ -e $(VENV)/.unfinished ]; then \
		python=; \
		for candidate in $(CANDIDATES); do \
			if "$$candidate" -c 'import sys, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then \
				python="$$candidate"; break; \
			fi; \
		done; \
		if [ -z "$$python" ]; then \
			echo "reachp2p needs Python 3.11 or newer; tried: $(CANDIDATES). Name one with PYTHON=/path/to/python3." >&2; exit 1; \
		fi; \
		rm -rf $(VENV); mkdir $(VENV); touch $(VENV)/.unfinished; \
		echo "making $(VENV) with $$("$$python" --version)" >&2; \
		"$$python" -m venv $(VENV); \
	fi
	@touch $(VENV)/.unfinished
	@echo "installing reachp2p[$*] into $(VENV)" >&2
	@$(BIN)/python -m pip --disable-pip-version-check install --quiet --editable '.[$*]'
	@if [ "$*" = dev ]; then touch $(VENV)/.ready-node $(VENV)/.ready-sim; fi
	@touch $@
	@rm $(VENV)/.unfinished
