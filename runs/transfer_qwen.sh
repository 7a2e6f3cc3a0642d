#!/bin/sh
# Qwen2.5-Coder-0.5B as it is on mathematics and code: completions, verdicts, bits of the references.
#
#   FOCUS_DATA=DIR runs/transfer_qwen.sh [OUT]
#
# Completions and bits need a GPU; verdicts run on the CPU, those of CruxEval in a sandbox. The cap of
# 1,024 tokens was chosen before anything was generated. Run it again after a kill: it continues.
set -eu
out=${1:-runs-out/transfer-qwen}
name=qwen2.5-coder-0.5b

focus backbone install $name
focus transfer base --backbone $name --only-generate --out "$out/text"
focus transfer base --backbone $name --allow-code --out "$out/text"
focus transfer base --backbone $name --bits --out "$out/bits"
python -m experiments.store_transfer "$out/text" transfer-$name --completions
python -m experiments.transfer_bits "$out/bits" transfer-bits-$name
