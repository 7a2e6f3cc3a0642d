#!/bin/sh
# The methods on mazes, each table at one short budget: without a language model, with SmolLM2,
# on a TRM, with a teacher.
#
#   FOCUS_DATA=DIR runs/maze_methods.sh [OUT]
#
# Mazes are made on the CPU (two minutes on two cores). Each of the 79 runs takes about a minute on
# one large GPU, those with SmolLM2 longer, the 12 of the mini TRM less. When it is run again,
# finished and stored runs are not repeated; one that was cut off begins again.
set -eu
: "${FOCUS_DATA:?names the folder with maze-hard}"
out=${1:-runs-out/maze-methods}
mkdir -p "$out"
[ -f "$out/mazes.csv.gz" ] || focus data generate --task maze --count 20000 --seed 1 \
    --out "$out/mazes.csv.gz"
focus backbone install smollm2-135m

compare() {
    name=$1
    shift
    python -m experiments.methods --out "$out/$name" "$@"
    python -m experiments.methods --out "$out/$name" "$@" --store
}
compare plain --recipe maze-quick --updates 1000
compare smollm2 --recipe maze-quick/smollm2-135m --updates 1008 --seeds 1 \
    --encode-batches 4 --updates-per-encode 4 \
    --methods focus random energy-hard recurrent one-step direct base
compare trm-mini --recipe trm-mini-maze --updates 1000
compare trm --recipe trm-maze-quick --updates 1000 --most-steps 16 \
    --more-data "$out/mazes.csv.gz"
# The teacher is made by runs/maze_trm.sh; the stored table had the maze-trm that was in releases/ up to
# commit 71e014d, and takes no runs with another: store those under a name of their own.
compare teacher --recipe maze-quick --updates 1000 --teacher maze-trm
