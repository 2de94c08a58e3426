# The developer's commands. CI runs `make test` and nothing else.
#
# make up                    the whole product in the foreground; Ctrl-C ends it
# make up ONCE=1             the same, ending after the board; status 0 if every example was as expected
# make up TORCH_INDEX=URL    take torch from this package index (where the default brings a GPU build)
# make test                  format check, lint, types, import rules, tests
# make bench                 figures as a table, and as JSON in bench-results/
# make bench-honesty         kernels of a known difference, by box pairs and by the usual loop (hours;
#                            COUNT=2 for a first look)

SHELL := /bin/sh
VENV := .venv
BIN := $(VENV)/bin
# The first Python that is new enough; on older Ubuntu `python3` may not be.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
PIP := $(BIN)/python -m pip
INSTALL := $(PIP) install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: up test test-static test-fast test-slow bench bench-honesty lint format clean
.DELETE_ON_ERROR:

up: $(VENV)/installed
	@$(BIN)/judge up $(if $(ONCE),--once)

test: test-static test-fast test-slow

test-static: $(VENV)/installed-tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test-fast: $(VENV)/installed-tests
	$(BIN)/pytest -q -m 'not slow'

test-slow: $(VENV)/installed-tests
	$(BIN)/pytest -q -m slow

lint: test-static

bench: $(VENV)/installed-tests
	$(BIN)/python -m tests.bench

bench-honesty: $(VENV)/installed-tests
	$(BIN)/python -m tests.bench.honesty $(if $(COUNT),--count $(COUNT))

format: $(VENV)/installed-tests
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# torch first and alone where an index is named for it: no other package is looked up there.
$(VENV)/installed: pyproject.toml constraints.txt
	@if [ -z "$(PYTHON)" ]; then \
		echo "Python 3.11 or newer is needed and none was found (python3 is: $$(python3 --version 2>&1))."; \
		echo "Install one (Debian 12, Ubuntu 24.04: apt install python3 python3-venv), or name it: make PYTHON=/path/to/python3.11"; \
		exit 1; fi
	@echo "Installing into $(VENV) (some minutes the first time; torch is large) ..."
	@$(PYTHON) -m venv $(VENV) || { \
		echo "A virtual environment needs the venv module: sudo apt install python3-venv"; exit 1; }
	@$(PIP) install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	@$(if $(TORCH_INDEX),$(INSTALL) --no-deps --index-url '$(TORCH_INDEX)' torch)
	@$(INSTALL) --editable '.[all]'
	@touch $@
	@echo "Installed."

$(VENV)/installed-tests: $(VENV)/installed
	@$(INSTALL) --group test --group lint
	@touch $@
