# make run: the main job. make test: what CI runs. Both set everything up themselves.
PYTHON ?= python3
BIN := .venv/bin
# Another index to take torch from, such as https://download.pytorch.org/whl/cpu.
TORCH_INDEX ?=
# Processes of the tests, a file at a time; each has one thread.
WORKERS ?= 2
PYTEST = $(BIN)/pytest -n $(WORKERS) --dist loadfile
# Real data beside the checkout, when it is there; otherwise the built-in generators.
export FOCUS_DATA ?= $(abspath $(wildcard ../shared/data))

.PHONY: install run test-fast test test-all lint bench docs clean

install: .venv/.installed

# torch first and alone: a later package that asks for torch must find this build in place.
.venv/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) torch==2.13.0
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

# Puzzles first, then the released solvers on some that they have not seen, then a training of our own.
run: install
	$(BIN)/focus data prepare --task sudoku --out data-out
	$(BIN)/focus data prepare --task maze --out data-out
	$(BIN)/focus backbone install smollm2-135m
	$(BIN)/focus eval sudoku-smollm2 --data data-out --limit 30 --steps 16,64,128
	$(BIN)/focus solve --task sudoku --example extreme --watch --html runs-out/sudoku.html
	$(BIN)/focus solve --task maze --example hard --watch --html runs-out/maze.html
	$(BIN)/focus train mini-sudoku --out runs-out/mini-sudoku --resume
	$(BIN)/focus eval runs-out/mini-sudoku --steps 1,2,4,8,16 --out runs-out/mini-sudoku/eval
	$(BIN)/focus report runs-out/mini-sudoku --out runs-out/report
	@echo "look at runs-out/report/mini/report.md and, in a browser, at runs-out/sudoku.html and runs-out/maze.html"

# While working: what takes no seconds.
test-fast: install
	$(PYTEST) -m "not slow and not long"

test: install
	$(PYTEST) -m "not long"

test-all: install
	$(PYTEST)

lint: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports --no-cache
	$(BIN)/mypy

bench: install
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[bench]'
	$(BIN)/python -m benchmarks.sudoku_search
	$(BIN)/python -m benchmarks.maze_decoder
	$(BIN)/python -m benchmarks.generators

docs: install
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo "open site/index.html; the search box needs a server: python3 -m http.server -d site"

clean:
	rm -rf .venv data-out runs-out site
