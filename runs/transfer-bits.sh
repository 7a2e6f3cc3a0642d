#!/bin/sh
# Bits of the reference texts: SmolLM2-135M as it is, with the adapters of the releases and with
# random adapters, and Qwen2.5-Coder-0.5B as it is.
#
#   FOCUS_DATA=DIR runs/transfer-bits.sh [OUT]
#
# For a CPU: a quarter of an hour on one core. Run it again after a kill: it continues.
set -eu
out=${1:-runs-out/transfer-bits}
variants="base sudoku-smollm2 maze-smollm2 null:sudoku-smollm2 null:maze-smollm2"

focus backbone install smollm2-135m
focus backbone install qwen2.5-coder-0.5b
focus transfer $variants --null-seeds 3 --bits --benchmarks math,cruxeval-o --limit 30 --out "$out/smollm2"
focus transfer base --backbone qwen2.5-coder-0.5b --bits --benchmarks math,cruxeval-o --limit 20 --out "$out/qwen"
python -m experiments.transfer_bits transfer-bits-smollm2 "$out/smollm2" "$out/qwen"
