#!/bin/sh
# The transfer table: SmolLM2-135M as it is, with the adapters of the releases, and with random
# adapters. After runs/maze_smollm2.sh, whose release is not in the repository.
#
#   FOCUS_DATA=DIR runs/transfer.sh [OUT]
#
# Completions need a GPU; verdicts run on the CPU, those of CruxEval in a sandbox. The cap of 512
# tokens was chosen before anything was generated. Run it again after a kill: it continues.
set -eu
out=${1:-runs-out/transfer}
variants="base sudoku-smollm2 maze-smollm2 null:sudoku-smollm2 null:maze-smollm2"

focus backbone install smollm2-135m
focus transfer $variants --null-seeds 3 --max-tokens 512 --only-generate --out "$out"
focus transfer $variants --null-seeds 3 --max-tokens 512 --allow-code --out "$out"
python -m experiments.store_transfer "$out" transfer-smollm2-135m
