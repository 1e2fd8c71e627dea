#!/usr/bin/env bash
# test_pages.sh: the commands in README.md and in pages of docs/ work as printed, and write nothing into evidence/. No
# shell reads them: a command that is not of plain words fails.
# shellcheck source=tests/cli/common.sh
source "$(dirname "$0")/common.sh"
# shellcheck source=tests/plain_words.sh
source "$root/tests/plain_words.sh"

ln -s "$root/examples" "$root/include" .
unset ATTEST_LIBCUDA ATTEST_LIBNVML # under which nothing is certified

# The suites that the commands name, with two problems each; those of certify have one or two for every kernel of a CPU.
mkdir suites
for suite in seed quick gpu; do
    printf 'b1h1s16d64,f32\nb1h4s1sk64d64,f32\n' >"suites/$suite.txt"
done
for suite in rows edge certify certify_cpu; do
    printf '%s\n' {b1h1s16d64,b1h4s1sk64d64,backward:b1h1s16d64,merge:n2b1h1s16d64,moe:t3e8k2h16i16},{f32,bf16} >"suites/$suite.txt"
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

# With three samples per side some verdict is AMBIGUOUS. Commands for a GPU may not be possible. What ships is not
# signed, and not checked without ssh-keygen.
fits() { # fits COMMAND STATUS
    case $1 in
    *--signers*) (($2 == 1 || $2 == 3)) ;;
    *--baseline* | *--aa* | 'attest compare'*) (($2 == 0 || $2 == 1)) ;;
    *'--device cuda'*) (($2 == 0 || $2 == 3)) ;;
    *) (($2 == 0)) ;;
    esac
}

echo 'lab@example.org ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPfm06jDVX7HtQrQ4ckDPEXvHjI1PV9nkD1VIhEWNL0p' >signers # docs/evidence.md writes it
words=()
for page in README.md:4 docs/command-line.md:20 docs/peers.md:4 docs/evidence.md:10 docs/cpu-kernels.md:2; do
    least=${page#*:}
    page=${page%:*}
    count=0
    while IFS= read -r command; do
        case $command in
        'attest audit'*) continue ;; # minutes, and tests/cli/test_audit.sh has it
        esac
        count=$((count + 1))
        case $command in # what ships is of the suites that ship
        'attest certify --check'*) unset ATTEST_SUITES ;;
        *) export ATTEST_SUITES=$PWD/suites ;;
        esac
        if ! plain_words "$command"; then
            fail "$page: $command" 'is not of plain words'
            continue
        fi
        read -ra more <<<"$(shortly "$command" | tr '\n' ' ')"
        "${words[@]}" "${more[@]}" >.out 2>.err </dev/null
        status=$?
        if fits "$command" "$status"; then
            pass
        else
            fail "$page: $command" "exited $status: $(head -c 400 .err)"
        fi
    done < <(commands "$page")
    check "$page has commands" test "$count" -ge "$least"
done
check 'nothing is written where evidence is kept' test ! -e evidence
check 'the baseline is where --save says' test -s baselines/before.json
attest compare before.json after.json >/dev/null 2>.err
check 'a baseline by the name of its file' test ! -s .err
echo '{}' >before.json
expect 'a file that is here goes before a baseline' 2 err='^attest compare: before\.json: ' -- compare before.json after.json
finish
