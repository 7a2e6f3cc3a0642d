#!/bin/sh
# The checkpoint `sudoku-teacher`: a TRM on exactly the puzzles of the recipe `sudoku`, to teach it.
#
#   FOCUS_DATA=DIR runs/sudoku_teacher.sh [OUT]    # some seven minutes on an H200
#
# The published sizes; small batches and depth that grows, as in `trm-sudoku-quick`.
set -eu
out=${1:-runs-out/sudoku-teacher}

focus train trm-sudoku --out "$out/run" --resume \
    --optimizer.updates 12000 --optimizer.batch 256 --optimizer.learning-rate 4e-4 \
    --optimizer.warmup 1000 --optimizer.weight-decay 0.6 \
    --deep-supervision.depths 0.3 1 2 0.6 2 4 \
    --eval-every 3000 --save-every 3000 --log-every 100

python -m experiments.release "$out/run" sudoku-teacher --steps 1,4,16 --shared \
    --trained "Trained on the puzzles of the recipe sudoku: 707 of train under 100 symmetries, 50,000 generated from them (runs/sudoku_teacher.sh)."
