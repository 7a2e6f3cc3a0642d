#!/bin/sh
# A TRM from the 1,000 training puzzles of Sudoku-Extreme alone, under symmetries and with hints.
#
#   FOCUS_DATA=DIR runs/sudoku_trm_1k.sh [OUT]
set -eu
out=${1:-runs-out/sudoku-trm-1k}
mkdir -p "$out"

focus train trm-sudoku-quick --out "$out/run" --resume --more-data --hints 4

python -m experiments.release "$out/run" sudoku-trm-1k --steps 1,4,8,16,32,64,128 \
    --early-stop 256,1024 \
    --trained "Trained on the 1,000 training puzzles alone (runs/sudoku_trm_1k.sh)."
