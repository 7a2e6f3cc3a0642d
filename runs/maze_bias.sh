#!/bin/sh
# The paper-sized updater on mazes, without a language model and without message passing, trained
# with FOCUS.
#
#   FOCUS_DATA=DIR runs/maze_bias.sh [OUT]
#
# Mazes are made on the CPU (two minutes on two cores); training needs one large GPU, for three
# minutes. Run it again after a kill: both continue.
set -eu
out=${1:-runs-out/maze-bias}
mkdir -p "$out"
[ -f "$out/mazes.csv.gz" ] || focus data generate --task maze --count 20000 --seed 1 \
    --out "$out/mazes.csv.gz"

focus train maze-quick --out "$out/run" --resume \
    --more-data "$out/mazes.csv.gz" --train-share 0.25 \
    --solver.updater.structure bias --solver.updater.hops 0 \
    --solver.updater.bptt-gradient-scale 0.8 \
    --optimizer.kind muon --optimizer.learning-rate 2e-3 --optimizer.updates 3200 \
    --eval-every 400 --save-every 400
python -m experiments.release "$out/run" maze-bias --steps 8,16,32,64 --results-only \
    --trained "Trained on train and 20,000 generated mazes (runs/maze_bias.sh)."
