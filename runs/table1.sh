#!/bin/sh
# The paper's Table 1 with Qwen2.5-Coder: 0.5B on Sudoku and mazes with its controls, 1.5B on Sudoku,
# and the same without a language model.
#
#   FOCUS_DATA=DIR runs/table1.sh [OUT]     # many hours on a large GPU
#
# What decides most comes first. Runs with a language model are trained one after the other: a stack
# of them is hardly faster. Each study is stored in docs/results when its runs have ended. Run it
# again after a kill: finished runs are not repeated, the one that was cut off goes on. Then
# runs/transfer_full.sh and transfer_adapters.sh measure the adapters on mathematics and code.
set -eu
: "${FOCUS_DATA:?names the folder with sudoku-extreme, maze-hard and math}"
out=${1:-runs-out}

campaign() {
    study=$1 together=$2
    shift 2
    python -m experiments.campaign run "$study" --data "$FOCUS_DATA" --together "$together" \
        --out "$out/$study" "$@"
    python -m experiments.campaign store "$study" --out "$out/$study"
}

focus backbone install qwen2.5-coder-0.5b
focus backbone install qwen2.5-coder-1.5b
# Without a language model: one stack of six, and the two that cannot share it.
campaign table1-none 6
campaign table1-none-others 1

# FOCUS with one seed is stored before the other runs are made, and once as long as the paper.
campaign table1-full 1
python -m experiments.reading qwen2.5-coder-0.5b-full "$out/table1-full/as-is-focus-1/final"
python -m experiments.release "$out/table1-full/as-is-focus-1" sudoku-qwen2.5-coder-0.5b --trained \
    "FOCUS in the paper's regime: 50,000 updates of 16 puzzles (707 training puzzles, 100 symmetries of \
each, 50,000 synthetic ones), last weights, 18 minutes of one H200 (runs/table1.sh); tested before they \
were rounded to bf16. R, what the language model says of a puzzle, became nearly the same for every \
puzzle: with R of another puzzle as many are solved, and solvers without a language model are as good. \
The adapter harms text: with it the language model solves 4 % of MATH instead of 10 and next to nothing \
of CruxEval (docs/measured/transfer.md)."
campaign table1 1 --only focus-1
python -m experiments.reading qwen2.5-coder-0.5b-focus "$out/table1/as-is-focus-1/final"
campaign table1 1 --only random-1
campaign table1-others 1
campaign table1-larger 1
campaign table1-controls 1
campaign table1 1

campaign table1-maze-none 2
campaign table1-maze 1

python -m experiments.campaign table table1 table1-full table1-others table1-controls table1-larger \
    table1-none table1-none-others table1-maze table1-maze-none
