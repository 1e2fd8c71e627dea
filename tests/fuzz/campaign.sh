#!/usr/bin/env bash
# campaign.sh: run one harness of tests/fuzz for some seconds, or write down how much all of them have run.
#
#   tests/fuzz/campaign.sh run HARNESS SECONDS [keep]   from the committed corpus; with keep, inputs that reach something new
#                                                       stay in $FUZZ/corpus
#   tests/fuzz/campaign.sh reach HARNESS EXECUTIONS     with keep, by parts, until so many have found nothing; goes on where
#                                                       an earlier one was ended
#   tests/fuzz/campaign.sh repeat HARNESS FILE          one input
#   tests/fuzz/campaign.sh shrink HARNESS               rewrite the committed corpus: the fewest inputs that reach what it and
#                                                       $FUZZ/corpus reach
#   tests/fuzz/campaign.sh count                        evidence/fuzz.json, from $FUZZ/runs.txt, which begins with what is
#                                                       counted there already
#
# FUZZ is the folder that `make fuzz-build` fills (build/fuzz), VIRTUAL that of `make virtual` (build/virtual), FUZZ_CC its compiler, PYTHON an interpreter with NumPy.
# FUZZ_SEED, if set, makes a run draw the same inputs again; otherwise every run draws others. FUZZ_RUNS, if set, ends a
# run after so many executions, if SECONDS (0: no limit) have not ended it before.
# SIGUSR1 ends a harness early, and what it did counts.
# What a harness finds is kept in $FUZZ/findings, and the command that repeats it is printed. Each run adds a line to
# $FUZZ/runs.txt: harness, executions, seconds, findings, commit.
set -euo pipefail
cd "$(dirname "$0")/../.."
fuzz=$(realpath "${FUZZ:-build/fuzz}")
findings=$fuzz/findings
VIRTUAL=$(realpath "${VIRTUAL:-build/virtual}")

# An allocation that is too large must fail as it does without the sanitizer.
export ASAN_OPTIONS=allocator_may_return_null=1:detect_stack_use_after_return=0${ASAN_OPTIONS:+:$ASAN_OPTIONS}
export UBSAN_OPTIONS=print_stacktrace=1
export ATTEST_SUITES=$PWD/suites ATTEST_DEVICES=$PWD/devices
export ATTEST_LIBCUDA=${ATTEST_LIBCUDA:-$fuzz/tests/fake_cuda/libfake_cuda.so}
export ATTEST_LIBNVRTC=${ATTEST_LIBNVRTC:-$fuzz/tests/fake_cuda/libfake_nvrtc.so}
export ATTEST_LIBCUBLAS=${ATTEST_LIBCUBLAS:-$fuzz/tests/fake_cuda/libfake_cublas.so}

# The longest input: problems are drawn from the bytes, not parsed, and need few.
longest() {
    case $1 in
    fuzz_api_*) echo 256 ;;
    fuzz_attestation) echo 10240 ;; # a whole statement
    *) echo 4096 ;;
    esac
}

# How the next input is chosen. fuzz_api_cpu reaches so many branches that the default, which weighs them by how rarely
# they are reached, takes half of the time; without it, as many executions reach as much.
schedule() {
    [[ $1 == fuzz_api_cpu ]] && echo 0 || echo 1
}

commit() {
    git describe --always --dirty --abbrev=12 --exclude='*' 2>/dev/null || echo unknown
}

# A new folder goes on from the committed counts: what was executed up to the last finding, then what was since.
begin() {
    local before='"name": "([a-z_]+)", "executions": ([0-9]+), "seconds": ([0-9]+), "findings": ([0-9]+)'
    local since='"executions_since_finding": ([0-9]+)' commits='"commits": "([^"]*)"'
    [[ ! -e $fuzz/runs.txt ]] || return 0
    sed -nE "s/.*$before, $since.*$commits.*/\1 \2 \3 \4 \5 \6/p" evidence/fuzz.json | while read -r name all seconds found since commits; do
        echo "$name $((all - since)) $seconds $found ${commits// /,}"
        echo "$name $since 0 0 ${commits// /,}"
    done >"$fuzz/runs.txt.$$"
    ln "$fuzz/runs.txt.$$" "$fuzz/runs.txt" 2>/dev/null || true # one of several that begin at once
    rm "$fuzz/runs.txt.$$"
}

record() { # record HARNESS EXECUTIONS SECONDS FINDINGS COMMIT
    begin
    echo "$*" >>"$fuzz/runs.txt"
}

run_python() { # run_python SECONDS
    local json=$fuzz/python.json status=0 executions started=$SECONDS built asan seconds=$1
    built=$(commit)
    ((seconds > 0)) || seconds=1000000000
    asan=$("${FUZZ_CC:-clang}" -print-file-name=libclang_rt.asan-x86_64.so)
    rm -f "$json"
    LD_PRELOAD=$asan ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0 PYTHONPATH=$fuzz/python PYTHONDONTWRITEBYTECODE=1 \
        ATTEST_LIBCUDA=/nonexistent/libcuda.so.1 "${PYTHON:-python3}" tests/fuzz/fuzz_python.py ${FUZZ_SEED:+--seed "$FUZZ_SEED"} ${FUZZ_RUNS:+--count "$FUZZ_RUNS"} --seconds "$seconds" --json "$json" || status=$?
    executions=$(sed -nE 's/.*"executions": ([0-9]+).*/\1/p' "$json")
    record fuzz_python "${executions:-0}" "$((SECONDS - started))" "$((status != 0))" "$built"
    return "$status"
}

