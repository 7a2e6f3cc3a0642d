#!/bin/sh
# What the adapter of FOCUS with Qwen2.5-Coder-0.5B does to mathematics and code, at the paper's length.
#
#   FOCUS_DATA=DIR runs/transfer_full.sh [RUNS] [OUT]
#
# RUNS holds the study table1-full of experiments.campaign (runs/table1.sh); its last weights are measured,
# beside the language model as it is and, for the bits, two random adapters of their norms. Completions
# and bits need a GPU; verdicts run on the CPU. Run it again after a kill: it continues.
set -eu
runs=${1:-runs-out}
name=qwen2.5-coder-0.5b
out=${2:-runs-out/transfer-$name-full}
adapter=focus-full=$runs/table1-full/as-is-focus-1/final
benchmarks=math,math-hard,cruxeval-o,cruxeval-i

focus backbone install "$name"
focus transfer base "$adapter" --benchmarks "$benchmarks" --only-generate --out "$out/text"
focus transfer base "$adapter" --benchmarks "$benchmarks" --allow-code --out "$out/text"
focus transfer base "$adapter" null --null-seeds 2 --benchmarks "$benchmarks" --bits --out "$out/bits"
python -m experiments.store_transfer "$out/text" "transfer-$name-full" --completions
python -m experiments.transfer_bits "$out/bits" "transfer-bits-$name-full"
