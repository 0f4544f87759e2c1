# `make` alone lists the targets. Every target does its own set-up: Python and make are all it takes.

PYTHON      ?= python3
PYTEST_ARGS ?=

VENV  := .venv
BIN   := $(VENV)/bin
STAMP := $(VENV)/.installed
# What is formatted, linted and typed; folders that are not there yet are left out.
CODE  := $(wildcard src tests bench tools)
PIP   := $(BIN)/python -m pip --disable-pip-version-check --quiet

.DEFAULT_GOAL := help
.PHONY: help setup run examples test test-fast test-repeat fuzz soak soak-shards check format real browser screenshot manifests package image image-base image-pin test-image test-node node conformance bench bench-page bench-decide bench-backlog bench-answers bench-election bench-elastic bench-policies bench-lengths bench-learning bench-learning-node bench-sim bench-forecast bench-rollouts bench-cluster bench-peers bench-http bench-web bench-size bench-writes bench-live bench-shards lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: $(STAMP) ## make .venv with Maar and its tools, pinned and checked by hash

$(STAMP): pyproject.toml requirements.txt requirements-dev.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Maar needs Python 3.11 or later: $$($(PYTHON) --version 2>&1); try make PYTHON=python3.11" >&2; exit 1; }
	@echo "setting up $(VENV) (once, about a minute)"
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) install --require-hashes -r requirements-dev.txt
	@$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

run: setup ## show Maar at work: a cluster in a box, the real scheduler, a story of about a minute, and its page
	@$(BIN)/maar demo

examples: setup ## show what Maar decides for each of the examples
	@set -e; for file in $(sort $(wildcard examples/[0-9]*.yaml)); do \
		printf '\n=== maar plan --cycles 2 --now 2026-11-01T10:00:00Z %s\n\n' "$$file"; \
		$(BIN)/maar plan --cycles 2 --now 2026-11-01T10:00:00Z "$$file"; \
	done

# Real parts are built only if a chosen test needs them.
test: setup ## run all tests; PYTEST_ARGS=tests/session for some
	@needs=$$($(BIN)/python -m tests.needs $(PYTEST_ARGS)); [ -z "$$needs" ] || $(MAKE) --no-print-directory $$needs
	MAAR_REAL=1 $(BIN)/python -m pytest -n auto $(PYTEST_ARGS)

test-fast: setup ## run the tests, without the slow and the real ones
	$(BIN)/python -m pytest -n auto -m 'not slow and not real' $(PYTEST_ARGS)

SECONDS ?= 3600

# Without root nothing is built: it says at once what is missing.
test-node: setup $(if $(filter 0,$(shell id -u)),node) ## install Maar on a real node, kubelet and containerd, and test it there; root, on Debian and Ubuntu
	@$(BIN)/python -m tests.node $(PYTEST_ARGS)

N    ?= 5
BUSY ?= 0

test-repeat: setup real browser $(if $(filter 0,$(shell id -u)),node) ## repeat the tests of real parts, to find one that fails now and then; N=3 BUSY=4: three times, beside four busy processes
	@$(BIN)/python -m tests.repeat --times $(N) --busy $(BUSY) $(if $(ONLY),--only $(ONLY)) $(PYTEST_ARGS)

fuzz: setup ## search for inputs that break Maar, for an hour; SECONDS=600 for less, SEED=7 for the same inputs again
	$(BIN)/python -m tests.fuzz --seconds $(SECONDS) $(if $(SEED),--seed $(SEED))

real: setup ## build a real control plane for the tests, once, into a cache outside the checkout
	@$(BIN)/python tools/controlplane/build.py
	@$(BIN)/python tools/controlplane/build.py training-operator helm promtool

node: real ## build and install what a real node needs, as `real` does for the control plane
	@$(BIN)/python tools/controlplane/build.py node kubernetes-oldest
	@$(PYTHON) tools/node.py

conformance: setup real ## run Kubernetes' tests of scheduling with kube-scheduler and with Maar on simulated nodes, and compare; about 20 minutes, and 10 to build; ARGS="--match REGEX" for some
	@$(BIN)/python tools/controlplane/build.py node e2e
	@$(BIN)/python -m tests.conformance $(ARGS)

