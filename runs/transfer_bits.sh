#!/bin/sh
# Bits of the reference texts: SmolLM2-135M as it is, with the adapters of the releases and with
# random adapters. After runs/maze_smollm2.sh, whose release is not in the repository.
#
#   FOCUS_DATA=DIR runs/transfer_bits.sh [OUT]
#
# For a CPU: a quarter of an hour on one core. Run it again after a kill: it continues.
set -eu
out=${1:-runs-out/transfer-bits}
variants="base sudoku-smollm2 maze-smollm2 null:sudoku-smollm2 null:maze-smollm2"

focus backbone install smollm2-135m
focus transfer $variants --null-seeds 3 --bits --benchmarks math,cruxeval-o --limit 30 --out "$out"
python -m experiments.transfer_bits "$out" transfer-bits-smollm2-135m
