#!/usr/bin/env bash
# generated.sh: write the output of commands into the pages that quote them, or check that it is up to date.
#
#   scripts/generated.sh BUILD FILE...          rewrite each block
#   scripts/generated.sh --check BUILD FILE...  fail if that would change a file
#
# A block is the text between a line `<!-- begin: COMMAND -->` and the next `<!-- end -->`. COMMAND is `attest ...`,
# whose output is inserted verbatim, or `evidence_table ...`, `attestation_table ...`, `self_check_table ...`,
# `faults_table` or `api_page HEADER`, which print Markdown. All run in the root of the tree; a file FILE.json.gz among
# their words is unpacked first.
set -euo pipefail
cd "$(dirname "$0")/.."

check=false
if [[ $1 == --check ]]; then
    check=true
    shift
fi
build=$(cd "$1" && pwd)
export PATH=$build/tests/images:$build:$PATH # the program that has code for GPUs wherever it is built: mk/images.mk
export COLUMNS=80 # reports are as wide as the terminal
shift
new=$(mktemp)
unpacked=$(mktemp -d)
trap 'rm -rf "$new" "$unpacked"' EXIT

print_block() { # print_block COMMAND
    local words i
    read -ra words <<<"$1"
    for i in "${!words[@]}"; do
        if [[ ${words[i]} == *.json.gz ]]; then
            gzip -dc "${words[i]}" >"$unpacked/$(basename "${words[i]}" .gz)"
            words[i]=$unpacked/$(basename "${words[i]}" .gz)
        fi
    done
    case ${words[0]} in
    attest)
        echo '```'
        echo "\$ $1"
        "${words[@]}"
        echo '```'
        ;;
    evidence_table | attestation_table | self_check_table) "${words[@]}" ;;
    faults_table) tests/virtual_gpu/faults_table.sh ;;
    api_page) awk -f scripts/api_page.awk "${words[1]}" ;;
    *)
        echo "generated: '$1' is neither attest nor a table of evidence" >&2
        return 1
        ;;
    esac
}

rewrite() { # rewrite FILE: its text with every block rewritten
    local line inside=false
    while IFS= read -r line; do
        if [[ $line =~ ^'<!-- begin: '(.*)' -->'$ ]]; then
            inside=true
            echo "$line"
            print_block "${BASH_REMATCH[1]}"
        elif [[ $line == '<!-- end -->' ]]; then
            inside=false
            echo "$line"
        elif ! $inside; then
            echo "$line"
        fi
    done <"$1"
    ! $inside || { echo "generated: $1: a block has no end" >&2 && return 1; }
}

blocks=0
for file in "$@"; do
    rewrite "$file" >"$new"
    blocks=$((blocks + $(grep -c '^<!-- begin: ' "$file" || true)))
    if ! $check; then
        cmp -s "$new" "$file" || cat "$new" >"$file"
    elif ! diff -u "$file" "$new"; then
        echo "generated: $file does not match what the commands print; \`make docs\` rewrites it" >&2
        exit 1
    fi
done
! $check || echo "generated: $blocks blocks in $# files are what the commands print"
