# Few, obvious targets. `make run` and `make test` set up all that they need.
# The first that runs: a shim of pyenv may stand for a version that is not there.
PYTHON ?= $(shell for python in python3.11 python3.12 python3.13; do $$python -c "" 2>/dev/null && echo $$python && break; done)
BIN := .venv/bin
UV := $(BIN)/uv pip
INSTALL = VIRTUAL_ENV=$(CURDIR)/.venv $(UV) install -q --compile-bytecode --require-hashes

# Compiled files are kept whatever the caller's environment says: without them, tests are compiled anew at every run.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help setup run check verify packages test test-engines test-cluster test-gpu bench ratios soak planted lock release images clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 15

setup: .venv/.dev  ## everything that development needs, in .venv

.venv/bin/uv: requirements/uv.txt
	@test -n "$(PYTHON)" && $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
		{ echo "Steelyard needs Python 3.11, 3.12 or 3.13; set PYTHON=/path/to/python3.11" >&2; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements/uv.txt
	@touch $@

# The packages themselves: .pth files into their src/ beside a console script, so that an edit needs no new install.
.venv/.project: .venv/bin/uv pyproject.toml requirements/build.txt $(wildcard packages/*/pyproject.toml)
	VIRTUAL_ENV=$(CURDIR)/.venv $(UV) install -q --require-hashes -r requirements/build.txt
	VIRTUAL_ENV=$(CURDIR)/.venv $(UV) install -q --no-deps --no-build-isolation $(addprefix -e ./,$(wildcard packages/*)) -e .
	@touch $@

.venv/.local: .venv/bin/uv requirements/local.txt .venv/.project
	@test -e .venv/.dev || { echo "Installing what one machine needs into .venv ..."; $(INSTALL) -r requirements/local.txt; }
	@touch $@

.venv/.dev: .venv/bin/uv requirements/dev.txt .venv/.project
	@echo "Installing the development environment into .venv ..."
	$(INSTALL) -r requirements/dev.txt
	@touch $@ .venv/.local

run: .venv/.local  ## two models, uploaded, evaluated, reported on and audited
	@$(BIN)/python -m compileall -q src packages
	@$(BIN)/steelyard demo --state-dir .steelyard

check: setup  ## lint, types, layers, and that planted bugs still apply
	$(BIN)/ruff check . && $(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tests.planted --check

verify: setup packages  ## generated files are what the schema says, and each package stands alone
	$(BIN)/python -m steelyard_schema.generate
	$(BIN)/python -m deploy.generate
	git diff --exit-code -- deploy docs/reference packages/schema

packages: setup  ## each package alone: its wheel, its own dependencies in a new environment, its unit tests there
	$(BIN)/python -m tests.packages $(PACKAGES)

# Unit tests: each worker imports a fixed share of the files only, which saves more than uneven shares cost. No worker is
# started again after a crash: the new one would have another share. Integration tests: in the order of the tree short
# files come last, so that the workers end together; files with one test are long ones. More workers than cores, because
# the tests also wait for processes, those of integration more than unit tests.
DIVIDED := --dist each --divide-files --max-worker-restart 0 -o console_output_style=classic
test: setup  ## unit tests, then integration on the embedded engines
	@$(BIN)/python -m compileall -q src packages
	$(BIN)/pytest -q -n 3 $(DIVIDED) src packages deploy
	$(BIN)/pytest -q -n 4 --dist loadfile --no-loadscope-reorder tests --ignore tests/engines

test-engines: setup  ## the real engines, and other Pythons
	$(BIN)/python -m tests.engines

test-cluster: setup  ## the chart on a real node: images, helm, the story in containers, real engines, kills, an upgrade
	$(BIN)/python -m tests.engines --alone "Chart on a real node"
	$(BIN)/python -m tests.engines --alone "Chart on servers"

test-gpu: setup  ## the GPUs of this machine, where it has any
	$(BIN)/python -m tests.gpu

bench: setup  ## side-by-side measurements, written into docs/benchmarks.md
	$(BIN)/python -m benchmarks

ratios: setup  ## processor times beside the peers', in a short form; fails where one fell by more than a quarter
	$(BIN)/python -m benchmarks --short

soak: setup  ## the long forms of the tests, every Python, and training with every framework
	STEELYARD_EXAMPLES=random $(BIN)/pytest -q -n 2 src packages deploy
	STEELYARD_EXAMPLES=random $(BIN)/pytest -q -m soak --timeout 7200 src packages tests --ignore tests/engines -s
	$(BIN)/python -m tests.frameworks
	$(BIN)/python -m tests.frameworks --kill first
	$(BIN)/python -m tests.versions
	$(BIN)/python -m tests.engines.model_servers.suite --soak
	$(BIN)/python -m tests.engines.services.suite --soak
	$(BIN)/python -m tests.kubernetes_differential --random 30

planted: setup  ## planted bugs that named tests must find
	$(BIN)/python -m tests.planted

# Universal: one lock for every Python from 3.11 on, whichever of them makes it.
COMPILE = VIRTUAL_ENV=$(CURDIR)/.venv $(UV) compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header -q $(foreach name,$(notdir $(wildcard packages/*)),--no-emit-package steelyard-$(name))
lock: .venv/bin/uv  ## lock the dependencies anew
	$(COMPILE) pyproject.toml --extra local --extra analysis --extra hub --extra kafka --extra mongodb --extra postgresql --extra otel --extra openlineage --group dev -o requirements/dev.txt
	$(COMPILE) pyproject.toml --extra local -c requirements/dev.txt -o requirements/local.txt
	$(COMPILE) pyproject.toml --extra ray -c requirements/dev.txt -o requirements/ray.txt
	$(COMPILE) pyproject.toml tests/engines/notebooks/nbclient.in --extra local --extra notebook -c requirements/dev.txt -o tests/engines/notebooks/notebooks.txt
	$(COMPILE) requirements/build.in -o requirements/build.txt
	$(COMPILE) requirements/uv.in -o requirements/uv.txt
	for each in requirements/frameworks/*.in; do $(COMPILE) $$each -o $${each%.in}.txt || exit 1; done
	for each in requirements/runners/*.in; do $(COMPILE) $$each --override requirements/runners/override.txt \
		-o src/steelyard/runners/locks/$$(basename $$each .in).txt || exit 1; done
	cp requirements/uv.txt src/steelyard/runners/locks/uv.txt

release: setup  ## wheels, source archives, bill of materials, checksums in dist/, tried; SIGN=KEY signs them
	$(BIN)/python -m tests.release --sign "$(SIGN)"

images: setup  ## OCI archives in build/images/, without a daemon and root; IMAGES="operator steps" makes these
	$(BIN)/python -m deploy.images $(IMAGES)

clean:  ## remove what the targets made
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache dist build
