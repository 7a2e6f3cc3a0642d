#!/bin/sh
# The checkpoint `sudoku-trm`: a TRM, the teacher of the paper, on the puzzles of `sudoku-smollm2`.
#
#   FOCUS_DATA=DIR runs/sudoku_trm.sh [OUT]    # after runs/sudoku_smollm2.sh, whose puzzles it uses
set -eu
out=${1:-runs-out/sudoku-trm}
puzzles=${PUZZLES:-runs-out/sudoku-smollm2/neighbourhood.csv.gz}
mkdir -p "$out"

focus train trm-sudoku-quick --out "$out/run" --resume --more-data extra "$puzzles"

python -m experiments.release "$out/run" sudoku-trm --steps 1,4,8,16,32,64,128 --early-stop 256,1024 \
    --trained "Trained on train, extra and 150,000 generated puzzles (runs/sudoku_trm.sh)."
