#!/bin/sh
# The checkpoint `sudoku-none`, the control of `sudoku-smollm2`: the same puzzles and updates, but
# without a language model.
#
#   FOCUS_DATA=DIR runs/sudoku_none.sh [OUT]   # after runs/sudoku_smollm2.sh, whose puzzles it uses
set -eu
out=${1:-runs-out/sudoku-none}
puzzles=${PUZZLES:-runs-out/sudoku-smollm2/neighbourhood.csv.gz}
mkdir -p "$out"

focus train sudoku-quick --out "$out/run" --resume \
    --more-data extra "$puzzles" --train-share 0.05 \
    --optimizer.updates 16128 --eval-every 1792 --save-every 1792

python -m experiments.release "$out/run" sudoku-none --steps 16,32,64,128,256 \
    --trained "Trained on train, extra and 150,000 generated puzzles (runs/sudoku_none.sh)."

# Puzzles whose answer breaks the rules, retried under symmetries.
focus eval sudoku-none --steps 64 --symmetry-retries 32 --out "$out/retried"
python -m experiments.symmetry_retries "$out/retried" sudoku-none
