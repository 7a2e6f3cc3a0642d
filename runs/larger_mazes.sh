#!/bin/sh
# A maze checkpoint on mazes larger than those it was trained on, 100 of each side.
#
#   runs/larger_mazes.sh CHECKPOINT [OUT]
set -eu
out=${2:-runs-out/larger-mazes}
mkdir -p "$out"
for side in 40 60; do
    [ -f "$out/mazes$side.csv.gz" ] || focus data generate --task maze --side $side --count 100 \
        --seed 7 --out "$out/mazes$side.csv.gz"
done
python -m experiments.larger_mazes "$1" "$out/mazes40.csv.gz" "$out/mazes60.csv.gz"
