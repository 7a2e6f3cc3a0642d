#!/bin/sh
# A TRM from the 1,000 training puzzles of Sudoku-Extreme alone, under symmetries and with hints.
#
#   FOCUS_DATA=DIR runs/sudoku_trm_1k.sh [OUT [HINTS [UPDATES]]]    # a quarter of an hour on an H200
#
# HINTS is how many blank cells may be revealed at most (1 unless given). With 12,000 UPDATES, which
# take a third of the time, numbers of hints can be compared on complete schedules, on validation
# puzzles: nothing is tested or released then.
set -eu
out=${1:-runs-out/sudoku-trm-1k}
hints=${2:-1}
updates=${3:-38000}
mkdir -p "$out"

# Decay and rate as in the published schedule, for as long: their product adds up to 5.8 there. It
# does not end early, since the last and deepest part begins at 60 % of the run.
focus train trm-sudoku-quick --out "$out/run" --resume --more-data --hints "$hints" \
    --optimizer.updates "$updates" --optimizer.learning-rate 3e-4 \
    --optimizer.weight-decay 1.0 --patience 0

[ "$updates" = 38000 ] || exit 0
python -m experiments.release "$out/run" sudoku-trm-1k --steps 1,4,8,16,32,64,128 \
    --early-stop 256,1024 \
    --trained "Trained on the 1,000 training puzzles alone, with $hints hints at most (runs/sudoku_trm_1k.sh)."
