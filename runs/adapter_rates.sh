#!/bin/sh
# Does a puzzle adapter have to cost its text? FOCUS on Sudoku with Qwen2.5-Coder-0.5B at five rates
# of the adapter, and at the paper's with a term that holds the text; then each on mathematics and
# code.
#
#   FOCUS_DATA=DIR runs/adapter_rates.sh [OUT]     # hours on a large GPU
#
# Completions and bits need a GPU; verdicts run on the CPU, those of CruxEval in a sandbox. The cap of
# 1,024 tokens is that of runs/transfer_qwen.sh. Run it again after a kill: it continues.
set -eu
: "${FOCUS_DATA:?names the folder with sudoku-extreme, math and cruxeval}"
out=${1:-runs-out/adapter-rates}
name=adapter-rates backbone=qwen2.5-coder-0.5b

focus backbone install $backbone
python -m experiments.campaign run $name --data "$FOCUS_DATA" --together 1 --out "$out/runs"
python -m experiments.campaign store $name --out "$out/runs"

# The last checkpoints, which the campaign has tested, under the names of their choices.
set -- base
for choice in adapter-rate-2e-06 adapter-rate-1e-05 adapter-rate-2e-05 adapter-rate-0.0001 \
    adapter-rate-0.0002 adapter-rate-1e-05-text-kl-0.1 adapter-rate-1e-05-text-kl-1; do
    set -- "$@" "$choice=$out/runs/$choice-focus-1/final"
done
focus transfer "$@" --backbone $backbone --bits --benchmarks math,cruxeval-o --out "$out/bits"
python -m experiments.transfer_bits "$out/bits" transfer-bits-$name
focus transfer "$@" --backbone $backbone --benchmarks cruxeval-o,cruxeval-i --only-generate \
    --out "$out/text"
focus transfer "$@" --backbone $backbone --benchmarks cruxeval-o,cruxeval-i --allow-code \
    --out "$out/text"
python -m experiments.store_transfer "$out/text" transfer-$name
python -m experiments.results_page
