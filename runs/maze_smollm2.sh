#!/bin/sh
# From nothing to the checkpoint `maze-smollm2`: mazes, training, test, controls.
#
#   FOCUS_DATA=DIR runs/maze_smollm2.sh [OUT]
#
# Mazes are made on the CPU (two minutes on two cores); training needs one large GPU. Run it
# again after a kill: making mazes and training continue.
set -eu
out=${1:-runs-out/maze-smollm2}
mkdir -p "$out"

focus backbone install smollm2-135m
[ -f "$out/mazes.csv.gz" ] || focus data generate --task maze --count 20000 --seed 1 \
    --out "$out/mazes.csv.gz"

# The language model encodes four batches at once, and each encoding serves four updates. A quarter
# of the examples are the 900 training mazes and their symmetries.
focus train maze-quick/smollm2-135m --out "$out/run" --resume \
    --encode-batches 4 --updates-per-encode 4 \
    --optimizer.lora-learning-rate 2e-4 --more-data "$out/mazes.csv.gz" --train-share 0.25 \
    --optimizer.updates 3200

python -m experiments.release "$out/run" maze-smollm2 --steps 8,16,32,64 --control-steps 16 \
    --trained "Trained on train and 20,000 generated mazes (runs/maze_smollm2.sh)."

# The same weights on larger mazes.
"$(dirname "$0")/larger_mazes.sh" maze-smollm2 "$out"
