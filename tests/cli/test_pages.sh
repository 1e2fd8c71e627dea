#!/usr/bin/env bash
# test_pages.sh: the commands in README.md, docs/command-line.md and docs/peers.md work as printed, and write nothing
# into the tree.
# shellcheck source=tests/cli/common.sh
source "$(dirname "$0")/common.sh"

ln -s "$root/examples" "$root/include" .
unset ATTEST_LIBCUDA ATTEST_LIBNVML # under which nothing is certified

# The suites that the commands name, with two problems each.
mkdir suites
for suite in seed quick gpu certify certify_cpu; do
    printf 'b1h1s16d64,f32\nb1h4s1sk64d64,f32\n' >"suites/$suite.txt"
done
export ATTEST_SUITES=$PWD/suites

# commands FILE: the lines of its shell blocks that call attest, or build a plug-in, without comments.
commands() {
    awk '/^```sh$/ { inside = 1; next } /^```/ { inside = 0 } inside' "$root/$1" |
        grep -E '^(attest|cc .*_peer\.c) ' | sed 's/ *#.*//'
}

# Options that make a command quick, added after the printed ones.
shortly() { # shortly COMMAND
    case $1 in
    'attest bench '* | 'attest certify '*-o*) echo '--seconds 0 --min-samples 3 --max-samples 3' ;;
    esac
    case $1 in *--processes*) echo '--processes 2' ;; esac
}

# With three samples per side some verdict is AMBIGUOUS. Commands for a GPU may not be possible.
fits() { # fits COMMAND STATUS
    case $1 in
    *--baseline* | *--aa* | 'attest compare'*) (($2 == 0 || $2 == 1)) ;;
    *'--device cuda'*) (($2 == 0 || $2 == 3)) ;;
    *) (($2 == 0)) ;;
    esac
}

for page in README.md docs/command-line.md docs/peers.md; do
    count=0
    while IFS= read -r command; do
        case $command in
        'attest audit'*) continue ;; # minutes, and tests/cli/test_audit.sh has it
        esac
        count=$((count + 1))
        case $command in # what ships is of the suites that ship
        'attest certify --check') unset ATTEST_SUITES ;;
        *) export ATTEST_SUITES=$PWD/suites ;;
        esac
        bash -c "$command $(shortly "$command" | tr '\n' ' ')" >.out 2>.err </dev/null
        status=$?
        if fits "$command" "$status"; then
            pass
        else
            fail "$page: $command" "exited $status: $(head -c 400 .err)"
        fi
    done < <(commands "$page")
    check "$page has commands" test "$count" -ge 4
done
check 'nothing is written where evidence is kept' test ! -e evidence
check 'the baseline is where it is said to be' test -s baselines/before.json
attest compare before.json after.json >/dev/null 2>.err
check 'a baseline by the name of its file' test ! -s .err
echo '{}' >before.json
expect 'a file that is here goes before a baseline' 2 err='^attest compare: before\.json: ' -- compare before.json after.json
finish
