#!/usr/bin/env bash
# test_peers.sh: other attentions as plug-ins: a good one verified and timed beside attest, bad ones refused with a
# reason.
# shellcheck source=tests/cli/common.sh
source "$(dirname "$0")/common.sh"

quick=(--seconds 0 --min-samples 3 --max-samples 4)

# The example, used as its own text says.
check 'the example is built' build plain_peer.so "$root/examples/peer/plain_peer.c"
expect 'verify beside attest' 0 out='^b1h4s64d32,f32,causal +plain +.* pass' -- \
    verify b1h4s64d32,f32,causal --peer ./plain_peer.so --json verify.json
check 'both are in the document' json verify.json \
    '[r["subject"] for r in d["results"]] == ["attest", "plain 1, one thread"] and d["results"][1]["kernel"] == "plain"'
expect 'every mask that it takes' 0 out='^8 passed, 0 failed' -- \
    verify b2h4hkv2s33sk20d16,f32,causal=bottom-right,lse b1h2s20sk33d8,f32,causal=top-left,lse \
    b1h3s17d24,f32,layout=bhsd b1h1s5sk0d8,f32,lse --peer ./plain_peer.so
expect 'bench in turn with attest' 0 out='^b1h2s64d16,f32 +plain ' -- \
    bench b1h2s64d16,f32 "${quick[@]}" --peer ./plain_peer.so --json bench.json
check 'samples of both' json bench.json \
    'len(d["results"]) == 2 and all(r["timed"] and 3 <= len(r["samples_ns"]) <= 4 for r in d["results"]) and d["results"][1]["subject"] == "plain 1, one thread" and d["results"][1]["kernel"] == "plain"'
expect 'what it declines is no failure' 0 out='^1 passed, 0 failed, 1 declined by a peer' -- \
    verify b1h2s16d8,fp16 --peer ./plain_peer.so
expect 'and says why' 0 out='plain: supports: dtype: float32 only' -- verify b1h2s16d8 --peer ./plain_peer.so
check 'a plug-in that computes nothing is built' build noop.so "$root/tests/peers/bad_peer.c"
expect 'a NaN has no sign' 1 out='row=0 col=0\] is nan, the oracle has' -- verify b1h1s8d8,f32 --peer ./noop.so
expect 'twice is two subjects' 0 out='^3 passed, 0 failed' -- \
    verify b1h1s8d8,f32 --peer ./plain_peer.so --peer ./plain_peer.so
expect 'a file without a slash' 0 out='^2 passed' -- verify b1h1s8d8,f32 --peer plain_peer.so

# Wrong files.
expect 'no such file' 2 err='--peer ./nosuch\.so: there is no such file' -- verify b1h1s8d8 --peer ./nosuch.so
echo 'not a library' >text.so
expect 'not a library' 2 err='--peer ./text\.so: .*(invalid ELF|file too short)' -- verify b1h1s8d8 --peer ./text.so

# Wrong tables: FLAG, STATUS, message.
bad() {
    local name=$1 status=$2 said=$3
    if ! build "bad_$name.so" "$root/tests/peers/bad_peer.c" "-DBAD_$name"; then
        fail "bad_$name" 'is not built'
        return
    fi
    attest verify b1h1s8d8,f32 --peer "./bad_$name.so" >.out 2>.err
    local actual=$?
    if ((actual != status)) || ! cat .out .err | grep -qE -- "$said"; then
        fail "bad_$name" "exited $actual and said: $(cat .out .err | tail -n 5)"
    else
        pass
    fi
}
bad SYMBOL 2 'att_peer_get: there is no such function'
bad TABLE 2 'att_peer_get\(\) gave NULL'
bad ABI 2 'abi is 7, this attest speaks 1'
bad SIZE 2 'size is 16, expected sizeof\(att_peer\)'
bad NAME 2 'name: expected 1 to 40 letters'
bad NAME_TAKEN 2 'name: "attest" is taken'
bad VERSION 2 'version: expected a line of text'
bad DEVICES 2 'devices is 0x200'
for field in SUPPORTS PREPARE WORKSPACE RUN DESTROY; do
    bad "NULL_$field" 2 "${field,,} is NULL, expected a function"
done
bad GPU_ONLY 0 'bad: devices: it does not compute on the CPU'
bad REFUSES 0 'bad: supports: seq_q: none at all'
bad LIES 1 'bad: supports\(\) takes the problem, but prepare\(\) failed with 7: no kernel for it after all'
bad WORKSPACE 0 'no memory for a tensor'
bad RUN 1 'bad: run\(\) failed with 5: out of tokens'
bad NOTHING 1 'o\[b=0 h=0 row=0 col=0\] is -?nan'
bad CRASH_SUPPORTS 1 'attest: the peer bad crashed in supports\(\): SIGABRT'
bad CRASH_PREPARE 1 'attest: the peer bad crashed in prepare\(\): SIGSEGV'
bad CRASH_RUN 1 'attest: the peer bad crashed in run\(\): SIGSEGV'

expect 'bench does not time a peer that is wrong' 1 out='FAIL' -- \
    bench b1h1s8d8,f32 "${quick[@]}" --peer ./bad_NOTHING.so --json wrong.json
