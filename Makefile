# make run: the main job, three minutes. make test: what CI runs. Both set everything up themselves.
PYTHON ?= python3
BIN := .venv/bin
# Another index to take torch from, such as https://download.pytorch.org/whl/cpu.
TORCH_INDEX ?=
# Processes of the tests, a file at a time; each has one thread.
WORKERS ?= 2
PYTEST = $(BIN)/pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder
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

# What a newcomer sees first: needs no language model and no data. The times are those of two idle cores.
SAY = @printf '\n\033[1m%s\033[0m\n'
run: install
	$(SAY) "1 of 6: a solver that comes with the package repairs a hard Sudoku, step by step (10 seconds)"
	$(BIN)/focus solve --task sudoku --example extreme --checkpoint sudoku-none --watch --html runs-out/sudoku.html
	$(SAY) "2 of 6: another one finds the shortest way through a maze (10 seconds)"
	$(BIN)/focus solve --task maze --example hard --checkpoint maze-none --watch --html runs-out/maze.html
	$(SAY) "3 of 6: how many of 30 unseen Sudokus are solved after K = 4, 16 and 64 steps? (20 seconds)"
	$(BIN)/focus eval sudoku-none --limit 30 --steps 4,16,64
	$(SAY) "4 of 6: train a solver of your own for 4x4 Sudokus; a stopped training goes on (90 seconds)"
	$(BIN)/focus train mini-sudoku --out runs-out/mini-sudoku --resume
	$(SAY) "5 of 6: test it on puzzles that it has not seen (5 seconds)"
	$(BIN)/focus eval runs-out/mini-sudoku --steps 1,2,4,8,16 --out runs-out/mini-sudoku/eval
	$(SAY) "6 of 6: tables and figures of that run (10 seconds)"
	$(BIN)/focus report runs-out/mini-sudoku --out runs-out/report
	@printf '\n%s\n' "Done. Look at:" \
	  "  runs-out/sudoku.html, runs-out/maze.html   the repairs, in a browser" \
	  "  runs-out/report/mini/report.md             tables and figures of your training" \
	  "Next: $(BIN)/focus serve to enter puzzles of your own, $(BIN)/focus --help for everything else."

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
