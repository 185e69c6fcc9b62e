# make          lists the commands
# PYTHON        the interpreter the environment is made from (3.11 or newer)
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PORT ?= 8470
# The real trainers that are tested, each in an environment of its own.
TRAINERS ?= trl verl vllm

.DEFAULT_GOAL := help
.PHONY: help install run test search trainers check pictures format lock clean

help: ## list the commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-9s %s\n", $$1, $$2}'

$(VENV)/.installed: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Longpole's server needs Python 3.11 or newer: make PYTHON=python3.11 ..."; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "This Python has no venv module: on Debian, apt-get install python3-venv"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@

install: $(VENV)/.installed ## create .venv with the pinned dependencies and this project

run: install ## start server, agent and a simulated training run; PORT=8470
	@$(BIN)/longpole up --port $(PORT) --demo || { echo "Where port $(PORT) is taken: make run PORT=8480" >&2; exit 1; }

test: install ## everything the tests need, then all tests and checks
	$(BIN)/python -m tests.prepare
	$(MAKE) check
	$(BIN)/pytest --numprocesses auto --maxprocesses 4 --dist loadfile

search: install ## the property tests on examples drawn anew
	$(BIN)/pytest -m hypothesis --hypothesis-profile search --numprocesses auto --maxprocesses 4

trainers: install ## whole trainings of verl and TRL against this project (TRAINERS="trl": one of them; 2 GB each)
	PYTHONPATH=tests $(BIN)/python tests/trainers/prepare.py $(TRAINERS)
	$(BIN)/pytest tests/trainers

check: install ## format, lint, types and import contracts; changes nothing
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/lint-imports --no-cache
	$(BIN)/pyright

pictures: install ## take the documentation's pictures anew, of every page in both themes
	LONGPOLE_SCREENSHOTS=1 $(BIN)/pytest tests/browser/test_demo.py

format: install ## format and fix what can be fixed
	$(BIN)/ruff format --quiet .
	$(BIN)/ruff check --quiet --fix .

lock: install ## resolve requirements.lock anew from pyproject.toml (needs uv)
	uv pip compile pyproject.toml --quiet --all-extras --group dev --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --output-file requirements.lock

clean: ## remove the environment and what tests and runs left behind
	rm -rf $(VENV) test-artifacts .pytest_cache .ruff_cache .longpole
