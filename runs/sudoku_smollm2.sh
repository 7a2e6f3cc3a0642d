#!/bin/sh
# From nothing to the checkpoint `sudoku-smollm2`: puzzles, training, test, controls.
#
#   FOCUS_DATA=DIR runs/sudoku_smollm2.sh [OUT]
#
# Puzzles are made on the CPU (an hour on two cores); training needs one large GPU. Run it
# again after a kill: making puzzles and training continue.
set -eu
out=${1:-runs-out/sudoku-smollm2}
mkdir -p "$out"

focus backbone install smollm2-135m
[ -f "$out/neighbourhood.csv.gz" ] || focus data generate --task sudoku --mode neighbourhood \
    --grow-from extra --count 150000 --seed 1 \
    --out "$out/neighbourhood.csv.gz"

# The language model encodes four batches at once, and each encoding serves four updates. Only 5 %
# of the examples are the 1,000 training puzzles: with more the model memorises them.
focus train sudoku-quick/smollm2-135m --out "$out/run" --resume \
    --encode-batches 4 --updates-per-encode 4 \
    --optimizer.lora-learning-rate 2e-4 \
    --more-data extra "$out/neighbourhood.csv.gz" --train-share 0.05 \
    --optimizer.updates 16128 --eval-every 1792 --save-every 1792

python -m experiments.release "$out/run" sudoku-smollm2 --steps 16,32,64,128,256 \
    --control-steps 128 \
    --trained "Trained on train, extra and 150,000 generated puzzles (runs/sudoku_smollm2.sh)."
