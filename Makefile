# Type `make help`.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUST := Cargo.toml Cargo.lock $(shell find src -name '*.rs')

.DEFAULT_GOAL := help
.PHONY: help install release demo test test-rust test-python test-slow oldest lint format bench fuzz \
	faults asan overflow mutants instructions minimum-rust oldest-rust \
	wheel release-check \
	site papers check clean

# What an incremental build keeps for the next one would cost the first a quarter of its time.
ifeq ($(wildcard target),)
export CARGO_INCREMENTAL = 0
endif

MINUTES ?= 10
SECONDS ?= 30
NUMBER ?= 60
RECORD ?= RUNS.md
RUST_TESTS ?=
WORKERS ?= 3
PYTHON_TESTS ?= tests/python
BASE ?= origin/main
PYTHONS ?= python3.11 python3.14
OLDEST_RUST = $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
HOST = $(shell rustc -vV | sed -n 's/^host: //p')

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | \
		awk -F ':.*## ' '{ printf "  make %-13s %s\n", $$1, $$2 }'

install: $(VENV)/.tools $(VENV)/.built ## Make .venv with the tools, build the library and install it there

release: install ## Install the library as wheels have it, which takes minutes: for measuring
	$(BIN)/maturin develop --release --locked --group demo
	touch $(VENV)/.built

demo: $(VENV)/.built ## Learn, compare and explain on functions of Python's library; writes demo.html
	$(BIN)/python examples/demo.py

test: ## Run the tests, but for those marked slow
	$(MAKE) -j2 test-rust test-python

test-rust: ## Run the Rust tests (no Python involved) and the crate's doctests
	env -u MAKEFLAGS cargo test --locked

test-python: install ## Run the Python tests, doctests and the README
	$(BIN)/python -m pytest -n $(WORKERS) -m 'not slow'

test-slow: install ## Run the tests marked slow, in Rust and in Python
	cargo test --locked --tests -- --ignored
	$(BIN)/python -m pytest -m slow tests/python

# In an environment of its own. mimseq's data are wanted, not what it needs to run.
oldest: ## Run the Python tests with the oldest packages allowed (PYTHON=python3.11)
	$(PYTHON) -m venv target/oldest
	$(PYTHON) .ci/minimums > target/oldest/minimums.txt
	target/oldest/bin/python -m pip install --quiet 'pip>=25.1'
	grep -v '^mimseq' target/oldest/minimums.txt \
		| target/oldest/bin/python -m pip install --quiet --prefer-binary -r /dev/stdin
	target/oldest/bin/python -m pip install --quiet --no-deps \
		-c target/oldest/minimums.txt mimseq
	VIRTUAL_ENV=$(CURDIR)/target/oldest target/oldest/bin/maturin develop --profile quick --locked \
		--group demo
	target/oldest/bin/python -m pytest -n $(WORKERS) -m 'not slow' tests/python

lint: install ## Check style, types, stubs and module borders
	cargo fmt --check
	cargo fmt --check --manifest-path fuzz/Cargo.toml
	cargo clippy --locked --all-targets -- -D warnings
	cargo clippy --locked --features python -- -D warnings
	RUSTDOCFLAGS='-D warnings' cargo doc --locked --no-deps --quiet
	@if grep -rnE '\b(pyo3|numpy)\b' src --include='*.rs' \
		| grep -vE '^src/python/|^src/[a-z_/]*\.rs:[0-9]+://[/!]'; then \
		echo 'only src/python/ may name pyo3 or numpy'; exit 1; fi
	$(BIN)/python .ci/plain-growth
	$(BIN)/ruff check python tests examples fuzz
	$(BIN)/ruff format --check python tests examples fuzz
	$(BIN)/mypy
	$(BIN)/python -m mypy.stubtest treekernel_rs._core

format: $(VENV)/.tools ## Let the formatters have their way
	cargo fmt
	cargo fmt --manifest-path fuzz/Cargo.toml
	$(BIN)/ruff check --fix python tests examples fuzz
	$(BIN)/ruff format python tests examples fuzz

bench: ## Measure the core (criterion; results are kept in benches/RESULTS.md)
	cargo bench --locked

fuzz: install $(VENV)/.atheris ## Fuzz all targets, MINUTES=10 in all; adds a line to fuzz/RUNS.md
	cd fuzz && RECORD=$(RECORD) ./run $(MINUTES)

faults: install ## Take away memory, fork, interrupt, share among threads: SECONDS=30 each suite
	cd tests/python && status=0; for suite in memory forks signals threads serving; do \
		../../$(BIN)/python -m faults.$$suite $(SECONDS) || status=1; \
	done; exit $$status

# Tests leak some of what they make on purpose, and those left out measure time.
asan: ## Run Rust tests under AddressSanitizer: all, or RUST_TESTS='golden:: forest::'
	RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=address ASAN_OPTIONS=detect_leaks=0 \
		cargo test --locked --target $(HOST) --target-dir target/asan --tests -- $(RUST_TESTS) \
		--skip worst_case --skip quadratic --skip million --skip ten_megabytes

