#!/bin/sh
# The methods in the paper's own regime, without a language model: their teachers, all runs, verdicts.
#
#   FOCUS_DATA=DIR runs/campaign.sh [OUT]     # hours on a large GPU
#
# A stack of six Sudoku runs took 20 minutes on an H200; there are 62 runs on Sudoku and 12 on mazes.
# Run it again after a kill: finished runs are not repeated, the one that was cut off goes on. The
# stored figures of a study in docs/results are replaced when all its runs have ended.
set -eu
: "${FOCUS_DATA:?names the folder with sudoku-extreme and maze-hard}"
out=${1:-runs-out/campaign}

"$(dirname "$0")/sudoku_teacher.sh" "$out/sudoku-teacher"
"$(dirname "$0")/maze_teacher.sh" "$out/maze-teacher"
for study in primary primary-unscaled secondary secondary-untaught secondary-unscaled primary-maze; do
    python -m experiments.campaign run "$study" --data "$FOCUS_DATA" --together 6 --out "$out/$study"
    python -m experiments.campaign store "$study" --anew --out "$out/$study"
done
python -m experiments.verdicts
