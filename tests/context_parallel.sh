#!/usr/bin/env bash
# context_parallel.sh: examples/context_parallel outside the tree, against an installed attest: over MPI on the CPU,
# with planted faults that it must notice, and over NCCL if that can be built, on as many GPUs as there are.
set -euo pipefail
cd "$(dirname "$0")/.."

# shellcheck source=tests/quietly.sh
source tests/quietly.sh
export PKG_CONFIG_PATH=$scratch/attest/lib/pkgconfig
# Open MPI needs permission to run as root, or more ranks than cores.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_hwloc_base_binding_policy=none
strict=(-O2 -Wall -Wextra -Wshadow -Wconversion -pedantic -Werror)
example=$scratch/context_parallel
cuda=${CUDA_HOME:-/usr/local/cuda}

ring() { # ring RANKS [ROWS]: the program, its words in $scratch/log
    timeout 120 mpirun -n "$1" "$example/context_parallel_mpi" "${@:2}" >"$scratch/log" 2>&1
}

check_ring() {
    local ranks
    quietly make -B -C "$example" CFLAGS="${strict[*]}"
    for ranks in 1 2 3 4 8; do
        quietly ring "$ranks"
        grep -q "^$ranks ranks of 200 rows, twice the same bits, .*: holds$" "$scratch/log" || fail "$(<"$scratch/log")"
    done
    quietly ring 4 1
    quietly ring 2 513
    ! ring 2 0 || fail 'a piece of no rows is taken'
}

plant() { # plant FILE FROM TO: the ring with this fault must find itself wrong
    cp "$example/$1" "$scratch/kept"
    sed -i "s|$2|$3|" "$example/$1"
    ! cmp -s "$scratch/kept" "$example/$1" || fail "nothing to plant at: $2"
    quietly make -B -C "$example"
    ! ring 4 || fail "not noticed: $3"
    grep -q 'WRONG' "$scratch/log" || fail "not noticed: $3"$'\n'"$(<"$scratch/log")"
    cp "$scratch/kept" "$example/$1"
}

check_mpi() {
    if ! command -v mpicc >/dev/null || ! command -v mpirun >/dev/null; then
        echo 'skipped: the ring over MPI, because there is no mpicc or mpirun (libopenmpi-dev, openmpi-bin)'
        return
    fi
    check_ring
    plant ring.c 'both\[step % 2\]' 'both[0]'
    plant ring.c '(rank - step + ranks)' '(rank + step)'
    plant ring_parts.c 'parts->current\[piece\] = to' 'parts->current[piece] = from'
    plant ring_parts.c 'kind == PART_OWN ? ATT_CAUSAL_TOP_LEFT : ATT_CAUSAL_NONE' 'ATT_CAUSAL_TOP_LEFT'
}

nccl_folder() { # one that has its header: of the toolkit, of Debian, or of a Python package
    local folder
    for folder in "${NCCL_HOME:-$cuda}" "$cuda" /usr \
        "$(python3 -c 'import nvidia.nccl; print(list(nvidia.nccl.__path__)[0])' 2>/dev/null)"; do
        [[ ! -e $folder/include/nccl.h ]] || { echo "$folder" && return; }
    done
}

check_nccl() {
    local folder gpus
    folder=$(nccl_folder)
    if [[ -z $folder || ! -e $cuda/include/cuda_runtime_api.h ]]; then
        echo 'skipped: the ring over NCCL, because nccl.h or cuda_runtime_api.h is not here'
        return
    fi
    quietly make -B -C "$example" context_parallel_nccl CUDA="$cuda" NCCL="$folder" CFLAGS="${strict[*]}"
    gpus=$(nvidia-smi --list-gpus 2>/dev/null | grep -c '^GPU' || true)
    if [[ $gpus -lt 2 ]]; then
        echo "skipped: the ring over NCCL is built but not run, because there are $gpus GPUs, and it takes two"
        return
    fi
    quietly timeout 300 "$example/context_parallel_nccl" "$gpus"
    grep -q ': holds$' "$scratch/log" || fail "$(<"$scratch/log")"
}

cp -r examples/context_parallel "$scratch"
quietly make --no-print-directory install PREFIX="$scratch/attest"
check_nccl
check_mpi
[[ ! -e $example/context_parallel_mpi ]] ||
    echo 'context_parallel: 1, 2, 3, 4 and 8 ranks are right over MPI, and notice 4 planted faults'
