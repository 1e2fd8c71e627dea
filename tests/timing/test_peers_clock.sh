#!/usr/bin/env bash
# test_peers_clock.sh: plug-ins that compute only when they expect to be checked, or handicap a rival, are caught by their
# times; honest ones are not.
# shellcheck source=tests/timing/attempts.sh
source "$(dirname "$0")/attempts.sh"

quick=(--seconds 0 --min-samples 3 --max-samples 4)

# A rival is compared with its own direct call.
handicap() { # handicap NAME STATUS SAID FLAG...
    local name=$1 status=$2 said=$3
    shift 3
    check "$name is built" build "$name.so" "$root/tests/peers/handicap_peer.c" -I"$root/examples/peer" "$@"
    expect_in_three "$name" "$status" out="$said" -- bench b1h1s1sk4096d64,f32 "${quick[@]}" --peer "./$name.so"
}
handicap slow 1 'its run takes [0-9.]+ times as long as its own direct call: a rival with a handicap'
handicap none 0 '^2 passed, 0 failed' -DDIRECT_NONE

# A plug-in that computes only when it expects to be checked.
sly() { # sly NAME STATUS SAID
    check "sly $1 is built" build "sly_$1.so" "$root/tests/peers/sly_peer.c" -I"$root/examples/peer" "-DSLY_$1"
    expect_in_three "sly $1" "$2" out="$3" -- bench b1h4s32d32,f32 "${quick[@]}" --peer "./sly_$1.so" --json sly.json
}
sly NOWHERE 0 '^2 passed, 0 failed'
sly IMPATIENT 1 '(not all calls of a sample compute|below the floor)'
check 'it has no time' json sly.json '[r["timed"] for r in d["results"]] == [True, False]'
sly FIFTH 1 'it remembers answers'
finish
