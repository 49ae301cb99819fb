# What a person types: make run, make test. Needs Python 3.11 or newer and make, nothing else.

# The interpreter for .venv; empty: the first of python3, python3.14 … python3.11 that is new enough.
PYTHON ?=
# `make test-models` needs torch. For its small CPU build on Linux set TORCH_INDEX to the address of PyTorch's index of
# CPU builds.
TORCH_VERSION ?= 2.13.0
TORCH_INDEX ?=
# Another Claude configuration folder (it holds projects/); empty: CLAUDE_CONFIG_DIR or ~/.claude.
PROJECTS ?=
# Processes that run the tests: twice the processors of a small machine, since many tests wait for processes.
WORKERS ?= 4
# Temporary files of the tests lie in memory where Linux has 4 GB of room there and can run programs from it: a quarter
# less time than on a disk. `make test TMPDIR=/tmp` keeps them on the disk.
IN_MEMORY = $(shell folder=/dev/shm; grep -s " $$folder tmpfs " /proc/mounts | grep -qv noexec && [ -w $$folder ] && \
  [ "$$(df -Pm $$folder | awk 'END { print $$4 }')" -ge 4096 ] && echo $$folder)
# More arguments: for `engram up`, for pytest, or for `python -m bench`.
ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
CANDIDATES := $(if $(PYTHON),"$(PYTHON)",python3 python3.14 python3.13 python3.12 python3.11 python)
NEW_ENOUGH := import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))
SAMPLES := .engram-sample

.DEFAULT_GOAL := help
.PHONY: help run test browser browser-setup test-models lint soak bench bench-qa bench-rivals docs demo clean

help:
	@echo "make run                  read your Claude Code sessions and keep reading (Ctrl-C stops)"
	@echo "make run ARGS=--once      read, extract, embed and index everything, then stop"
	@echo "make run PROJECTS=DIR     read another Claude configuration folder"
	@echo "make test                 ruff, mypy and the tests"
	@echo "make browser              the tests of the page in a real browser"
	@echo "make browser-setup        installs the browser for them (apt-get; asks for your password)"
	@echo "make test-models          the embedding tests that need sentence-transformers (installs torch)"
	@echo "make soak                 the long fault tests"
	@echo "make bench ARGS=…         the benchmarks"
	@echo "make bench-qa ARGS=…      what readers answer from what Engram gives (docs/benchmarks.md)"
	@echo "make bench-rivals ARGS=…  other memory programs on the same work (benchmarks/rivals/README.md)"
	@echo "make docs                 the reference pages and service files, from the program"
	@echo "make demo                 the picture in the README, from a run of the program"
	@echo "make clean                remove .venv and everything built; your memory folder stays"
	@echo "PYTHON=… names the interpreter; TORCH_INDEX=… an index with CPU builds of torch (test-models)"

# `exec`: a signal that ends make must reach `engram up`, not only the shell around it.
run: $(VENV)/.installed
	@if [ -n "$(PROJECTS)" ]; then \
	  folder=$$(cd "$(PROJECTS)" 2>/dev/null && pwd) || { echo "PROJECTS=$(PROJECTS): there is no such folder" >&2; exit 1; }; \
	  CLAUDE_CONFIG_DIR="$$folder" exec $(BIN)/engram up $(ARGS); \
	else \
	  exec $(BIN)/engram up --samples-in "$(SAMPLES)" $(ARGS); \
	fi

# Only where CI=true does this install the browser; elsewhere the tests that need one are skipped.
test: $(VENV)/.dev lint $(if $(filter true,$(CI)),browser-setup)
	TMPDIR="$${TMPDIR:-$(IN_MEMORY)}" $(BIN)/python -m pytest -m "not soak" -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(ARGS)

browser: $(VENV)/.dev
	$(BIN)/python -m pytest -m browser tests/page $(ARGS)

# The engine of Debian's Chromium, which updates with the system; on macOS the tests use Chrome.
browser-setup: $(VENV)/.browser
	@if [ "$$(uname)" = Linux ] && ! command -v chromium-headless-shell >/dev/null && ! command -v google-chrome >/dev/null; then \
	  sudo=$$([ "$$(id -u)" = 0 ] || echo sudo); \
	  $$sudo apt-get update -q && $$sudo apt-get install -y -q --no-install-recommends chromium-headless-shell fonts-dejavu-core; \
	fi

# Apart from `make test`: installing torch takes longer than these tests, and without it `make test` proves that the
# default installation needs none.
test-models: $(VENV)/.reference
	$(BIN)/python -m pytest -m reference tests/embedding $(ARGS)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

soak: $(VENV)/.dev
	$(BIN)/python -m pytest -m soak $(ARGS)

bench-qa: $(VENV)/.dev
	PYTHONPATH=benchmarks $(BIN)/python -m bench qa $(ARGS)

# The programs are given as they are installed; without ARGS this prints the figures of the last run.
bench-rivals: $(VENV)/.dev
	$(if $(ARGS),$(BIN)/python benchmarks/rivals/run.py $(ARGS))
	$(BIN)/python benchmarks/rivals/tables.py

bench: $(VENV)/.dev
	PYTHONPATH=benchmarks $(BIN)/python -m bench $(or $(ARGS),speed)

docs: $(VENV)/.installed
	$(BIN)/python docs/make_reference.py docs/reference .

demo: $(VENV)/.installed
	$(BIN)/python docs/demo/make_demo.py docs/demo/demo.svg

clean:
	rm -rf $(VENV) $(SAMPLES) .engram-bench dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@found=""; \
	for one in $(CANDIDATES); do \
	  if "$$one" -c '$(NEW_ENOUGH)' >/dev/null 2>&1; then found="$$one"; break; fi; \
	done; \
	if [ -z "$$found" ]; then \
	  echo "Engram needs Python 3.11 or newer with its venv module (on Debian and Ubuntu: python3-venv)." >&2; \
	  echo "Looked for: $(if $(PYTHON),$(PYTHON),$(CANDIDATES)). Name another one: make $(or $(MAKECMDGOALS),run) PYTHON=/path/to/python3" >&2; \
	  exit 1; \
	fi; \
	echo "Making $(VENV) with $$found"; \
	"$$found" -m venv $(VENV)

# The stamps make the second run instant; they are older than pyproject.toml when dependencies changed. Python compiles
# what it imports; compiling all packages would take longer than the rest.
$(VENV)/.installed: pyproject.toml hatch_build.py | $(BIN)/python
	@echo "Installing Engram and its packages into $(VENV): about 320 MB; this can take a minute or two"
	@$(BIN)/python -m pip install --disable-pip-version-check --quiet --no-compile -e .
	@touch $@

# pip reads dependency groups from 25.1 on.
$(VENV)/.dev: $(VENV)/.installed
	@echo "Installing what the tests need into $(VENV): this can take a minute"
	@$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	@$(BIN)/python -m pip install --quiet --group dev
	@touch $@

$(VENV)/.browser: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --group browser
	@touch $@

$(VENV)/.reference: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet $(if $(TORCH_INDEX),--extra-index-url "$(TORCH_INDEX)") "torch==$(TORCH_VERSION)"
	$(BIN)/python -m pip install --quiet --group reference
	@touch $@