# fuzz_api_virtual is fuzz_api_driver on the driver that runs the kernels themselves, in $VIRTUAL (docs/virtual-gpu.md).
program_of() { # program_of HARNESS: and its settings
    [[ $1 == fuzz_api_virtual ]] || { program=$1 && return; }
    program=fuzz_api_driver
    export FUZZ_DRIVER=virtual ATTEST_LIBCUDA=$VIRTUAL/libcuda.so ATTEST_LIBCUBLAS=$VIRTUAL/libcuda.so
    export ATTEST_LIBNVRTC=$VIRTUAL/libnvrtc.so
}

run_harness() { # run_harness HARNESS SECONDS [keep]
    local name=$1 program log fresh status=0 executions started=$SECONDS built
    program_of "$name"
    built=$(commit)
    log=$(mktemp)
    fresh=$fuzz/corpus/$name
    [[ ${3:-} == keep ]] || fresh=$(mktemp -d)
    mkdir -p "$findings" "$fresh" "tests/fuzz/corpus/$program"
    "$fuzz/tests/fuzz/$program" -seed="${FUZZ_SEED:-0}" -runs="${FUZZ_RUNS:--1}" -max_total_time="$2" -max_len="$(longest "$name")" -entropic="$(schedule "$name")" -timeout=25 -print_final_stats=1 \
        -artifact_prefix="$findings/$name-" "$fresh" "tests/fuzz/corpus/$program" >"$log" 2>&1 || status=$?
    executions=$(sed -nE 's/^stat::number_of_executed_units: +([0-9]+)$/\1/p' "$log")
    record "$name" "${executions:-0}" "$((SECONDS - started))" "$((status != 0))" "$built"
    if ((status != 0)); then
        grep -avE '^(#[0-9]+.*(NEW|REDUCE|pulse)|	NEW_FUNC|INFO: )' "$log" | tail -n 60
        echo "again: tests/fuzz/campaign.sh repeat $name FILE"
    fi
    echo "$name: ${executions:-0} executions in $((SECONDS - started)) s"
    [[ ${3:-} == keep ]] || rm -rf "$fresh"
    rm -f "$log"
    return "$status"
}

reach() { # reach HARNESS EXECUTIONS
    local left part
    while left=$(($2 - $(executions_since_finding "$1"))) && ((left > 0)); do
        part=$((left < 100000 ? left : 100000))
        FUZZ_RUNS=$part tests/fuzz/campaign.sh run "$1" 0 keep
    done
}

executions_since_finding() { # executions_since_finding HARNESS
    begin
    awk -v name="$1" '$1 == name { since = $4 ? 0 : since + $2 } END { print since + 0 }' "$fuzz/runs.txt"
}

shrink() { # shrink HARNESS
    local name=$1 new
    new=$(mktemp -d)
    mkdir -p "tests/fuzz/corpus/$name" "$fuzz/corpus/$name"
    "$fuzz/tests/fuzz/$name" -set_cover_merge=1 -use_counters=0 -max_len="$(longest "$name")" "$new" "tests/fuzz/corpus/$name" "$fuzz/corpus/$name"
    rm -rf "tests/fuzz/corpus/$name"
    mkdir "tests/fuzz/corpus/$name"
    # The repository should not hold thousands of files: 80 files and 100 KB are enough to start from. Names are
    # digests, so the first ones are arbitrary.
    local file bytes=0 files=0
    for file in "$new"/*; do
        bytes=$((bytes + $(stat -c %s "$file")))
        files=$((files + 1))
        ((bytes > 100000 || files > 80)) || cp "$file" "tests/fuzz/corpus/$name"
    done
    rm -rf "$new"
}

# One object per harness that has run; the counts come from libFuzzer and fuzz_python.py. Sorted by name, the runs of
# each harness in order.
count() {
    begin
    sort -s -k 1,1 "$fuzz/runs.txt" | awk -v date="$(date -u +%Y-%m-%dT%H:%M:%SZ)" '
        !runs[$1]++ { names[++count] = $1 }
        {
            total += $2
            executions[$1] += $2
            seconds[$1] += $3
            findings[$1] += $4
            since[$1] = $4 ? 0 : since[$1] + $2
            parts = split($5, made, ",")
            for (i = 1; i <= parts; i++)
                if (!index(commits[$1] " ", " " made[i] " "))
                    commits[$1] = commits[$1] " " made[i]
        }
        END {
            printf "{\n  \"schema\": \"attest-fuzz-1\",\n  \"made\": \"%s\",\n  \"executions\": %d,\n  \"harnesses\": [", date, total
            for (i = 1; i <= count; i++) {
                n = names[i]
                command = "ls tests/fuzz/corpus/" n " 2>/dev/null | wc -l"
                command | getline files
                close(command)
                printf "%s\n    {\"name\": \"%s\", \"executions\": %d, \"seconds\": %d, \"findings\": %d, ", \
                       (i > 1 ? "," : ""), n, executions[n], seconds[n], findings[n]
                printf "\"executions_since_finding\": %d, \"corpus_files\": %d, \"commits\": \"%s\"}", since[n], files, \
                       substr(commits[n], 2)
            }
            print "\n  ]\n}"
        }' >evidence/fuzz.json.new
    mv evidence/fuzz.json.new evidence/fuzz.json
    sed -nE 's/^  "executions": ([0-9]+),$/fuzz: \1 executions in evidence\/fuzz.json/p' evidence/fuzz.json
}

case ${1:-} in
run)
    if [[ $2 == fuzz_python ]]; then run_python "$3"; else run_harness "${@:2}"; fi
    ;;
reach) reach "$2" "$3" ;;
repeat)
    program_of "$2"
    "$fuzz/tests/fuzz/$program" "$3"
    ;;
shrink) shrink "$2" ;;
count) count ;;
*)
    sed -n '2,19p' "$0" >&2
    exit 2
    ;;
esac
