#!/bin/sh
# From nothing to the checkpoint `maze-none`, the control of `maze-smollm2`: the same updater, mazes
# and number of updates, without a language model.
#
#   FOCUS_DATA=DIR runs/maze_none.sh [OUT]
#
# Mazes are made on the CPU (two minutes on two cores); training needs one large GPU. Run it
# again after a kill: making mazes and training continue.
set -eu
out=${1:-runs-out/maze-none}
mkdir -p "$out"
[ -f "$out/mazes.csv.gz" ] || focus data generate --task maze --count 20000 --seed 1 \
    --out "$out/mazes.csv.gz"

focus train maze-quick --out "$out/run" --resume \
    --more-data "$out/mazes.csv.gz" --train-share 0.25 \
    --optimizer.updates 3200
python -m experiments.release "$out/run" maze-none --steps 8,16,32,64 \
    --trained "Trained on train and 20,000 generated mazes (runs/maze_none.sh)."

# Another seed, of which only the figures are stored.
focus train maze-quick --out "$out/seed1" --resume \
    --more-data "$out/mazes.csv.gz" --train-share 0.25 \
    --optimizer.updates 3200 --seed 1
python -m experiments.release "$out/seed1" maze-none-seed1 --steps 8,16,32,64 --results-only \
    --trained "Seed 1 (runs/maze_none.sh)."

# The release on larger mazes.
"$(dirname "$0")/larger_mazes.sh" maze-none "$out"
