#!/bin/sh
# Does --text-kl.weight hold the text of a language model? SmolLM2-135M on 4x4 Sudokus, with the term
# and without, and the bits of reference solutions with each adapter.
#
#   FOCUS_DATA=DIR runs/text_held.sh [OUT]
#
# For a CPU: an hour on two cores. Run it again after a kill: it continues.
set -eu
: "${FOCUS_DATA:?names the folder with math and cruxeval}"
out=${1:-runs-out/text-mini-sudoku}

focus backbone install smollm2-135m
python -m experiments.campaign run text-mini-sudoku --data generated --together 1 --out "$out"
python -m experiments.campaign store text-mini-sudoku --out "$out"
variants=base
for run in text-free-focus-1 text-free-focus-2 text-held-focus-1 text-held-focus-2; do
    variants="$variants ${run#text-}=$out/$run/final"
done
focus transfer $variants --bits --benchmarks math,cruxeval-o --limit 30 --out "$out-bits"
python -m experiments.transfer_bits "$out-bits" transfer-bits-text-mini-sudoku
