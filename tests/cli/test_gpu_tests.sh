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

run_suites() { # run_suites CLOSING STATUS: the exit status of the part `suites`, and its results in results.txt
    echo "$1" >closing
    echo "$2" >status
    rm -f results.txt with_refusals
    BUILD=fake RESULTS=results.txt "$root/tests/gpu/gpu_tests.sh" suites >.out 2>&1
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
