#!/usr/bin/env bash
# ladder_variants.sh: build the program with the tiles that were tried for the ladder, in a separate folder.
#
#   scripts/ladder_variants.sh FOLDER     a copy of the tree; the program is FOLDER/build/attest
set -euo pipefail
cd "$(dirname "$0")/.."

folder=$1
mkdir -p "$folder"
git ls-files -z | xargs -0 cp --parents -t "$folder"
awk '/^ATT_CUDA_KERNEL/ { next }
     /instructions family/ { while ((getline row <"bench/ladder_variants.def") > 0)
                                 if (row ~ /^ATT_CUDA_KERNEL/) print row }
     { print }' kernels/kernels.def >"$folder/kernels/kernels.def"
make -C "$folder" --no-print-directory BUILD=build build/attest
