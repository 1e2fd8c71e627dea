#!/usr/bin/env bash
# gpu_tests.sh: every test that needs a GPU, from a build folder that `make gpu-build` made, here or elsewhere.
#
#   BUILD=build tests/gpu/gpu_tests.sh [PART...]      parts: suites operations rows hopper variants hopper_variants programs measurement python sanitizer (all of them)
#
# Prints a line a step, what failed, and closes with `N passed, N failed, N skipped`. LOGS (default a scratch folder) keeps what
# the steps printed. A problem of the suites that is refused, and not listed in refused_SUITE.txt, is a failure. A kernel that is
# forced by name refuses what it is not for: that is counted, not failed.
#
# RESULTS (default LOGS/results.txt) is added to: words between tabs, for `attest certify --host-tests RESULTS`, which makes
# evidence/DEVICE/host.json of them. Parts may be run one after the other into the same file; the last run of a part counts.
set -uo pipefail

build=${BUILD:-build}
attest=$build/attest
logs=${LOGS:-$(mktemp -d)}
mkdir -p "$logs"
results=${RESULTS:-$logs/results.txt}
tests=$(dirname "$0")
total_passed=0
total_failed=0
total_skipped=0

record() { # record WORD...: a line of results
    local IFS=$'\t'
    echo "$*" >>"$results"
}

skip() { # skip WHY: this part, or some of it, cannot run here
    total_skipped=$((total_skipped + 1))
    echo "skipped: $1"
    record skipped "$1"
}

finish_step() { # finish_step NAME PASSED FAILED REFUSED NOTE SECONDS
    total_passed=$((total_passed + $2))
    total_failed=$((total_failed + $3))
    printf '%-44s %5d passed %4d failed %5d s  %s\n' "$1" "$2" "$3" "$6" "$5"
    record step "$1" "$2" "$3" "$4" "$6"
}

last_count() { # last_count FILE WORD: the number before WORD in the closing line
    local number
    number=$(grep -E '^[0-9]+ passed, [0-9]+ failed' "$1" | tail -n 1 | grep -oE "[0-9]+ $2" | cut -d' ' -f1)
    echo "${number:-0}"
}

step() { # step NAME SECONDS COMMAND...: run, count by the closing line; at least one must pass, and the exit status be 0
    run_step 0 "$@"
}

step_of_some() { # step_of_some NAME SECONDS COMMAND...: the same, where some problems may be refused: exit status 3 will do
    run_step 3 "$@"
}

log_of() { # log_of NAME: the file of what a step prints
    echo "$logs/${1//[^a-zA-Z0-9_.-]/_}.log"
}

run_step() { # run_step STATUS NAME SECONDS COMMAND...
    local also=$1 name=$2 limit=$3 log started=$SECONDS status
    shift 3
    log=$(log_of "$name")
    timeout "$limit" "$@" >"$log" 2>&1
    status=$?
    local passed failed refused note=
    passed=$(last_count "$log" passed)
    failed=$(last_count "$log" failed)
    total_skipped=$((total_skipped + $(last_count "$log" skipped)))
    refused=$(last_count "$log" refused)
    ((refused == 0)) || note="$refused refused"
    if ((status != 0 && status != also && failed == 0)); then
        failed=1
        note+=" exit status $status"
    elif ((passed + failed == 0)); then
        failed=1
        note+=" nothing ran"
    fi
    finish_step "$name" "$passed" "$failed" "$refused" "$note" $((SECONDS - started))
    ((failed == 0)) || grep -E -A 2 '^(FAIL |FAILED:|attest[ :])|=========' "$log" | grep -v ' pass$' | head -n 30
}

suites() {
    local suite
    for suite in seed float32 quick small edge gpu decode paper; do
        step "verify $suite" 300 "$attest" verify --suite "$suite" --device cuda --refusals /dev/null
    done
    # Merging has kernels for every type and any row: nothing of it is refused, by choice or where no other kernel may serve.
    step 'verify merge' 300 "$attest" verify --suite merge --device cuda --refusals /dev/null
    step 'verify merge on merge_sm80 alone' 300 "$attest" verify --suite merge --device cuda --kernel 'merge_sm80*' --refusals /dev/null
    # As a machine without our machine code for it would: compiled from the source in the library.
    ATTEST_JIT=1 step 'verify seed, compiled here' 300 "$attest" verify --suite seed --device cuda --refusals /dev/null
}

