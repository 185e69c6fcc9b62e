# make          lists the commands
# PYTHON        the interpreter the environment is made from (3.11 or newer)
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PORT ?= 8470
# The real trainers that are tested, each in an environment of its own.
TRAINERS ?= loggers trl verl vllm
LOCK := uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate

# In the order of folders: whole programs come first, so that no worker is left with one of them alone.
PYTEST = $(BIN)/pytest --dist loadfile --no-loadscope-reorder --durations 25 --durations-min 15

.DEFAULT_GOAL := help
.PHONY: help install run test search trainers check pictures docs dist sbom format lock clean

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

# What tests of deployment and documentation need beside; `make run` does without.
$(VENV)/.deploy: requirements-deploy.lock $(VENV)/.installed
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-deploy.lock
	@touch $@

run: install ## start server, agent and a simulated training run; PORT=8470
	@$(BIN)/longpole up --port $(PORT) --demo || { echo "Where port $(PORT) is taken: make run PORT=$$(($(PORT) + 10))" >&2; exit 1; }

test: install $(VENV)/.deploy ## everything the tests need, then all tests and checks
	$(BIN)/python -m tests.prepare
	$(MAKE) check
	@# Browsers keep two cores busy; half of what the other tests take is waiting for programs.
	$(PYTEST) tests/browser --numprocesses 2
	$(PYTEST) --ignore tests/browser --numprocesses 3

search: install ## the property tests on examples drawn anew
	$(BIN)/pytest -m hypothesis --hypothesis-profile search --numprocesses auto --maxprocesses 4

trainers: install ## whole trainings of verl and TRL, vLLM and loggers against this project (TRAINERS="trl": one of them; 2 GB each)
	PYTHONPATH=tests $(BIN)/python tests/trainers/prepare.py $(TRAINERS)
	$(BIN)/pytest tests/trainers

check: install $(VENV)/.deploy ## format, lint, types and import contracts; changes nothing
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/lint-imports --no-cache
	$(BIN)/pyright --threads 2

pictures: install ## take the documentation's pictures anew, of every page in both themes
	LONGPOLE_SCREENSHOTS=1 $(BIN)/pytest tests/browser/test_demo.py

docs: $(VENV)/.deploy ## build the documentation's site into site/; a warning is an error
	$(BIN)/mkdocs build --strict --quiet

dist: $(VENV)/.deploy ## build wheel and sdist into dist/, the same bytes each time
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(BIN)/python -m hatchling build --directory dist

sbom: $(VENV)/.deploy ## write what the images are made of into dist/ (CycloneDX)
	for image in agent server; do $(BIN)/python deploy/images/write_sbom.py $$image dist/longpole-$$image.cdx.json || exit 1; done

format: install ## format and fix what can be fixed
	$(BIN)/ruff format --quiet .
	$(BIN)/ruff check --quiet --fix .

lock: install ## resolve the lock files anew from pyproject.toml (needs uv)
	$(LOCK) pyproject.toml --all-extras --group dev --output-file requirements.lock
	$(LOCK) --group deploy --constraint requirements.lock --output-file requirements-deploy.lock
	$(LOCK) pyproject.toml --extra agent --constraint requirements.lock --output-file deploy/images/agent.lock
	$(LOCK) pyproject.toml --extra server --extra pictures --constraint requirements.lock --output-file deploy/images/server.lock
	echo hatchling | $(LOCK) - --constraint requirements-deploy.lock --output-file deploy/images/build.lock

clean: ## remove the environment and what tests and runs left behind
	rm -rf $(VENV) dist site test-artifacts .pytest_cache .ruff_cache .longpole