manifests: setup ## render deploy/*.yaml from the chart in deploy/chart
	@$(BIN)/python tools/manifests.py

package: setup ## build the wheel and the sdist into dist/
	@$(BIN)/python -m hatchling build

# Without a registry of images: make image-base, then make image BASE=build/maar-base-amd64.tar
ARCH   ?=
BASE   ?=
SOURCE ?=

image: setup $(filter build/maar-base-%.tar,$(BASE)) ## build the image into an OCI archive in build/; BASE=... for another base, ARCH=arm64, SOURCE=address for its label
	@$(BIN)/python -m tools.image build $(if $(BASE),--base $(BASE)) $(if $(ARCH),--arch $(ARCH)) $(if $(SOURCE),--source $(SOURCE))

image-pin: setup ## write the digest of the image's base into deploy/Dockerfile; needs a registry
	@$(BIN)/python -m tools.image pin

image-base: setup ## make a base for the image from Debian's packages, where no registry can be reached; ARCH=arm64
	@$(BIN)/python -m tools.image base $(if $(ARCH),--arch $(ARCH))

build/maar-base-%.tar: | setup
	@$(BIN)/python -m tools.image base --arch $*

test-image: setup $(filter build/maar-base-%.tar,$(BASE)) ## build the image from Debian's packages and test it: root, on Debian and Ubuntu
	@$(BIN)/python -m tests.image $(PYTEST_ARGS)

browser: ## install Chromium for the tests of the page, where it is missing (Debian and Ubuntu, as root)
	@$(PYTHON) tools/browser.py

screenshot: setup browser ## draw docs/images/page.png: the page that the demo serves, in the middle of its story
	@$(BIN)/python tools/page_picture.py

.PHONY: docs
docs: setup ## build the documentation site with search into build/site; a broken link fails
	@$(BIN)/python -m tools.docsite && echo "build/site/index.html"

soak: setup real ## cause all faults at random on a real API server for 30 minutes, after soak-shards; MINUTES=60 for longer, SEED=7 for the same again
	$(BIN)/python -m tests.soak.shards $(if $(SEED),--seed $(SEED)); shards=$$?; \
	$(BIN)/python -m tests.soak $(if $(MINUTES),--minutes $(MINUTES)) $(if $(SEED),--seed $(SEED)) && exit $$shards

soak-shards: setup real ## kill, freeze and restart shards 100 times in 10 minutes; MINUTES=5 for less, SEED=7 for the same again
	$(BIN)/python -m tests.soak.shards $(if $(MINUTES),--minutes $(MINUTES)) $(if $(SEED),--seed $(SEED))

check: setup ## format, lint, types, import contracts, spelling
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE)
	$(BIN)/oxlint --deny-warnings src/maar/web/page
	$(BIN)/mypy $(CODE)
	$(BIN)/lint-imports --no-logo
	$(BIN)/codespell

format: setup ## format the code and mend what the linter can
	$(BIN)/ruff check --fix-only $(CODE)
	$(BIN)/ruff format $(CODE)

bench: bench-decide bench-backlog bench-answers bench-elastic bench-learning bench-sim bench-forecast bench-cluster bench-peers bench-shards bench-http bench-web bench-size bench-writes bench-live bench-page ## run all benchmarks

bench-decide: setup ## measure one decision: speed, idle cost, hopeless searches, memory
	$(BIN)/python -m bench.decide

bench-backlog: setup ## measure a decision on a full cluster on which thousands of gangs wait
	$(BIN)/python -m bench.backlog

bench-answers: setup ## measure what `maar why` and `maar when` cost on such a cluster, by themselves and from `maar web`
	$(BIN)/python -m bench.answers

bench-elastic: setup ## measure the plans for 10,000 elastic jobs on 10,000 GPUs, each algorithm
	$(BIN)/python -m bench.elastic

bench-policies: setup ## compare policies on Pollux's workloads: the tables of docs/adaptive-jobs.md; about an hour
	$(BIN)/python -m bench.policies $(WORKLOADS)

