#!/bin/sh
# A solver that more steps hurt, and one that they do not: docs/tutorials/train.md shows them.
#
#   runs/diagnose_collapse.sh [OUT]    # ten minutes on one core
#
# The figure docs/figures/collapse.svg is rollout.svg of the first; both diagnosis.json are kept as
# docs/results/diagnosis-mini-sudoku-logits.json and diagnosis-mini-sudoku.json.
set -eu
out=${1:-runs-out/diagnosis}

for features in logits log-probabilities; do
    focus train mini-sudoku --task.answer-features $features --out "$out/$features" --resume
    focus diagnose "$out/$features" --split test --out "$out/$features/diagnosis"
done
