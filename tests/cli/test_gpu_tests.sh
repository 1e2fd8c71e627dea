#!/usr/bin/env bash
# test_gpu_tests.sh: gpu_tests.sh with a fake program: what it counts as failed, and the results that it writes.
# shellcheck source=tests/cli/common.sh
source "$(dirname "$0")/common.sh"

# Replaces attest: verify prints the contents of `closing` and exits with the contents of `status`.
mkdir fake
cat >fake/attest <<'END'
#!/usr/bin/env bash
case $1 in
info)
    echo 'GPU 0         NVIDIA H200: compute capability 8.0, 132 SMs'
    for n in $(seq 40); do echo "fwd_none_$n cuda plain yes current"; done
    ;;
*)
    [[ " $* " != *' --refusals '* ]] || echo "$*" >>with_refusals
    cat closing
    exit "$(cat status)"
    ;;
esac
END
chmod +x fake/attest

run_part() { # run_part PART CLOSING STATUS: the exit status of the part, and its results in results.txt
    echo "$2" >closing
    echo "$3" >status
    rm -f results.txt with_refusals
    BUILD=fake RESULTS=results.txt "$root/tests/gpu/gpu_tests.sh" "$1" >.out 2>&1
}

run_suites() { # run_suites CLOSING STATUS
    run_part suites "$@"
}

run_suites '8 passed, 0 failed' 0
check 'all passed' test $? -eq 0
check 'a line a step' grep -qP '^step\tverify seed\t8\t0\t0\t\d+$' results.txt
check 'of a part' grep -qP '^part\tsuites$' results.txt
check 'which GPU' grep -qP '^gpu\tGPU 0 +NVIDIA H200' results.txt
check 'which program' grep -qP "^program\t$(sha256sum <fake/attest | cut -c1-64)\$" results.txt
attest info --device cpu --json info.json >/dev/null
check 'the tests, as this build digests them' grep -qP "^tests\t$(python3 -c 'import json; print(json.load(open("info.json"))["sources"]["gpu_tests"])')\$" results.txt
check 'every suite has a list of refusals' test "$(wc -l <with_refusals)" -eq "$(grep -c '^step' results.txt)"

run_suites '8 passed, 0 failed, 2 refused' 0
check 'refusals that are expected' grep -qP '^step\tverify seed\t8\t0\t2\t' results.txt
run_suites '8 passed, 0 failed, 2 refused' 3
check 'refusals that are not fail' test $? -eq 1
check 'by the exit status' grep -q 'exit status 3' .out
run_suites '0 passed, 0 failed' 0
check 'nothing ran' test $? -eq 1
run_suites 'nonsense' 139
check 'a crash' test $? -eq 1
BUILD=fake RESULTS=results.txt "$root/tests/gpu/gpu_tests.sh" hopper >.out 2>&1
check 'a part that cannot run here says why' grep -qP '^skipped\tno GPU of compute capability 9.0' results.txt

# Other operations: every suite has its own list, and nothing else may be refused.
run_part operations '8 passed, 0 failed, 2 refused' 0
check 'operations: all passed' test $? -eq 0
check 'refusals that are listed' test "$(grep -cP '^step\tverify (backward|moe)_edge\t8\t0\t2\t' results.txt)" -eq 2
for suite in backward_edge moe_edge; do
    check "the list of $suite" grep -qE -- "--suite $suite .*--refusals $root/tests/gpu/refused_$suite.txt\$" with_refusals
done
run_part operations '8 passed, 0 failed, 2 refused' 3
check 'operations: refusals that are not listed fail' test $? -eq 1

# On a GPU like Hopper, those and no others are refused.
use_images
export ATTEST_LIBCUDA=$BUILD/tests/fake_cuda/libfake_cuda.so ATTEST_LIBNVRTC=$BUILD/tests/fake_cuda/libfake_nvrtc.so
export ATTEST_LIBCUBLAS=/nonexistent/libcublas.so XDG_CACHE_HOME=$scratch/cache
for suite in backward_edge moe_edge; do
    mapfile -t problems < <(sed 's/#.*//; /^ *$/d' "$root/suites/$suite.txt")
    attest explain "${problems[@]}" --device cuda:0 --allow-slow --json explained.json >/dev/null 2>&1
    check "the list of $suite is what a GPU refuses" python3 - "$root/tests/gpu/refused_$suite.txt" <<'END'
import fnmatch, json, sys
patterns = [line.split("#")[0].strip() for line in open(sys.argv[1])]
results = json.load(open("explained.json"))["results"]
refused = {r["problem"]["spec"] for r in results if r["status"] == "ATT_E_UNSUPPORTED"}
listed = {r["problem"]["spec"] for r in results if any(fnmatch.fnmatchcase(r["problem"]["spec"], p) for p in patterns if p)}
sys.exit(not refused or refused != listed or len(refused) == len(results))
END
done
use_shipped
unset ATTEST_LIBCUDA ATTEST_LIBNVRTC

# Kernels one by one, many per process; each must support something.
run_rows() { # run_rows KERNELS: the part `rows`, where the first KERNELS of forty pass a problem
    for n in $(seq "$1"); do echo "b1h2s9d8,f32   fwd_none_$n   1.0e-07   5 %  pass"; done >closing
    echo "$1 passed, 0 failed" >>closing
    echo 3 >status
    rm -f results.txt
    BUILD=fake RESULTS=results.txt "$root/tests/gpu/gpu_tests.sh" rows >.out 2>&1
}
run_rows 40
check 'rows: all passed' test $? -eq 0
check 'in two processes' test "$(grep -cP '^step\tverify rows, kernels (1 to 32|33 to 40)\t40\t0\t' results.txt)" -eq 2
run_rows 39
check 'rows: a kernel that served nothing' test $? -eq 1
check 'is named' grep -qP '^step\tverify rows --kernel fwd_none_40\t0\t1\t' results.txt
finish
