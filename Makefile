# Everything sets itself up: `make demo` and `make test` work on a fresh machine with Python 3.11 and make.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/pip install --quiet --constraint constraints.txt

.PHONY: help demo test fuzz fuzz-cases fuzz-readers fuzz-kills browser lint format docs bench clean
.DEFAULT_GOAL := help

help:
	@echo "make demo    set up, then pretrain a small encoder on the built-in images (about two minutes)"
	@echo "make test    set up, then run the tests"
	@echo "make fuzz    hostile input and kills for half an hour (CASES=1000 KILLS=20 for less, SEED=7 for others)"
	@echo "make lint    ruff and mypy"
	@echo "make docs    build the documentation into build/site, and fail on a broken link"
	@echo "make bench   the benchmarks (BENCH=--quick for under a minute each)"

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

# made again whenever the dependencies change
$(VENV)/.ready: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(INSTALL) --editable '.[dev]'
	@touch $@

$(VENV)/.bench-ready: $(VENV)/.ready
	$(INSTALL) --editable '.[bench]'
	@touch $@

demo: $(VENV)/.ready
	$(BIN)/coviews pretrain --out runs/demo --overwrite

# the report's tests drive a true browser; where there is none and none can be installed, they are skipped
browser:
	@if command -v chromedriver >/dev/null; then exit 0; fi; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "installing Chromium and its driver for the report's tests"; \
		timeout 120 apt-get -qq update >/dev/null 2>&1; \
		timeout 300 apt-get -qq install -y --no-install-recommends chromium chromium-driver >/dev/null 2>&1 && exit 0; \
	fi; \
	echo "no Chromium: the report's tests in a browser are skipped (apt-get install chromium chromium-driver)"

# two processes with one thread each: torch's threads stall where they have to share their cores
test: $(VENV)/.ready browser
	@$(BIN)/python -c "import numpy, coviews; from coviews.ops.engine import _kernels; _kernels(coviews.space('all'), numpy.dtype('uint8'))"
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile $(TEST)

# what failed is said with the command that repeats it; make -k fuzz goes on to the kills all the same
CASES := 10000
KILLS := 150
SEED := 0
fuzz: fuzz-cases fuzz-readers fuzz-kills

fuzz-cases: $(VENV)/.ready
	$(BIN)/python tests/fuzz --cases $(CASES) --seed $(SEED) $(FUZZ)

fuzz-readers: $(VENV)/.ready
	FUZZ_EXAMPLES=1000 $(BIN)/python -m pytest tests/fuzz/test_readers.py

fuzz-kills: $(VENV)/.ready
	OMP_NUM_THREADS=1 $(BIN)/python tests/killed_runs.py all --kills $(KILLS) --seed $(SEED)

lint: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.ready
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(VENV)/.ready
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "open build/site/index.html"

bench: $(VENV)/.bench-ready
	$(BIN)/python benchmarks/engine.py $(BENCH)
	$(BIN)/python benchmarks/search.py $(BENCH)
	$(BIN)/python benchmarks/train.py $(BENCH)
	$(BIN)/python benchmarks/evaluate.py $(BENCH)

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache
