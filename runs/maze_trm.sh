#!/bin/sh
# The checkpoint `maze-trm`: a TRM with neighbour heads that learns parents and distances beside the
# path; and, for comparison, one with the published heads and targets.
#
#   FOCUS_DATA=DIR runs/maze_trm.sh [OUT]
#
# Mazes are made on the CPU (two minutes on two cores); training needs one large GPU, five minutes
# for each.
set -eu
out=${1:-runs-out/maze-trm}
mkdir -p "$out"
[ -f "$out/mazes.csv.gz" ] || focus data generate --task maze --count 20000 --seed 1 \
    --out "$out/mazes.csv.gz"

focus train trm-maze-quick --out "$out/run" --resume --more-data "$out/mazes.csv.gz"
focus train trm-maze-quick --out "$out/plain" --resume --more-data "$out/mazes.csv.gz" \
    --solver.trm.neighbour-heads 0 --solver.trm.targets answer --task.decoder threshold

trained="Trained on train and 20,000 generated mazes (runs/maze_trm.sh)."
steps=1,4,8,16,32,64
python -m experiments.release "$out/run" maze-trm --steps $steps --trained "$trained"
python -m experiments.release "$out/plain" maze-trm-plain --steps $steps --trained "$trained" \
    --results-only

# The release on larger mazes.
"$(dirname "$0")/larger_mazes.sh" maze-trm "$out"
