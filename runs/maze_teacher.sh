#!/bin/sh
# The checkpoint `maze-teacher`: a TRM on exactly the 900 mazes of the recipe `maze`, to teach it.
#
#   FOCUS_DATA=DIR runs/maze_teacher.sh [OUT]    # some five minutes on an H200
set -eu
out=${1:-runs-out/maze-teacher}

focus train trm-maze-quick --out "$out/run" --resume

python -m experiments.release "$out/run" maze-teacher --steps 1,4,16 --shared \
    --trained "Trained on the 900 mazes of the recipe maze (runs/maze_teacher.sh)."
