#!/bin/sh
# Without a language model, from the 1,000 training puzzles of Sudoku-Extreme alone.
#
#   FOCUS_DATA=DIR runs/sudoku_none_1000.sh [OUT]
set -eu
out=${1:-runs-out/sudoku-none-1000}
mkdir -p "$out"

focus train sudoku-quick --out "$out/run" --resume --more-data \
    --optimizer.updates 6000 --eval-every 1500 --save-every 1500

python -m experiments.release "$out/run" sudoku-none-1000 --results-only --steps 16,32,64,128,256 \
    --trained "Trained on the 1,000 training puzzles alone (runs/sudoku_none_1000.sh)."
