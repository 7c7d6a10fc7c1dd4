# Every target makes .venv first, if it is not there.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-all lint check release bench clean

demo: .venv/ready       ## build the release, grade the sample class, show the grades
	$(BIN)/autograder build && { $(BIN)/autograder grade cnn_vs_fnn examples/cnn_vs_fnn --out demo || test $$? -eq 1; }

test: .venv/ready .lab/ready    ## all tests, on all cores
	PATH="$$PATH:$(CURDIR)/.lab/bin" $(BIN)/pytest -n auto

test-all: .venv/ready   ## also the rest of the golden bank, through `otter run`, too, and of clusters
	$(BIN)/pytest -n auto -m ""

lint: .venv/ready       ## style and types
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

check: .venv/ready      ## is student/ what text, reference and grading.yml make?
	$(BIN)/autograder build --check

release: .venv/ready    ## build student/ and dist/ of every assignment
	$(BIN)/autograder build

bench: release          ## what grading costs, beside `otter run`; some minutes, leave the machine alone
	$(BIN)/python -m bench

clean:                  ## remove everything that was made, but student/
	rm -rf .venv .lab dist demo

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv && $(BIN)/pip install -q -c constraints.txt -e '.[dev]' && touch $@

# JupyterLab for a test: not beside Otter, whose import it would slow for every submission.
.lab/ready: constraints.txt
	$(PYTHON) -m venv .lab && .lab/bin/pip install -q -c constraints.txt jupyterlab && touch $@
