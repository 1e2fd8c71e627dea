#!/usr/bin/env bash
# texts.sh: the texts for users and developers: their words, links, lengths and line widths.
#
#   words    no wording of words.txt in pages, the man page, the headers, help and errors, nor in the virtual GPU's errors, the
#            Makefiles, scripts and suites, except what exceptions.txt lists
#   links    every link between pages leads to a file, and to a heading there
#   lines    prose wraps at 120 columns, comments of the headers at 96
#   lengths  a page has 1700 words at most, without what is generated
#   headers  the first line of a suite, which `attest suites` prints, is a whole sentence
#
# Checks the tree, then plants one violation of each kind in a copy and demands that it is found.
set -euo pipefail
cd "$(dirname "$0")/../.."
lists=$PWD/tests/texts
export LC_ALL=C.UTF-8

list_pages() { # list_pages ROOT: Markdown for users, relative to ROOT
    (
        cd "$1"
        ls README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md examples/README.md evidence/README.md || true
        find docs -name '*.md' | LC_ALL=C sort
    ) 2>/dev/null
}

print_strings() { # print_strings ROOT: the string literals of the C files, as FILE:LINE:TEXT
    (
        cd "$1"
        # shellcheck disable=SC2016 # $0 is awk's
        find cli lab src python scripts tests/virtual_gpu -name '*.[ch]' -print0 2>/dev/null | LC_ALL=C sort -z | xargs -0r awk '
            /^ *#include/ { next }
            {
                rest = $0
                text = ""
                while (match(rest, /"([^"\\]|\\.)*"/)) {
                    text = text " " substr(rest, RSTART + 1, RLENGTH - 2)
                    rest = substr(rest, RSTART + RLENGTH)
                }
                if (text != "")
                    print FILENAME ":" FNR ":" text
            }'
    )
}

print_texts() { # print_texts ROOT: everything that users read, as FILE:LINE:TEXT
    print_strings "$1"
    (
        cd "$1"
        {
            list_pages . || true
            find man include python/attest -name '*.1' -o -name '*.h' -o -name '*.py'
            find mk scripts packaging bench -name '*.mk' -o -name '*.sh' -o -name '*.awk' -o -name '*.py'
            find tests -name '*.sh' -not -path 'tests/gpu/*' -not -path 'tests/texts/*'
            ls Makefile evidence/required.txt
        } 2>/dev/null | LC_ALL=C sort | xargs -r grep -n '' /dev/null
        grep -n '^#' suites/*.txt /dev/null 2>/dev/null || true
    )
}

check_words() { # check_words ROOT: what words.txt forbids, with what to write instead
    local root=$1 texts found pattern advice line file text used failed=0
    texts=$(mktemp)
    found=$(mktemp)
    used=$(mktemp)
    print_texts "$root" >"$texts"
    sed -nE '/^#/d; s/^(.*) -> .*$/\1/p' "$lists/words.txt" >"$texts.patterns"
    grep -iEf "$texts.patterns" "$texts" >"$found" || true
    while IFS= read -r line; do
        file=${line%%:*}
        while IFS= read -r text; do
            if [[ $line == *"$text"* ]]; then
                echo "$file: $text" >>"$used"
                continue 2
            fi
        done < <(sed -nE "s|^$file: (.*) -- .*\$|\\1|p" "$lists/exceptions.txt")
        while IFS= read -r pattern; do
            advice=${pattern##* -> }
            if grep -qiE -- "${pattern% -> *}" <<<"${line#*:*:}"; then
                echo "words: ${line:0:200} (write: $advice)"
                failed=1
                break
            fi
        done < <(grep -v '^#' "$lists/words.txt")
    done <"$found"
    while IFS= read -r line; do
        grep -qxF -- "$line" "$used" || { [[ $root != . ]] || { echo "words: exceptions.txt: nothing needs '$line'" && failed=1; }; }
    done < <(sed -nE '/^#/d; s/^(.*) -- .*$/\1/p' "$lists/exceptions.txt")
    rm -f "$texts" "$texts.patterns" "$found" "$used"
    return $failed
}

print_prose() { # print_prose ROOT PAGE: what is neither code nor generated, as PAGE:LINE:TEXT
    # shellcheck disable=SC2016 # $0 is awk's
    awk -v page="$2" '
        /^ *```/ { code = !code; next }
        /^<!-- (begin|tables begin)/ { generated = 1 }
        /^<!-- (end|tables end)/ { generated = 0; next }
        !code && !generated { print page ":" FNR ":" $0 }' "$1/$2"
}

check_links() { # check_links ROOT: links to files and headings that are not there
    local root=$1 page line target file anchor failed=0
    while IFS= read -r page; do
        while IFS= read -r line; do
            target=${line#*:*:}
            file=${target%%#*}
            anchor=
            [[ $target != *#* ]] || anchor=${target#*#}
            if [[ -z $file ]]; then
                file=$page
            else
                file=$(realpath -m --relative-to=. "$(dirname "$page")/$file")
            fi
            if [[ ! -e $root/$file ]]; then
                echo "links: $page:$(cut -d: -f2 <<<"$line"): $target is not there"
                failed=1
            elif [[ -n $anchor && $file == *.md ]] && ! print_headings "$root/$file" | grep -qxF -- "$anchor"; then
                echo "links: $page:$(cut -d: -f2 <<<"$line"): $file has no heading for #$anchor"
                failed=1
            fi
        done < <(print_prose "$root" "$page" | print_targets)
    done < <(list_pages "$root")
    return $failed
}

print_targets() { # the targets of Markdown links, one to a line, as PAGE:LINE:TARGET; reads PAGE:LINE:TEXT
    # shellcheck disable=SC2016 # $0 is awk's
    awk '{
        match($0, /^[^:]*:[0-9]*:/)
        place = substr($0, 1, RLENGTH)
        rest = substr($0, RLENGTH + 1)
        while (match(rest, /\]\([^) ]+\)/)) {
            target = substr(rest, RSTART + 2, RLENGTH - 3)
            rest = substr(rest, RSTART + RLENGTH)
            if (target !~ /^[a-z]+:/)
                print place target
        }
    }'
}

print_headings() { # print_headings FILE: the names of its headings in links
    awk '/^```/ { code = !code } !code && /^#/' "$1" | sed -E 's/^#+ *//; s/.*/\L&/; s/[^[:alnum:] _-]//g; s/ /-/g'
}

check_lines() { # check_lines ROOT: prose wider than 120 columns
    local root=$1 page failed=0
    while IFS= read -r page; do
        if print_prose "$root" "$page" | grep -vE '^[^:]*:[0-9]*:(\||#|!?\[[^ ]*$|[^ ]*$)' | grep -E '^[^:]*:[0-9]*:.{121}' | sed -E 's/^([^:]*:[0-9]*):.*/lines: \1: more than 120 columns/'; then
            failed=1
        fi
    done < <(list_pages "$root")
    for page in "$root"/include/*.h; do
        if [[ -e $page ]] && grep -nE '.{97}' "$page" | sed -E "s|^([0-9]*):.*|lines: ${page#"$root"/}:\1: more than 96 columns|" | grep .; then
            failed=1
        fi
    done
    return $failed
}

check_headers() { # check_headers ROOT: suites whose first line is not `# NAME: SENTENCE.`
    local root=$1 suite failed=0
    for suite in "$root"/suites/*.txt; do
        [[ ! -e $suite ]] || grep -qE "^# $(basename "$suite" .txt): .*\.$" <(head -n 1 "$suite") || {
            echo "headers: ${suite#"$root"/}: the first line is not '# NAME: SENTENCE.'"
            failed=1
        }
    done
    return $failed
}

check_lengths() { # check_lengths ROOT: pages of more than 1700 words
    local root=$1 page words failed=0
    while IFS= read -r page; do
        words=$(awk '/^<!-- (begin|tables begin)/ { g = 1 } !g { n += NF } /^<!-- (end|tables end)/ { g = 0 } END { print n + 0 }' "$root/$page")
        if ((words > 1700)) && [[ $page == docs/* ]]; then
            echo "lengths: $page: $words words"
            failed=1
        fi
    done < <(list_pages "$root")
    return $failed
}

check() { # check ROOT
    local failed=0
    check_words "$1" || failed=1
    check_links "$1" || failed=1
    check_lines "$1" || failed=1
    check_lengths "$1" || failed=1
    check_headers "$1" || failed=1
    return $failed
}

check . || {
    echo 'texts: see above; tests/texts/words.txt and the head of tests/texts/texts.sh say what is asked' >&2
    exit 1
}

planted=0
must_find() { # must_find KIND FILE TEXT: a copy of the file with the text at its end, or in place of its first line, is found
    local copy found
    copy=$(mktemp -d)
    mkdir -p "$copy/$(dirname "$2")"
    if [[ $1 == headers ]]; then
        { printf '%b\n' "$3" && tail -n +2 "$2"; } >"$copy/$2"
    else
        { cat "$2" && printf '%b\n' "$3"; } >"$copy/$2"
    fi
    found=$("check_$1" "$copy" || true)
    rm -r "$copy"
    [[ $found == *"$1: $2"* ]] || {
        echo "texts: a planted violation is not found: $1 in $2" >&2
        exit 1
    }
    planted=$((planted + 1))
}

must_find words docs/merge.md 'Rounds are drawn that nobody can foretell.'
must_find words README.md 'One launch a tile.\nTwo registers a thread.'
must_find words CHANGELOG.md 'Samples of a run under way are kept.'
must_find words man/attest.1 'Samples are held against the first.'
must_find words include/attest.h '/* 0 first, never falling */'
must_find words cli/verbs.c 'static const char *text = "nothing of CUDA is needed";'
must_find words src/base/error.c 'static const char *text = "the table is written anew";'
must_find words python/attest/__init__.py '"""Nothing of it is kept."""'
must_find words cli/options.c 'static const char *text = "--svg goes without --format";'
must_find words src/base/error.c 'static const char *text = "2 x 1 heads a group is above 8 rows";'
must_find words tests/virtual_gpu/checks.c 'static const char *text = "nobody can go on";'
must_find words scripts/evidence_table.c 'static const char *text = "this is no file of attest";'
must_find words suites/float32.txt '# float32: on a GPU in two float16 terms a number.'
must_find words mk/report.mk "\t@echo 'make docs writes it anew'"
must_find words scripts/setup.sh 'echo "setup: it cannot be had"'
must_find words tests/run.sh 'echo "there are not equally many"'
must_find words packaging/libattest_build.py '# one line to whoever waits'
must_find words evidence/required.txt 'pending h200 host.json two conditions were mended'
must_find headers suites/sweep.txt '# sweep: a point should reach 85 % of the'
must_find links docs/merge.md '[a page](no-such-page.md)'
must_find links docs/merge.md '[a heading](merge.md#no-such-heading)'
must_find links CHANGELOG.md '[a page](docs/no-such-page.md)'
must_find lines docs/merge.md "$(printf 'word %.0s' {1..30})"
must_find lines include/attest.h "/* $(printf 'word %.0s' {1..30})*/"
must_find lines CHANGELOG.md "$(printf 'word %.0s' {1..30})"
must_find lengths docs/merge.md "$(printf 'word\\n%.0s' {1..1700})"
echo "texts: $(list_pages . | wc -l) pages, the headers, the man page and $(print_strings . | wc -l) lines of strings; $planted planted violations are found"
