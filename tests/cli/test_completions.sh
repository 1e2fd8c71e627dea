#!/usr/bin/env bash
# test_completions.sh: the shell scripts complete verbs, options and suites; the shells accept them, if installed.
# shellcheck source=tests/cli/common.sh
source "$(dirname "$0")/common.sh"

attest completions bash >bash.script
# shellcheck source=/dev/null
source bash.script

completed() { # completed WORD...: what bash would offer for the last word
    COMP_WORDS=("$@")
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    _attest
    echo "${COMPREPLY[*]}"
}

# shellcheck disable=SC2317 # reached through `check`
offers() { # offers WANTED WORD...: is WANTED among them
    [[ " $(completed "${@:2}") " == *" $1 "* ]]
}

check 'a verb' test "$(completed attest veri)" = verify
check 'every verb is offered' offers certify attest ''
check 'help and completions too' offers completions attest ''
check 'an option of a verb' test "$(completed attest info --evi)" = --evidence
check 'no option of another verb' test -z "$(completed attest info --host)"
check 'a suite' test "$(completed attest verify --suite backward_e)" = backward_edge
check 'the headline of the suites is none' test -z "$(completed attest verify --suite suit)"
check 'a device' offers virtual attest verify --device ''
check 'a GPU that is not here, for what needs none' offers h200 attest explain --device ''
check 'and for nothing else' test -z "$(completed attest verify --device h2)"
check 'a value of an option that has few' test "$(completed attest run --isa portab)" = portable
check 'an option of offsets' offers --q-offset attest explain --q
touch some_file.json
check 'a file' test "$(completed attest compare some_f)" = some_file.json
check 'a verb to be helped with' test "$(completed attest help aud)" = audit
check 'and shapes' test "$(completed attest help sha)" = shapes
for topic in $(completed attest help ''); do
    expect "help on $topic" 0 out='.' -- help "$topic"
done
check 'help of a verb, once' test "$(completed attest info --he)" = --help

expect 'zsh' 0 out='^#compdef attest' -- completions zsh
expect 'fish' 0 out="__fish_seen_subcommand_from info' -l all " -- completions fish
expect 'fish: devices' 0 out="from explain' -l device -x -a 'cpu cuda virtual a10 " -- completions fish
expect 'another shell' 2 err='bash, zsh or fish' -- completions tcsh
expect 'no shell' 2 err='bash, zsh or fish' -- completions
for shell in zsh fish; do
    attest completions "$shell" >"$shell.script"
    if command -v "$shell" >/dev/null; then
        check "$shell reads it" "$shell" -n "$shell.script"
    fi
done
# zsh runs an installed file as the function _attest when it first completes: the file must then answer as well as define.
if command -v zsh >/dev/null; then
    # shellcheck disable=SC2016 # the words are for zsh
    check 'zsh: the first completion answers' test 'asked: -o filenames -F _attest' = "$(
        zsh -f -c 'autoload() { :; }; bashcompinit() { :; }; complete() { :; }; _bash_complete() { echo "asked: $*"; }
            functions[_attest]=$(<zsh.script); _attest'
    )"
    # shellcheck disable=SC2016
    check 'zsh: one that is sourced only defines' test -z "$(
        zsh -f -c 'autoload() { :; }; bashcompinit() { :; }; complete() { :; }; _bash_complete() { echo "asked: $*"; }
            source ./zsh.script'
    )"
fi
finish
