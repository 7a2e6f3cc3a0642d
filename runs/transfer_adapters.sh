#!/bin/sh
# Do puzzle adapters of Qwen2.5-Coder-0.5B help on mathematics and code? As it is, with the adapters of
# FOCUS (three seeds), Direct SFT and Recurrent, and with random adapters of the norms of each.
#
#   FOCUS_DATA=DIR runs/transfer_adapters.sh [RUNS] [OUT] [NULLS]
#
# RUNS holds the studies of experiments.campaign: RUNS/table1 and RUNS/table1-others. Their last weights
# are measured (final/), as in the tables of the campaign; the folder of a run would mean its best/.
# Completions and bits need a GPU (the completions of base took 3 minutes on an H200); verdicts run on the
# CPU. NULLS is the number of random adapters for each adapter, 1 by default, which makes 11 variants and
# judges FOCUS, by its seeds; Direct SFT and Recurrent need three. Called again with 3 it adds the others.
# OUT is that of runs/transfer_qwen.sh by default, so that base is not measured twice. Run it again after
# a kill: it continues.
set -eu
runs=${1:-runs-out}
name=qwen2.5-coder-0.5b
out=${2:-runs-out/transfer-$name}
nulls=${3:-1}

set -- base
for seed in 1 2 3; do
    set -- "$@" "focus-$seed=$runs/table1/as-is-focus-$seed/final"
done
for method in direct recurrent; do
    set -- "$@" "$method=$runs/table1-others/as-is-$method-1/final"
done
set -- "$@" null --null-seeds "$nulls" --backbone "$name"

focus backbone install "$name"
focus transfer "$@" --bits --out "$out/bits"
focus transfer "$@" --only-generate --out "$out/text"
focus transfer "$@" --allow-code --out "$out/text"
python -m experiments.store_transfer "$out/text" "transfer-$name" --completions
python -m experiments.transfer_bits "$out/bits" "transfer-bits-$name"