# The Rust tests have these checks on always; here the bindings have them too.
overflow: install ## Run Python tests on a fast build with overflow checks: PYTHON_TESTS=...
	CARGO_PROFILE_QUICK_OVERFLOW_CHECKS=true CARGO_PROFILE_QUICK_DEBUG_ASSERTIONS=true \
		$(BIN)/maturin build --profile quick --locked --target-dir target/overflow \
		--out target/overflow/wheel
	$(BIN)/python -m pip install --quiet --no-deps --upgrade --target target/overflow/site \
		target/overflow/wheel/*.whl
	PYTHONPATH=target/overflow/site $(BIN)/python -c 'import treekernel_rs; \
		assert "target/overflow" in treekernel_rs.__file__, treekernel_rs.__file__'
	PYTHONPATH=target/overflow/site $(BIN)/python -m pytest -q $(PYTHON_TESTS)

mutants: $(VENV)/.tools ## Change NUMBER=60 places of src, one at a time: do tests notice? Takes hours
	command -v cargo-mutants > /dev/null || cargo install --locked cargo-mutants
	env -u MAKEFLAGS $(BIN)/python tests/mutants.py --number $(NUMBER) --workers $(WORKERS)

wheel: $(VENV)/.tools ## Build a wheel into dist/
	$(BIN)/maturin build --release --locked --out dist

# Lints of newer Rusts do not know all that the oldest one lacks.
minimum-rust: oldest-rust ## Check the crate with the oldest Rust that it states
	cargo +$(OLDEST_RUST) check --locked --package treekernel_rs --features python \
		--target-dir target/minimum-rust

oldest-rust:
	rustup toolchain install $(OLDEST_RUST) --profile minimal --no-self-update

# Both are built alike. Each needs a target folder of its own: cargo takes two copies of a
# workspace for the same, and does not build the second. Needs valgrind.
instructions: export BASE := $(BASE)
instructions: $(VENV)/.tools ## Stop if a kernel takes over 5 % more instructions than at BASE=origin/main
	rm -rf target/instructions
	mkdir -p target/instructions/base
	git archive "$$BASE" | tar -x -C target/instructions/base
	for build in old:target/instructions/base new:.; do \
		to=target/instructions/$${build%%:*}; \
		$(BIN)/maturin build --profile quick --locked --manifest-path $${build#*:}/Cargo.toml \
			--target-dir $$to-build --out $$to || exit 1; \
		$(BIN)/python -m pip install --quiet --no-deps --target $$to/site $$to/*.whl || exit 1; \
	done
	$(BIN)/python benches/instructions.py --limit 0.05 - \
		target/instructions/new/site target/instructions/old/site

release-check: ## Rehearse a release without publishing: PYTHONS='python3.11 python3.14'
	.ci/release-check $(if $(QUICK),--quick) $(PYTHONS)

site: install ## Build the documentation into docs/_build; any warning is an error
	$(BIN)/python -m pip install --quiet --group docs
	$(BIN)/python -m sphinx -b html -q -E -W --keep-going docs docs/_build

papers: release ## Compute the papers' tables and figures again (docs/PAPERS.md); takes long
	cargo bench --locked --profile quick --bench gram -- papers | tee target/papers.txt
	$(BIN)/python examples/papers/eacl_2006.py --compiled target/papers.txt \
		--plot docs/images/eacl_2006.png
	$(BIN)/python examples/papers/icml_2012.py --plot docs/images/icml_2012.png
	$(BIN)/python examples/dtk_tables.py --plot docs/images/dtk_tables.png
	$(BIN)/python examples/papers/emnlp_2009.py --plot docs/images/emnlp_2009.png
	$(BIN)/python examples/entailment_pairs.py
	$(BIN)/python examples/srl_boundaries.py --out docs/images/aaai_2019.png

check: export PYTEST_ADDOPTS = --hypothesis-profile=check
check: lint test test-slow ## What must pass before a commit: lint and all tests

clean: ## Remove what was built, and .venv
	rm -rf target dist $(VENV)

# What runs the library, the tools of development, and the library itself: the first two are
# installed anew when pyproject.toml changes, the library when the core does.
$(VENV)/.base: pyproject.toml
	$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit( \
		"Python 3.11 or later is needed: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --group demo
	touch $@

$(VENV)/.tools: $(VENV)/.base
	$(BIN)/python -m pip install --quiet --group dev
	touch $@

# Coverage of Python for the fuzzer. It has no wheel for every Python: without it, inputs
# are changed blindly.
$(VENV)/.atheris: $(VENV)/.tools
	$(BIN)/python -m pip install --quiet --only-binary :all: atheris || true
	touch $@

# Without link-time optimisation, which takes most of a build: `make release` has it.
$(VENV)/.built: $(VENV)/.base $(RUST)
	$(BIN)/maturin develop --profile quick --locked --group demo
	touch $@
