#!/usr/bin/env bash
# test_profile.sh: attest profile with a fake ncu: it prints what the real one printed on an H200
# (evidence/h200/ladder_profile.csv).
# shellcheck source=tests/cli/common.sh
source "$(dirname "$0")/common.sh"
export ATTEST_LIBCUDA=$BUILD/tests/fake_cuda/libfake_cuda.so ATTEST_LIBNVRTC=/nonexistent/libnvrtc.so
unset ATTEST_NCU

# ncu: FAKE_NCU says how it misbehaves. Every call is recorded.
mkdir bin
cat >bin/ncu <<'NCU'
#!/usr/bin/env bash
folder=$(dirname "$(dirname "$0")")
printf '%s\n' "$@" -- >>"$folder/calls"
case $FAKE_NCU:$1 in
*:--query-metrics)
    [[ $FAKE_NCU == mute ]] || cut -d, -f4 "$folder/evidence.csv" | tr -d '"' | sed 's/\..*//' | sort -u
    [[ $FAKE_NCU != mute ]] || exit 1
    ;;
*:--import) cat "$folder/table.csv" ;;
forbidden:*)
    echo '==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters on the target device 0.'
    exit 1
    ;;
slow:*) sleep 1.5 && exit 1 ;;
crash:*) echo '==ERROR== The application returned an error code (3).' && exit 3 ;;
*)
    if [[ $FAKE_NCU == @(picky|vague) && $* == *derived__local* ]]; then
        [[ $FAKE_NCU == vague ]] || echo '==ERROR== Failed to find metric derived__local_spilling_requests'
        echo '==ERROR== Failed to profile "fwd_sm80_f16_d64_m64n128s2" in process 4369'
        echo '==PROF== Trying to shutdown target application'
        echo '==ERROR== The application returned an error code (9).'
        exit 9
    fi
    [[ $FAKE_NCU != broken ]] || { echo '==ERROR== Unknown error on device 0.'; echo '==ERROR== The application returned an error code (9).'; exit 9; }
    while [[ $1 != --export ]]; do shift; done
    touch "$2.ncu-rep"
    ;;
esac
NCU
chmod +x bin/ncu
PATH=$scratch/bin:$PATH
export FAKE_NCU=''
cp "$root/evidence/h200/ladder_profile.csv" evidence.csv
echo 'fwd,0,"x","launch__occupancy_limit_warps","",""' >>evidence.csv
table() { # table RUNG: the rung's part of the evidence as ncu prints it
    echo '"ID","Process ID","Kernel Name","Metric Name","Metric Unit","Metric Value"'
    grep "^$1," "$root/evidence/h200/ladder_profile.csv" | sed -E 's/^[a-z_]+,([0-9]+),("[^"]*"),/"\1","77",\2,/'
}

# The table.
table fwd >table.csv
expect 'profile a problem' 0 out='^tensor pipe +22\.[0-9] %$' -- profile b2h8s512d64 -o kept --json fwd.json --csv fwd.csv
check 'the report is kept' test -f kept.ncu-rep
check 'never through a shell, with every part a word' grep -qx -- '--launch-count' calls
check 'the shape is one word' grep -qx 'b2h8s512d64,fp16' calls
check 'and the report too' grep -qx 'kept' calls
expect 'the bottleneck is named' 0 out='^fwd_sm80_f16_d64_m64n128s2: bound by latency; .*wait most for instructions that depend on each other \(1\.4' -- profile b2h8s512d64
expect 'what warps wait for' 0 out='^  warps wait for: instructions .* 1\.4[0-9], shared memory 0\.[0-9]+, global memory' -- profile b2h8s512d64
expect 'missing metrics are listed' 0 out='^DRAM read +missing$' -- profile b2h8s512d64
expect 'and those that this GPU does not have' 0 out='^not on this GPU: .*dram__bytes_read\.sum' -- profile b2h8s512d64
check 'profile, the document' json fwd.json 'd["schema"] == "attest-profile-1" and len(d["launches"]) == 5 and d["launches"][0]["metrics"]["registers"] == 199 and d["launches"][0]["metrics"]["dram_read_bytes"] is None and "dram__bytes_read.sum" in d["missing"]'
check 'profile, the table as CSV' grep -qx '0,"fwd_sm80_f16_d64_m64n128s2","gpu__time_duration.sum","ns","9792"' fwd.csv
table unfused >table.csv
expect 'several kernels' 0 out='^metric +nvjet_.* nvjet_.* unfused_sm80$' -- profile b2h8s512d64 --kernel unfused_sm80 --allow-slow -o rung.ncu-rep
check 'the suffix is not doubled' test -f rung.ncu-rep -a ! -e rung.ncu-rep.ncu-rep
check 'the kernel is passed on' grep -qx unfused_sm80 calls
table naive >table.csv
expect 'another rung' 0 out='wait most for global memory' -- profile b2h8s512d64 --json naive.json

