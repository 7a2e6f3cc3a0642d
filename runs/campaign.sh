#!/bin/sh
# The methods in the paper's own regime, without a language model: their teachers, all runs, verdicts.
#
#   FOCUS_DATA=DIR runs/campaign.sh [OUT]     # hours on a large GPU
#
# A stack of six Sudoku runs took 20 minutes on an H200; there are 59 runs on Sudoku, three of which
# have rollouts of 128 steps, and 36 on mazes. Run it again after a kill: finished runs are not
# repeated, the one that was cut off goes on. The stored figures of a study in docs/results are
# replaced when all its runs have ended.
set -eu
: "${FOCUS_DATA:?names the folder with sudoku-extreme and maze-hard}"
out=${1:-runs-out/campaign}

campaign() {
    python -m experiments.campaign run "$1" --data "$FOCUS_DATA" --together 6 --out "$out/$1"
    python -m experiments.campaign store "$1" --anew --out "$out/$1"
}

# The FOCUS runs of a primary study are those of the secondary one, too.
with_focus_of() {
    mkdir -p "$out/$2"
    for run in as-is-focus-1 as-is-focus-2 as-is-focus-3; do
        if [ -f "$out/$1/$run/run.json" ] && [ ! -f "$out/$2/$run/run.json" ]; then
            rm -rf "$out/$2/$run" "$out/$2/.copy"
            cp -r "$out/$1/$run" "$out/$2/.copy"
            mv "$out/$2/.copy" "$out/$2/$run"
        fi
    done
    campaign "$2"
}

"$(dirname "$0")/sudoku_teacher.sh" "$out/sudoku-teacher"
campaign primary
campaign primary-unscaled
with_focus_of primary secondary
campaign secondary-untaught
with_focus_of primary-unscaled secondary-unscaled
campaign secondary-long-rollout

# Runs on mazes have no teacher, but for those that tell what one is worth.
campaign primary-maze
with_focus_of primary-maze secondary-maze
"$(dirname "$0")/maze_teacher.sh" "$out/maze-teacher"
campaign secondary-maze-taught
python -m experiments.verdicts