# Gradients, and experts: no kernel of a GPU takes all of them; the lists say which are refused.
operations() {
    step 'verify backward_edge' 300 "$attest" verify --suite backward_edge --device cuda --allow-slow \
        --refusals "$tests/refused_backward_edge.txt"
    step 'verify moe_edge' 300 "$attest" verify --suite moe_edge --device cuda --refusals "$tests/refused_moe_edge.txt"
}

# Every kernel that this GPU runs by itself, rungs among them, on what it serves of a suite made for that: many kernels to a process, which
# starts once and asks the oracle about each problem once.
rows() {
    local -a ids
    local first
    mapfile -t ids < <("$attest" info --all --device cuda | awk '$2 == "cuda" && $3 !~ /^(combine|mask|step)$/ && / yes / { print $1 }')
    for ((first = 0; first < ${#ids[@]}; first += 32)); do
        rows_of $((first + 1)) "${ids[@]:first:32}"
    done
}

rows_of() { # rows_of NUMBER ID...: kernels, the first being the NUMBER-th; each must serve something
    local name="verify rows, kernels $1 to $(($1 + $# - 2))" id
    shift
    step_of_some "$name" 300 "$attest" verify --suite rows --device cuda --allow-slow "${@/#/--kernel=}"
    for id; do
        grep -qE " $id +[0-9].* pass\$" "$(log_of "$name")" || finish_step "verify rows --kernel $id" 0 1 0 'nothing ran' 0
    done
}

has_hopper() {
    grep -q 'compute capability 9\.0' "$logs/info.log"
}

needs_hopper() {
    has_hopper || {
        skip 'no GPU of compute capability 9.0 here'
        false
    }
}

# More tiles than SMs, and all that the tensor-core kernels promise on fwd_sm90 alone.
hopper() {
    needs_hopper || return
    step 'verify hopper' 300 "$attest" verify --suite hopper --device cuda --refusals /dev/null
    step_of_some 'verify hopper on fwd_sm90 alone' 300 "$attest" verify --suite hopper --device cuda --kernel 'fwd_sm90*'
    step_of_some 'verify gpu on fwd_sm90 alone' 300 "$attest" verify --suite gpu --device cuda --kernel 'fwd_sm90*'
    step 'verify hopper, compiled here' 300 env ATTEST_JIT=1 "$attest" verify --suite hopper --device cuda --refusals /dev/null
}

# Every switch of fwd_sm80 off, alone and together: plain and causal, general, ragged, and keys in parts.
variants() {
    local shape
    for shape in b2h8s512d64,causal b1h4hkv2s97sk130d80,bf16,causal=bottom-right,varlen,lse b1h2s64sk8192d128,bf16 \
        b2h4hkv2s65sk70d64,softcap=30,alibi,align=bottom-right,sinks,bias,o=f32,lse b1h2s130sk200d256,paged=16,window=40:3,align=top-left; do
        step "ablate $shape" 120 "$attest" ablate "$shape" --device cuda --kernel 'fwd_sm80*' --seconds 0 --min-samples 1
    done
    step 'tune' 120 bash -c "'$attest' tune b2h8s512d64 --device cuda --kernel 'fwd_sm80*' --budget 20 -o '$logs/tuned.rows' && echo '1 passed, 0 failed'"
}

# The same of fwd_sm90, where blocks take several tiles, and of fwd_sm90_small.
hopper_variants() {
    local kernel shape
    needs_hopper || return
    while read -r kernel shape; do
        step "ablate $shape on $kernel" 120 "$attest" ablate "$shape" --device cuda --allow-unattested --kernel "$kernel" --seconds 0 --min-samples 1 </dev/null
    done <<'END'
fwd_sm90_bf16_d128_m128n128s2 b5h16s300d128,bf16,causal,lse
fwd_sm90_bf16_d128_m128n128s2 b5h16hkv4s200sk330d128,bf16,causal=bottom-right,varlen,lse
fwd_sm90_bf16_d128_m128n128s2 b4h16s260sk400d128,bf16,window=100:30,align=top-left,sinks,lse
fwd_sm90_bf16_d128_m128n128s2 b4h16s260sk400d128,bf16,paged=16,lensk
fwd_sm90_bf16_d128_m192n80s3 b5h16s300d128,bf16,causal,lse
fwd_sm90_f16_d64_m192n128s4 b5h16s500sk300d64,lse
fwd_sm90_bf16_d64_general_m128n64s2 b5h16s200sk300d64,bf16,softcap=30,alibi,align=bottom-right,bias,lse
fwd_sm90_small_f16_d64_m64n128s2w8 b2h8s300d64,causal,lse
fwd_sm90_small_f16_d64_m128n64s4w16 b1h4s500sk1100d64,causal=bottom-right,lse
END
}

programs() {
    step 'runtime' 120 "$build/gpu/test_runtime"
    step 'api' 300 "$build/gpu/test_gpu_api"
    step 'api, after a fault' 60 "$build/gpu/test_gpu_api" fault
    step 'jumps' 300 "$build/gpu/test_jumps" cuda
    [[ ! -x $build/gpu/test_primitives ]] || step 'primitives' 120 "$build/gpu/test_primitives"
    [[ ! -x $build/gpu/test_primitives_sm90 ]] || ! has_hopper || step 'primitives of Hopper' 120 "$build/gpu/test_primitives_sm90"
    step 'bench seed' 120 "$attest" bench --suite seed --device cuda --seconds 0.1
}

# A self-check exits 1 where less than 95 of 100 verdicts are right.
self_check() { # self_check NAME OPTION...
    local name=$1
    shift
    # shellcheck disable=SC2016 # $1 and $@ are the inner shell's
    step "$name" 120 bash -c '"$@" && echo "1 passed, 0 failed"' - "$attest" bench --suite seed --device cuda \
        --min-samples 40 --seconds 0.2 "$@"
}

# Whether times can be trusted: the same is the same, what is slower is found, and every timer and mode works.
measurement() {
    local flags
    self_check 'bench seed against itself' --aa --trials 3
    self_check 'bench seed, 3 % slower on purpose' --inject 3 --trials 3
    for flags in '--timer=events' '--timer=latency' --cold; do
        step "bench seed $flags" 120 "$attest" bench --suite seed --device cuda --seconds 0.1 "$flags"
    done
    # shellcheck disable=SC2016 # $1 is the inner shell's
    step 'audit' 120 bash -c '"$1" audit --device cuda && echo "1 passed, 0 failed"' - "$attest"
    if [[ -e $build/peers/cublas.so ]]; then
        step 'the cuBLAS peer' 120 "$attest" bench b2h8s512d64 b1h4hkv2s200sk333d128,bf16,causal=bottom-right,lse \
            --device cuda --seconds 0.1 --peer "$build/peers/cublas.so"
    else
        skip 'the cuBLAS peer: this build has none'
    fi
    step 'bench seed in two processes' 120 "$attest" bench --suite seed --device cuda --seconds 0.1 --processes 2
}

# The Python package on PyTorch's, JAX's and CuPy's arrays of a GPU, where each of them and pytest are there.
python() {
    local example
    if ! python3 -c 'import pytest, torch; assert torch.cuda.is_available()' >/dev/null 2>&1; then
        skip 'no Python here has PyTorch with a GPU, and pytest'
        return
    fi
    export PYTHONPATH=$build/python XLA_PYTHON_CLIENT_PREALLOCATE=false
    step "PyTorch's CPU tensors, and models" 400 python3 -m pytest -q -p no:cacheprovider tests/python/test_torch_cpu.py tests/python/test_transformers.py
    step "PyTorch's CUDA tensors" 400 python3 -m pytest -q -p no:cacheprovider tests/python/test_torch_gpu.py
    step "PyTorch's operators" 600 python3 -m pytest -q -p no:cacheprovider \
        tests/python/test_{torch_attention,torch_merge,torch_moe,torch_scores,flash_attn}.py
    step "PyTorch's training, models' masks and experts" 600 python3 -m pytest -q -p no:cacheprovider \
        tests/python/test_{training,transformers_masks,transformers_experts}.py
    if python3 -c 'import jax; assert jax.default_backend() == "gpu"' >/dev/null 2>&1; then
        step "JAX's programs" 600 python3 -m pytest -q -p no:cacheprovider tests/python/test_{jax_program,jax_moe}.py
    else
        skip "JAX's programs: no JAX here has a GPU"
    fi
    for example in cupy:cupy_gpu jax:jax_program torch:torch_dropin transformers:transformers_tokens; do
        if ! python3 -c "import ${example%:*}" >/dev/null 2>&1; then
            skip "example ${example#*:}: ${example%:*} is not here"
            continue
        fi
        # shellcheck disable=SC2016 # $1 is the inner shell's
        step "example ${example#*:}" 200 bash -c 'python3 "examples/python/$1.py" && echo "1 passed, 0 failed"' - "${example#*:}"
    done
}

# Exact allocations, so that the first byte past a tensor is seen. Its own finds end with status 9.
sanitizer() {
    local tool sanitizer
    # One problem or two, of suites backward_edge and moe_edge, for each of their kernels.
    local -a backward=('b2h3s1sk130d64,bf16' 'b1h2s67d80,bf16,causal' 'b1h2s67d128,fp16' 'b1h2s67d160,bf16,causal'
        'b1h2s67d256,fp16' 'b1h2s50d192dv128,bf16,causal' 'b1h2s50d256dv16,bf16,causal'
        'b2h4hkv2s70d64,fp16,causal,scale=0' 'b2h4hkv2s70d64,fp16,causal,softcap=30'
        'b2h4hkv2s70d64,bf16,causal,alibi' 'b2h4hkv2s33sk45d64,bf16,bias=f32:1hqk,dbias'
        'b3h2s90sk260d128,fp16,varlen,window=70:30,align=top-left')
    local -a moe=('t3e8k2h64i64,fp16,counts' 't63e4k2h128i64,bf16,ids' 't21e4k2h63i40,fp16' 't33e4k2h127i129,bf16'
        't150e2k2h200i150,bf16,transposed'
        't41e16k4h32i32,bf16,route=sigmoid,correction,groups=4:1,ids,weights,counts'
        't27e8k2h64i48,bf16,range=5:3,route=given,data=holes,ids,weights,counts')
    sanitizer=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
    if [[ ! -x $sanitizer ]]; then
        skip 'compute-sanitizer is not here'
        return
    fi
    for tool in memcheck racecheck initcheck synccheck; do
        ATTEST_LAB_EXACT=1 step "$tool" 400 "$sanitizer" --tool "$tool" --error-exitcode 9 \
            --kernel-name-exclude kns=cublas "$attest" verify --suite quick --device cuda --refusals /dev/null
        ATTEST_LAB_EXACT=1 step "$tool of merge" 400 "$sanitizer" --tool "$tool" --error-exitcode 9 \
            "$attest" verify --suite merge --device cuda --refusals /dev/null
        ATTEST_LAB_EXACT=1 step "$tool of backward" 400 "$sanitizer" --tool "$tool" --error-exitcode 9 \
            "$attest" verify "${backward[@]/#/backward:}" --device cuda --refusals /dev/null
        ATTEST_LAB_EXACT=1 step "$tool of moe" 400 "$sanitizer" --tool "$tool" --error-exitcode 9 \
            "$attest" verify "${moe[@]/#/moe:}" --device cuda --refusals /dev/null
        # Hopper's kernels for more tokens of an expert, and the second product that they call.
        ! has_hopper || ATTEST_LAB_EXACT=1 step "$tool of moe, for many tokens" 400 "$sanitizer" --tool "$tool" --error-exitcode 9 \
            "$attest" verify moe:t150e4k2h64i48,bf16,mask,b1,b2,ids,weights,counts --device cuda \
            --kernel 'moe_sm90_bf16_m64*' --kernel 'moe_sm90_bf16_m176*'
    done
}

parts=("$@")
[[ ${#parts[@]} -gt 0 ]] || parts=(suites operations rows hopper variants hopper_variants programs measurement python sanitizer)
if ! "$attest" info --device cuda >"$logs/info.log" 2>&1; then
    cat "$logs/info.log"
    echo '0 passed, 1 failed, 0 skipped'
    exit 1
fi
grep '^GPU' "$logs/info.log"
# Digest of the sorted digests of the tests, as scripts/source_digests.c has it.
record tests "$(find "$tests" -type f -exec sha256sum {} + | cut -c1-64 | LC_ALL=C sort | sha256sum | cut -c1-64)"
record program "$(sha256sum <"$attest" | cut -c1-64)"
record gpu "$(grep -m1 '^GPU' "$logs/info.log")"
for part in "${parts[@]}"; do
    case $part in
    suites | operations | rows | hopper | variants | hopper_variants | programs | measurement | python | sanitizer)
        record part "$part"
        "$part"
        ;;
    *)
        echo "gpu_tests: there is no part '$part'" >&2
        exit 2
        ;;
    esac
done
echo "$total_passed passed, $total_failed failed, $total_skipped skipped"
((total_failed == 0))
