#!/usr/bin/env bash
# test_gpu.sh: the program on a machine with GPUs, simulated by a driver that launches nothing (tests/fake_cuda).
# shellcheck source=tests/cli/common.sh
source "$(dirname "$0")/common.sh"

fakes=$BUILD/tests/fake_cuda
use_images
export ATTEST_LIBCUDA=$fakes/libfake_cuda.so ATTEST_LIBNVRTC=$fakes/libfake_nvrtc.so
export ATTEST_LIBCUBLAS=/nonexistent/libcublas.so XDG_CACHE_HOME=$scratch/cache

# The list of devices and kernels.
expect 'info lists a GPU' 0 out='^GPU 0 +Fake GPU 0: compute capability 9\.0, 132 SMs, 4\.0 GiB, driver for CUDA 13\.0, GPU-' -- info --json info.json
expect 'info says which cannot be used' 0 out='^GPU 3 +cannot be used: .*7\.5' -- info
expect 'info names the device' 0 out='^device +cuda:0' -- info
check 'info, the document' json info.json 'len(d["gpus"]) == 4 and d["gpus"][1]["compute_capability"] == 89 and "error" in d["gpus"][3]'
check 'info, the machine' json info.json 'd["machine"]["device"] == "cuda" and d["machine"]["gpu"]["name"] == "Fake GPU 0"'
check 'info, kernels of both devices' json info.json \
    'any(k["device"] == "cpu" and k["available"] for k in d["kernels"]) and any(k["role"] == "plain" and k["available"] and k["origin"] != "none" and 90 in k["targets"] for k in d["kernels"])'
check 'info, rungs' json info.json 'any(k.get("rung") for k in d["kernels"])'

# The choice of a device.
expect 'a GPU where there is one' 0 out='^chosen +(fwd|decode)_sm[0-9]+_' -- explain b2h8s512d64,bf16
expect 'an instruction set means the CPU' 0 out='^chosen +fwd_cpu_portable' -- explain b2h8s512d64,bf16 --isa portable
expect 'the CPU by name' 0 out='^chosen +[a-z]+_cpu_' -- explain b2h8s512d64,bf16 --device cpu
expect 'another GPU' 0 out='^device +cuda:1' -- info --device cuda:1
expect 'a GPU that is too old' 3 err='7\.5' -- info --device cuda:3
expect 'a GPU that is not there' 3 err='device_index=9' -- info --device cuda:9
ATTEST_DEVICE=cpu expect 'the CPU by the environment' 0 out='^device +cpu' -- info
ATTEST_DEVICE=gpu expect 'an unknown device of the environment' 2 err='ATTEST_DEVICE=gpu' -- info

# The choice of a kernel.
expect 'nothing slow without leave' 3 out='^refused +.* flags: .*ATT_ALLOW_SLOW' -- explain b2h8s512d64,f32 --kernel naive_sm80
expect 'float32 on tensor cores' 0 out='^chosen +fwd_sm80_f32_' -- explain b2h8s512d64,f32
expect 'decode in one launch' 0 out='^chosen +decode_sm90_.* keys in 8 parts that a cluster merges, workspace 0 bytes' -- \
    explain b1h32hkv8s1sk8192d128,bf16
expect 'decode in two' 0 out='^chosen +decode_sm90_.* keys in 16 parts, workspace [1-9]' -- explain b1h32hkv8s1sk65536d128,bf16
expect 'keys of new rows over a cache in parts' 0 out='^chosen +fwd_sm90_bf16_d128_split_.* grid 128 x .* keys in 8 parts, workspace [1-9]' -- \
    explain b1h32hkv8s64sk16384d128,bf16
expect 'keys that are whole' 0 out='^chosen +fwd_sm90_.* keys in 1 part, workspace' -- explain b4h16s4096d128,bf16
expect 'a tile that would end later' 0 out='^passed +fwd_sm90_.* serves it too, but is not expected to be faster$' -- explain b4h16s4096d128,bf16
expect 'a kernel further down' 0 out='^passed +fwd_sm80_.* serves it too, but is listed after the chosen one$' -- explain b4h16s4096d128,bf16
expect 'slow with leave' 0 out='^chosen +naive_sm80' -- explain b2h8s512d64,f32 --kernel naive_sm80 --allow-slow
ATTEST_ALLOW_SLOW=1 expect 'leave by the environment' 0 out='^chosen +naive_sm80' -- explain b2h8s512d64,f32 --kernel naive_sm80
expect 'one kernel' 0 out='^kernel +naive_sm80' -- run b1h2s64d64 --allow-slow --kernel naive_sm80
expect 'kernels that begin so' 0 out='^kernel +mma_sm80_f16_d64' -- run b1h2s64d64 --allow-slow --kernel 'mma_sm80*'
expect 'no such kernel' 2 err='there is no such kernel' -- run b1h2s64d64 --kernel fwd_none
expect 'a kernel of the CPU on a GPU' 2 err='there is no such kernel' -- run b1h2s64d64 --kernel fwd_cpu_portable
expect 'one kernel is enough for a run' 2 err='--kernel may be given once' -- run b1h2s64d64 --kernel a --kernel b

# The launch record.
expect 'run --trace' 0 out='^launch +grid [1-9][0-9]* x 1 x 1, block [0-9]+, shared bytes [0-9]+, registers 168' -- run b2h8s512d64,bf16 --trace --json run.json
expect 'the digest of the code' 0 out='^code +sha256 [0-9a-f]{64}$' -- run b2h8s512d64,bf16 --trace
check 'run, the document' json run.json \
    'd["results"][0]["launch"]["registers"] == 168 and len(d["results"][0]["launch"]["code_sha256"]) == 64 and d["results"][0]["launch"]["kernel"] == d["results"][0]["kernel"]'

# A launch that computes nothing is a wrong answer, with the command that reproduces it; the CPU's is beside it.
expect 'verify catches a GPU that computes nothing' 1 out='^  again: .*verify b1h2s64d64,fp16 --device cuda:0 --seed 0$' -- verify b1h2s64d64
expect 'verify repeats' 0 out='^1 passed, 0 failed' -- verify b1h2s64d64 --device cpu --repeats 5
expect 'bench catches it too' 1 out='^FAIL ' -- bench b1h2s64d64 --seconds 0
expect 'kernels side by side' 1 out="--kernel 'mma_sm80_f16_d64'" -- verify b1h2s64d64 --allow-slow --kernel naive_sm80 --kernel mma_sm80_f16_d64 --json verify.json
check 'verify, the document' json verify.json \
    '[r["kernel"] for r in d["results"]] == ["naive_sm80", "mma_sm80_f16_d64"] and all(r["launch"]["code_sha256"] for r in d["results"])'
finish