# Before and after.
expect 'the difference of two' 0 out='^time under the profiler +[0-9.]+ us +9\.[0-9]+ us +-99\.9 %$' -- profile --diff naive.json fwd.json --json diff.json
check 'diff, the document' json diff.json 'd["schema"] == "attest-profile-diff-1" and d["before"] and d["after"]'
expect 'of reports too' 0 out='^after: +bound by' -- profile --diff kept.ncu-rep naive.json
expect 'one file is not two' 2 err='--diff takes two files' -- profile --diff naive.json
expect 'a file that is not there' 2 err='--diff: absent.json' -- profile --diff naive.json absent.json
expect 'a file of another kind' 2 err='schema' -- profile --diff naive.json diff.json

# Errors.
FAKE_NCU=forbidden expect 'counters are not permitted' 3 err='ERR_NVGPUCTRPERM.*remedy: .*NVreg_RestrictProfilingToAdminUsers=0' -- profile b2h8s512d64
FAKE_NCU=crash expect 'the program fails' 3 err='ncu ended with 3: ==ERROR== The application returned an error code' -- profile b2h8s512d64
FAKE_NCU=mute expect 'an ncu that lists nothing is asked for all' 0 out='^tensor pipe' -- profile b2h8s512d64
FAKE_NCU=picky expect 'an ncu that refuses a metric is asked for the others' 0 out='^not on this GPU: .*derived__local_spilling_requests' -- profile b2h8s512d64
FAKE_NCU=vague expect 'one that does not say which is not asked for what it derives' 0 out='^not on this GPU: .*derived__local_spilling_requests' -- profile b2h8s512d64
FAKE_NCU=broken expect 'the first complaint is the one that is told' 3 err='ncu ended with 9: ==ERROR== Unknown error on device 0' -- profile b2h8s512d64
FAKE_NCU=slow TERM=xterm python3 "$tests_folder/terminal.py" 80 err profile b2h8s512d64 >drawn.txt
check 'while ncu runs, a bar shows how far' grep -qE 'running ncu 1/3.* 1 s' drawn.txt
FAKE_NCU=slow attest profile b2h8s512d64 >/dev/null 2>.err
check 'but not where there is no terminal' bash -c '! grep -q "running ncu" .err'
: >table.csv
expect 'no table' 3 err='ncu printed no table' -- profile b2h8s512d64
table fwd | head -c 700 >table.csv
expect 'a table that is cut off' 3 err='within a line|fields' -- profile b2h8s512d64
echo 'not a table at all' >table.csv
expect 'something else' 3 err='no table' -- profile b2h8s512d64
ATTEST_NCU=/nonexistent/ncu expect 'no ncu' 3 err='/nonexistent/ncu: cannot be started.*remedy: install Nsight Compute' -- profile b2h8s512d64
expect 'without a shape' 2 err='expected a shape' -- profile
expect 'one problem' 2 err='expected one problem' -- profile b2h8s512d64 b1h8s512d64
expect 'not on a CPU' 2 err='--device cpu' -- profile b2h8s512d64 --device cpu
expect 'a GPU that is not here' 3 err='no GPU 9' -- profile b2h8s512d64 --device cuda:9
ATTEST_LIBCUDA=/nonexistent/libcuda.so expect 'no GPU' 3 err='there is no GPU 0 here' -- profile b2h8s512d64
finish