bench-lengths: setup ## compare known, learnt and unknown lengths on Pollux's workloads
	$(BIN)/python -m bench.policies $(or $(WORKLOADS),../shared/traces/pollux) lengths

bench-learning: setup ## measure how near learnt speeds come to true ones, with a live Maar on the embedded cluster; bench-learning-node: on a real node
	$(BIN)/python -m bench.learning

bench-learning-node: setup node ## measure the same with real pods on a real node: root, on Debian and Ubuntu; about 25 minutes
	$(BIN)/python -m bench.learning_node

bench-sim: setup ## measure simulations: long traces on counted GPUs, gangs on nodes
	$(BIN)/python -m bench.sim

bench-election: setup ## measure what election brings and costs: the table of docs/reservation.md; some minutes
	$(BIN)/python -m bench.election $(if $(BEFORE),--before $(BEFORE))

bench-forecast: setup ## measure forecasts of start times: coverage, error against a planner, speed
	$(BIN)/python -m bench.forecast

bench-rollouts: setup ## measure how many roll-outs of a full cluster with a long backlog fit in a CPU minute
	$(BIN)/python -m bench.rollouts

bench-cluster: setup real ## measure Maar live on a real API server: throughput, CPU, memory, latency, start
	$(BIN)/python -m bench.cluster

bench-peers: setup real ## compare Maar with kube-scheduler and Volcano on a real API server: a burst, a backlog, an idle cluster; about 12 minutes, and 10 to build
	@$(BIN)/python tools/controlplane/build.py node volcano
	$(BIN)/python -m bench.peers $(ARGS)

bench-shards: setup real ## measure 1, 2 and 3 shards: in simulation on 50,000 nodes, and live on a real API server
	$(BIN)/python -m bench.shards

bench-http: setup real ## measure whether clients of the HTTP server delay binds, on a real API server
	$(BIN)/python -m bench.http

bench-web: setup ## measure the memory and the answers of `maar web` with 5,000 nodes and 50,000 pods
	$(BIN)/python -m bench.web

bench-size: setup ## measure memory and CPU of `maar run` and `maar web` for clusters of 100, 1,000 and 5,000 nodes
	$(BIN)/python -m bench.size

bench-writes: setup real ## measure how late binds are and how much Maar writes while thousands wait; MINUTES=3 for less
	$(BIN)/python -m bench.writes $(if $(MINUTES),--minutes $(MINUTES))

bench-live: setup real ## measure Maar where 5,000 gangs wait and 50 pods end each second: cycles, delay, CPU; MINUTES=3 for less
	$(BIN)/python -m bench.live $(if $(MINUTES),--minutes $(MINUTES))

bench-page: setup browser ## measure the page with 5,000 nodes and 40,000 GPUs: first paint and updates
	$(BIN)/python -m bench.page

profile-decide: setup ## write a flame graph of one decision on a full cluster with a long backlog: build/profile-decide.svg
	@$(BIN)/python -m bench.profile decide $(PROFILE_ARGS)

profile-live: setup ## write a flame graph of `maar run` on a full embedded cluster where gangs come and go: build/profile-live.svg
	@$(BIN)/python -m bench.profile live $(PROFILE_ARGS)

# Pins for every platform and for every Python that pyproject.toml allows; no index, host or path is written.
LOCK := .venv-lock/bin/uv pip compile --quiet --universal --fork-strategy fewest --upgrade --generate-hashes \
	--python-version 3.11 --no-config --no-emit-index-url --no-emit-find-links --custom-compile-command 'make lock'

lock: ## pin the newest versions that pyproject.toml allows, with their hashes
	@$(PYTHON) -m venv .venv-lock
	@.venv-lock/bin/python -m pip --disable-pip-version-check --quiet install uv
	$(LOCK) pyproject.toml --output-file requirements.txt
	$(LOCK) pyproject.toml --group dev --constraints requirements.txt --output-file requirements-dev.txt

clean: ## remove what make has made
	rm -rf $(VENV) .venv-lock .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build dist
	find $(CODE) -name __pycache__ -type d -prune -exec rm -rf {} +
