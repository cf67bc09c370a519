# Type `make help`.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUST := Cargo.toml Cargo.lock $(shell find src -name '*.rs')

.DEFAULT_GOAL := help
.PHONY: help install demo test test-rust test-python lint format bench wheel check clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | \
		awk -F ':.*## ' '{ printf "  make %-12s %s\n", $$1, $$2 }'

install: $(VENV)/.built ## Make .venv, build the library and install it there

demo: install ## Learn, compare and explain on functions of Python's library; writes demo.html
	$(BIN)/python examples/demo.py

test: test-rust test-python ## Run all tests

test-rust: ## Run the Rust tests (no Python involved) and the crate's doctests
	cargo test --locked

test-python: install ## Run the Python tests, doctests and the README
	$(BIN)/python -m pytest

lint: $(VENV)/.built ## Check style, types, stubs and module borders
	cargo fmt --check
	cargo clippy --locked --all-targets -- -D warnings
	cargo clippy --locked --features python -- -D warnings
	@if grep -rnE '\b(pyo3|numpy)\b' src --include='*.rs' \
		| grep -vE '^src/python/|^src/[a-z_/]*\.rs:[0-9]+://[/!]'; then \
		echo 'only src/python/ may name pyo3 or numpy'; exit 1; fi
	$(BIN)/ruff check python tests/python examples
	$(BIN)/ruff format --check python tests/python examples
	$(BIN)/mypy
	$(BIN)/python -m mypy.stubtest treekernel_rs._core

format: $(VENV)/.built ## Let the formatters have their way
	cargo fmt
	$(BIN)/ruff check --fix python tests/python examples
	$(BIN)/ruff format python tests/python examples

bench: ## Measure the core (criterion; results are kept in benches/RESULTS.md)
	cargo bench --locked

wheel: $(VENV)/.tools ## Build a wheel into dist/
	$(BIN)/maturin build --release --locked --out dist

check: lint test ## What must pass before a commit: lint and all tests

clean: ## Remove what was built, and .venv
	rm -rf target dist $(VENV)

# The tools are installed anew when pyproject.toml changes, the library when the core does.
$(VENV)/.tools: pyproject.toml
	$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit( \
		"Python 3.11 or later is needed: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --group dev
	touch $@

$(VENV)/.built: $(VENV)/.tools $(RUST)
	$(BIN)/maturin develop --release --locked
	touch $@
