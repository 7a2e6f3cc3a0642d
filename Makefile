# make run: the main job. make test: what CI runs. Both set everything up themselves.
PYTHON ?= python3
BIN := .venv/bin
# Real data beside the checkout, when it is there; otherwise the built-in generators.
export FOCUS_DATA ?= $(abspath $(wildcard ../shared/data))

.PHONY: install run test test-all lint bench clean

install: .venv/.installed

# torch first and alone: a later package that asks for torch must find this build in place.
.venv/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check torch==2.13.0
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

run: install
	$(BIN)/focus data prepare --task sudoku --out data-out
	$(BIN)/focus data prepare --task maze --out data-out
	$(BIN)/focus data show --task sudoku --data data-out --row 1
	$(BIN)/focus data show --task maze --data data-out --row 1
	$(BIN)/focus train mini-sudoku --out runs-out/mini-sudoku --resume
	$(BIN)/focus eval runs-out/mini-sudoku --steps 1,2,4,8,16 --out runs-out/mini-sudoku/eval
	$(BIN)/focus solve 1...34....21...3 --checkpoint runs-out/mini-sudoku --watch --html runs-out/repair.html
	$(BIN)/focus report runs-out/mini-sudoku --out runs-out/report
	@echo "look at runs-out/report/mini/report.md and, in a browser, at runs-out/repair.html"

test: install
	$(BIN)/pytest -m "not long"

test-all: install
	$(BIN)/pytest

lint: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: install
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[bench]'
	$(BIN)/python -m benchmarks.sudoku_search
	$(BIN)/python -m benchmarks.maze_decoder
	$(BIN)/python -m benchmarks.generators

clean:
	rm -rf .venv data-out runs-out
