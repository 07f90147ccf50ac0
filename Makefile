# Everything that a target needs is set up by the target: only Python 3.11+, make and git have to be there.
SHELL := /bin/bash
.DELETE_ON_ERROR:

PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
STORY ?= gpu-off-the-bus
BENCH_MB ?= 1000
BENCH_GROWTH ?= 1
FUZZ_S ?= 60
AUDIT := build/audit
# ids of advisories that do not touch us, each argued in SECURITY.md
ARGUED :=
COMMANDS := now ingest incidents report bursts lemons stats spares project checkpoint failover explain sql drill watch collect serve db rules parsers

.DEFAULT_GOAL := help
.PHONY: help setup demo test lint test-slow test-slurm bench bench-growth fuzz lock docs wheel audit sbom man container clean

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/\1|\2/' | awk -F'|' '{ printf "%-12s %s\n", $$1, $$2 }'

# A second call is instant: the stamp is older than neither the lock nor the project's metadata.
$(STAMP): requirements.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed; set PYTHON=/path/to/python3" >&2; exit 2; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "$(PYTHON) has no venv; on Debian or Ubuntu: apt-get install python3-venv" >&2; exit 2; }
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

setup: $(STAMP) ## virtual environment in .venv, from requirements.lock

demo: $(STAMP) ## triage a sample incident (STORY=folder of samples/cases)
	@$(BIN)/triage now samples/cases/$(STORY)/logs

lint: $(STAMP) ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/mypy

test: lint ## ruff, mypy and the tests
	$(BIN)/pytest -n auto

test-slow: $(STAMP) ## tests that build, install or read for long
	$(BIN)/pytest -m slow

test-slurm: $(STAMP) ## a real Slurm of 16 hosts is started, hurt and read back (as root, Debian or Ubuntu)
	$(BIN)/pytest -m slurm tests/slurm tests/collect

bench: $(STAMP) ## times against rg, zgrep and lnav (BENCH_MB=1000), beside those of the last run (tests/bench/history.csv)
	BENCH_MB=$(BENCH_MB) $(BIN)/python tests/bench/bench.py

bench-growth: $(STAMP) ## how time and memory grow with size (BENCH_GROWTH=1, in GB)
	BENCH_GROWTH=$(BENCH_GROWTH) $(BIN)/python tests/bench/growth_bench.py

fuzz: $(STAMP) ## FUZZ_S seconds (60) of atheris for each target of tests/fuzz; what breaks one is kept in tests/fuzz/seeds
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'atheris>=3.0'
	@for target in inflate frames flight scanner; do \
		$(BIN)/python tests/fuzz/fuzz_$$target.py -max_total_time=$(FUZZ_S) || exit 1; done

lock: ## pin the newest versions that pyproject.toml admits (needs uv)
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --upgrade --extra dev --output-file requirements.lock pyproject.toml
	@! grep -nE '://|--(extra-)?index-url|--find-links' requirements.lock

docs: $(STAMP) ## the site in build/docs; its reference pages and console blocks are written anew
	@test -x $(BIN)/mkdocs || $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --editable '.[docs]'
	$(BIN)/python docs/generate.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# The version stands in pyproject.toml; a tag of another one is a mistake.
wheel: $(STAMP) ## sdist and wheel in dist/
	@tag=$$(git describe --exact-match --tags 2>/dev/null || true); version=v$$($(BIN)/hatchling version); \
	if [ -n "$$tag" ] && [ "$$tag" != "$$version" ]; then echo "tag $$tag, but pyproject.toml says $$version" >&2; exit 2; fi
	$(BIN)/hatchling build

# In an environment of their own, so that they bring nothing into the one that is tested.
$(AUDIT)/.installed:
	$(PYTHON) -m venv --clear $(AUDIT)
	$(AUDIT)/bin/python -m pip install --quiet --disable-pip-version-check 'pip-audit>=2.9' 'cyclonedx-bom>=7.0'
	@touch $@

# Strict: a package that no advisory could be asked for fails it, for silence is no clean bill. Each exception is argued in SECURITY.md.
audit: $(AUDIT)/.installed ## known weaknesses of what requirements.lock pins (needs the network)
	$(AUDIT)/bin/pip-audit --strict --require-hashes --disable-pip --requirement requirements.lock $(addprefix --ignore-vuln ,$(ARGUED))

sbom: $(AUDIT)/.installed ## software bill of materials of requirements.lock in dist/, CycloneDX
	@mkdir -p dist
	$(AUDIT)/bin/cyclonedx-py requirements requirements.lock --pyproject pyproject.toml --output-reproducible --of JSON \
		--output-file dist/gpu-triage.cdx.json

man: $(STAMP) ## man pages in build/man, from the help (needs help2man)
	@command -v help2man >/dev/null || { echo "help2man is not installed; on Debian or Ubuntu: apt-get install help2man" >&2; exit 2; }
	@mkdir -p build/man
	help2man --no-info --no-discard-stderr --name 'triage incidents of GPU training clusters from their logs' \
		--output build/man/triage.1 $(BIN)/triage
	for command in $(COMMANDS); do help2man --no-info --no-discard-stderr --version-string "$$($(BIN)/triage --version)" \
		--name "triage $$command" --output build/man/triage-$$command.1 "$(BIN)/triage $$command" || exit 1; done

container: ## a rootless image, gpu-triage (needs podman, buildah or docker)
	$(or $(shell command -v podman),docker) build --file Containerfile --tag gpu-triage .

clean: ## remove what the targets made
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