check 'attest is timed all the same' json wrong.json '[r["timed"] for r in d["results"]] == [True, False]'
attest verify b1h1s8d8,f32 --peer ./bad_NOTHING.so >again.out
check 'the command that shows it again' grep -q -- "--peer './bad_NOTHING.so'" again.out
# The rows to judge are drawn after the run, and can be drawn again.
expect 'the rows can be drawn again' 1 out='again: .* --rows-seed [0-9]{6,}$' -- \
    verify b1h4s1024d64,f32 --peer ./bad_NOTHING.so --json rows1.json
expect 'other rows' 1 -- verify b1h4s1024d64,f32 --peer ./bad_NOTHING.so --json rows2.json
check 'the seed of the rows is in the document' json rows1.json 'all(r["rows_seed"] > 0 for r in d["results"])'
check 'every run has its own' test "$(grep -h rows_seed rows1.json rows2.json | sort -u | wc -l)" = 4
expect 'rows by a seed' 1 out='--rows-seed 7$' -- verify b1h4s1024d64,f32 --peer ./bad_NOTHING.so --rows-seed 7
expect 'a seed that is given is that of the rows too' 1 out='--seed 5 .*--rows-seed 5$' -- \
    verify b1h4s1024d64,f32 --peer ./bad_NOTHING.so --seed 5

# A plug-in that does something to the process: its exit does not count, and the plug-in is named.
rude() { # rude NAME STATUS SAID ARGUMENT...
    local name=$1 status=$2 said=$3
    shift 3
    if ! build "rude_$name.so" "$root/tests/peers/rude_peer.c" -I"$root/examples/peer" "-DRUDE_$name"; then
        fail "rude_$name" 'is not built'
        return
    fi
    rm -f rude.json
    attest verify b1h1s8d8,f32 b1h1s9d8,f32 --peer "./rude_$name.so" --json rude.json "$@" >.out 2>.err
    local actual=$?
    if ((actual != status)) || ! cat .out .err | grep -qE -- "$said"; then
        fail "rude_$name" "exited $actual and said: $(cat .out .err | tail -n 5)"
    else
        pass
    fi
}
rude NOTHING 0 '^4 passed, 0 failed'
rude EXIT 1 '^attest: the peer rude ended the program in run\(\): exit code 0$'
rude NOW 1 '^attest: the peer rude ended the program in run\(\): exit code 0$'
rude LOAD 1 '^attest: the peer \./rude_LOAD\.so ended the program in its initialisation: exit code 0$'
rude ATEXIT 1 '^attest: after the program had returned 1, a peer changed how it ended; the last peer called was rude$'
rude FORK 1 '^attest: the (peer rude ended the program in run\(\)|program was terminated before it had finished): exit code 0'
sleep 0.5
check 'what it split off writes no document' test ! -e rude.json
rude IGNORE 1 '^attest: the peer rude crashed in run\(\): SIGSEGV$'
rude ENDLESS 1 '^attest: the peer rude did not return from run\(\) within 0\.5 s and is terminated \(--peer-limit\)$' --peer-limit 0.5
check 'a peer that is ended leaves no file' test -z "$(find . -name 'rude.json*')"
rude ENDLESS_PREPARE 1 '^attest: the peer rude did not return from prepare\(\) within 0\.5 s' --peer-limit 0.5
rude ROUND 1 'rude: run\(\) left other rules of floating-point arithmetic behind'
rude FLUSH 1 'rude: run\(\) left other rules of floating-point arithmetic behind'
rude ROUND_PREPARE 1 'rude: prepare\(\) left other rules of floating-point arithmetic behind'
rude FLUSH_LOAD 2 'its initialisation left other rules of floating-point arithmetic behind'
rude THREAD 1 '(before it had finished|ended the program in [a-z]+\(\)): exit code 0' --repeats 100000
expect 'an invalid limit' 2 err='--peer-limit x: expected seconds from 0 to 1000000' -- \
    verify b1h1s8d8,f32 --peer ./rude_NOTHING.so --peer-limit x

# Ending the parent ends the program.
attest verify b1h1s8d8,f32 --peer ./rude_ENDLESS.so --json ended.json >.out 2>.err &
watched=$!
sleep 0.5
kill -TERM $watched
wait $watched
check 'a signal to the parent ends both' test $? -eq 143
check 'and leaves no file' test -z "$(find . -name 'ended.json*')"

# A rival's own direct call must be right before times are compared: tests/timing/test_peers_clock.sh.
check 'a rival with a wrong direct call is built' build wrong.so "$root/tests/peers/handicap_peer.c" -I"$root/examples/peer" \
    -DDIRECT_WRONG
expect 'a wrong direct call' 1 out='direct: o\[b=0 h=0 row=0 col=0\] is -?nan' -- \
    bench b1h1s1sk4096d64,f32 "${quick[@]}" --peer ./wrong.so

# The cuBLAS peer on a GPU that computes, but without cuBLAS. Without nvcc the tests use their own build of it.
cublas=$BUILD/peers/cublas.so
[[ -e $cublas ]] || cublas=$BUILD/tests/peers/cublas.so
use_images
ATTEST_LIBCUDA=$BUILD/tests/fake_cuda/libfake_cuda.so ATTEST_LIBCUBLAS=/nonexistent/libcublas.so FAKE_CUDA_COMPUTES=1 \
    expect 'no cuBLAS' 0 out='cublas: supports: cuBLAS is not found' -- \
    verify b1h2s64d64 --device cuda --peer "$cublas"

peers=()
for _ in {1..17}; do peers+=(--peer "./plain_peer.so"); done
expect 'too many' 2 err='--peer is given more than 16 times' -- verify b1h1s8d8 "${peers[@]}"
finish
