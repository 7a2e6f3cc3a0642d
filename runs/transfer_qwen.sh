#!/bin/sh
# Qwen2.5-Coder as it is on mathematics and code: completions, verdicts, bits of the references.
#
#   FOCUS_DATA=DIR runs/transfer_qwen.sh [qwen2.5-coder-0.5b | qwen2.5-coder-1.5b] [OUT]
#
# Completions and bits need a GPU; verdicts run on the CPU, those of CruxEval in a sandbox. The cap of
# 1,024 tokens was chosen before anything was generated. Run it again after a kill: it continues.
set -eu
name=${1:-qwen2.5-coder-0.5b}
out=${2:-runs-out/transfer-$name}

focus backbone install "$name"
focus transfer base --backbone "$name" --only-generate --out "$out/text"
focus transfer base --backbone "$name" --allow-code --out "$out/text"
focus transfer base --backbone "$name" --bits --out "$out/bits"
python -m experiments.store_transfer "$out/text" "transfer-$name" --completions
python -m experiments.transfer_bits "$out/bits" "transfer-bits-$name"
