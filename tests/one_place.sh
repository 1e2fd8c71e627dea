#!/usr/bin/env bash
# one_place.sh: what belongs in one place is named nowhere else.
#
#   operations  the core, the laboratory and the program go through the tables of operations; the files that name one are
#               listed here and in docs/adding-an-operation.md
#   sources     kernels are bound to their source by the registry, not by comparing names
#   devices     plans and runs go through the table of devices
#   JSON        one module opens and parses documents
#
# Checks the tree, then plants one violation of each kind in a copy and demands that it is found.
set -euo pipefail
cd "$(dirname "$0")/.."

page=docs/adding-an-operation.md
operations=$(sed -nE 's/^ATT_OPERATION\((.*)\)$/\1/p' kernels/operations.def | tr '\n' ' ')

# Files that may name an operation. The page lists them for those who add one.
name_operations="
lab/problem/spec.h
lab/problem/lab_args.h
lab/problem/lab_operation.h
lab/subject/peer.c
lab/subject/saboteur.c
lab/subject/saboteur_experts.c
lab/subject/saboteur_hands.h
lab/measure/curve.c
lab/evidence/audit.c
lab/report/report_cards.c
lab/report/report_groups.c
lab/report/report_rates.c
cli/help.c
cli/ranks_table.c
cli/verbs.c
"
# The name of a source is in a row that the digests of the CPU engines bind, and a function could not be; the digest of an
# attested source is also called source.
compare_sources="
src/cuda/shape.c
lab/evidence/evidence.c
"
parse_json="
lab/base/json_load.c
"

# grep_in ROOT PATTERN PATH...: the lines of C that match, as FILE:LINE:TEXT.
grep_in() {
    local root=$1 pattern=$2
    shift 2
    (cd "$root" && grep -rnE --include='*.[ch]' -e "$pattern" "$@") || true
}

# Names of types, functions and constants of an operation, its row in either table, and strings with its prefix.
# Attention has no prefix, and the problems of others are made of its types: its rows alone are names of it.
grep_operations() { # grep_operations ROOT: as grep_in
    local -a folders=()
    local operation
    for operation in $operations; do
        folders+=(-path "lab/$operation" -prune -o)
    done
    # shellcheck disable=SC2016 # $0 is awk's
    (cd "$1" && find src/core src/base src/cpu src/cuda lab cli "${folders[@]}" -name '*.[ch]' -print0 | xargs -0 awk -v operations="$operations" '
        BEGIN {
            count = split(operations, names, " ")
            for (i = 1; i <= count; i++)
                if (names[i] != "attention")
                    others = others (others ? "|" : "") names[i]
            before = "(^|[^[:alnum:]_])"
            rows = before "(att|lab)_operation_(attention|" others ")([^[:alnum:]_]|$)"
            identifiers = before "(att|lab)_(" others ")([^[:alnum:]]|$)"
            constants = before "ATT_(" toupper(others) ")([^[:alnum:]]|$)"
        }
        function has_string(line,    text) {
            while (match(line, /"([^"\\]|\\.)*"/)) {
                text = substr(line, RSTART + 1, RLENGTH - 2)
                line = substr(line, RSTART + RLENGTH)
                if (text ~ before "(" others "):" || text ~ "^(" others ")$")
                    return 1
            }
            return 0
        }
        $0 ~ rows || $0 ~ identifiers || $0 ~ constants || has_string($0) { print FILENAME ":" FNR ":" $0 }')
}

# judge COMPLAINT FILES: lines of FILE:LINE:TEXT outside FILES, and those of FILES that have none.
judge() {
    awk -v complaint="$1" -v listed="$2" '
        BEGIN {
            count = split(listed, files, /[ \n]+/)
            for (i = 1; i <= count; i++)
                if (files[i] != "")
                    is_listed[files[i]] = 1
        }
        {
            split($0, parts, ":")
            if (parts[1] in is_listed)
                seen[parts[1]] = 1
            else
                print parts[1] ":" parts[2] ": " complaint
        }
        END {
            for (file in is_listed)
                if (!(file in seen))
                    print file ": is listed in tests/one_place.sh, but no longer does it: " complaint
        }'
}

check_page() { # check_page ROOT: the page lists every file that names an operation
    local file
    for file in $name_operations; do
        grep -qF "\`$file\`" "$1/$page" || echo "$page: does not list $file, which names an operation"
    done
}

check_tree() { # check_tree ROOT
    grep_operations "$1" | judge 'names an operation' "$name_operations"
    check_page "$1"
    grep_in "$1" '\bstrn?cmp\([^;"]*\bsource\b' src lab cli | judge 'compares names of sources' "$compare_sources"
    grep_in "$1" 'ATT_DEVICE_|(->|\.)(cpu|cuda)\b|"(cpu|cuda)/' src/core/plan.c src/core/run.c | judge 'tells devices apart' ''
    grep_in "$1" '(^|[^_[:alnum:]])json_load[a-z_]*\(' src lab cli python scripts | judge 'parses JSON by itself' "$parse_json"
}

fail() {
    echo "one_place: $*" >&2
    exit 1
}

complaints=$(check_tree .)
if [[ -n $complaints ]]; then
    echo "$complaints" >&2
    exit 1
fi

# A copy of the tree, where violations are then planted.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
plants=0
mkdir "$scratch/docs"
cp -r src lab cli python scripts "$scratch"
cp "$page" "$scratch/$page"

expect() { # expect WHAT COMPLAINT: the copy must bring exactly this complaint
    local found
    found=$(check_tree "$scratch")
    [[ $found == *"$2" && $found != *$'\n'* ]] || fail "planted $1, wanted the complaint '$2', got '$found'"
    plants=$((plants + 1))
}

plant() { # plant FILE TEXT COMPLAINT: a line added to FILE
    local file=$scratch/$1
    [[ ! -e $file ]] || cp "$file" "$scratch/kept"
    echo "$2" >>"$file"
    expect "$2 in $1" "$3"
    rm "$file"
    [[ ! -e $scratch/kept ]] || mv "$scratch/kept" "$file"
}

remove() { # remove FILE TEXT COMPLAINT: without a text of FILE
    local file=$scratch/$1
    cp "$file" "$scratch/kept"
    sed -i "s|$2||g" "$file"
    expect "$1 without $2" "$3"
    mv "$scratch/kept" "$file"
}

for operation in $operations; do
    plant src/core/planted.c "static const void *row = &att_operation_$operation;" 'planted.c:1: names an operation'
    plant lab/verify/planted.c "static const void *row = &lab_operation_$operation;" 'planted.c:1: names an operation'
    [[ $operation != attention ]] || continue
    plant src/cuda/planted.h "struct att_${operation}_problem;" 'planted.h:1: names an operation'
    plant src/base/planted.h "enum { MOST = ATT_${operation^^}_MOST };" 'planted.h:1: names an operation'
    plant src/cpu/planted.h "void lab_${operation}_x(void);" 'planted.h:1: names an operation'
    plant lab/plan/planted.c "bool is(const char *s) { return strncmp(s, \"$operation:\", 4) == 0; }" 'planted.c:1: names an operation'
    plant cli/planted.c "static const char text[] = \"for example $operation:x\";" 'planted.c:1: names an operation'
    plant cli/planted.c "static const char text[] = \"$operation\";" 'planted.c:1: names an operation'
done
remove lab/measure/curve.c lab_operation_attention 'lab/measure/curve.c: is listed in tests/one_place.sh, but no longer does it: names an operation'
remove "$page" lab/measure/curve.c "$page: does not list lab/measure/curve.c, which names an operation"
plant src/cuda/planted.c 'bool is(const att_cuda_kernel *k) { return strcmp(k->source, "fwd_sm90") == 0; }' 'planted.c:1: compares names of sources'
plant lab/tune/planted.c 'bool is(const char *source) { return strcmp(source, "fwd_sm90") == 0; }' 'planted.c:1: compares names of sources'
plant src/core/plan.c 'bool is(const att_kernel_row *row) { return row->cuda; }' 'tells devices apart'
plant src/core/run.c 'bool is(const att_kernel_row *row) { return row->device == ATT_DEVICE_CPU; }' 'tells devices apart'
plant lab/report/planted.c 'json_t *f(void) { return json_load_file("x", 0, NULL); }' 'planted.c:1: parses JSON by itself'
plant cli/planted.c 'json_t *f(void) { return json_loads("{}", 0, NULL); }' 'planted.c:1: parses JSON by itself'

echo "one_place: everything is in its place; $plants planted violations found"
