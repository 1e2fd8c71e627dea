#!/usr/bin/env bash
# layers.sh: a folder includes only from layers below it; file names are unique, and files say what they do.
#
# Checks the tree, then plants one violation of each kind in a copy and demands that it is found.
set -euo pipefail
cd "$(dirname "$0")/.."

operations=$(sed -nE 's/^ATT_OPERATION\((.*)\)$/\1/p' kernels/operations.def | tr '\n' ' ')
lab_layers="base statistics problem tensors $operations plan subject verify measure tune evidence profile doctor report"
layered=(include kernels src lab cli python)
folders=("${layered[@]}" tests bench scripts examples peers)

find_in() { # find_in ROOT NAME... -- FOLDER...: files by name, relative to ROOT; folders may be absent
    local root=$1 folder
    shift
    local -a names=()
    while [[ $1 != -- ]]; do
        names+=(${names[@]:+-o} -name "$1")
        shift
    done
    shift
    (
        cd "$root"
        for folder in "$@"; do
            [[ ! -d $folder ]] || find "$folder" -type f \( "${names[@]}" \)
        done
    )
}

list_sources() {
    find_in "$1" '*.[ch]' '*.def' '*.cu' '*.cuh' -- "${layered[@]}"
}

# Rank of the layers, bottom first; those of each operation come from kernels/operations.def. A folder includes from its
# own rank and below, except what is_forbidden() names: operations do not know each other, in src/ or in lab/ (but
# backward is the other direction of attention), the engines do not use the oracle that judges them, nor each other, the
# program uses only the public header and the laboratory, and the Python extension only the public header.
check_includes() {
    local root=$1
    # shellcheck disable=SC2016 # $0 and $NF are awk's
    list_sources "$root" | (cd "$root" && xargs awk -v operations="$operations" -v lab_layers="$lab_layers" '
        BEGIN {
            text = "include kernels src/base"
            count = split(operations, names, " ")
            for (i = 1; i <= count; i++) {
                is_operation[names[i]] = 1
                text = text " src/" names[i] "/ref"
            }
            text = text " src/cpu src/cuda src/core"
            for (i = 1; i <= count; i++)
                text = text " src/" names[i] "/cpu src/" names[i] "/cuda src/" names[i]
            count = split(lab_layers, names, " ")
            for (i = 1; i <= count; i++)
                text = text " lab/" names[i]
            count = split(text " cli python", layers, " ")
            for (i = 1; i <= count; i++)
                rank[layers[i]] = i
            for (name in is_operation) # the parts of an operation are of one rank
                rank["src/" name] = rank["src/" name "/cuda"] = rank["src/" name "/cpu"]
        }
        function layer_of(path,    parts, count) {
            count = split(path, parts, "/")
            if (parts[1] == "src" && (parts[2] in is_operation) && count > 3)
                return parts[1] "/" parts[2] "/" parts[3]
            return parts[1] ~ /^(src|lab)$/ ? parts[1] "/" parts[2] : parts[1]
        }
        function operation_of(layer,    parts) {
            split(layer, parts, "/")
            return parts[1] ~ /^(src|lab)$/ && (parts[2] in is_operation) ? parts[2] : ""
        }
        function is_forbidden(from, to,    a, b) {
            a = operation_of(from)
            b = operation_of(to)
            if (a && b && a != b && !(a == "backward" && b == "attention"))
                return 1
            if (from ~ /^src\// && to ~ /\/ref$/ && from != to && from != "src/backward/ref")
                return 1
            if (from ~ /^src\/(.*\/)?cpu$/ && to ~ /^src\/(.*\/)?cuda$/ || from ~ /^src\/(.*\/)?cuda$/ && to ~ /^src\/(.*\/)?cpu$/)
                return 1
            if (from == "cli")
                return to !~ /^(include|lab\/.*|cli)$/
            return from == "python" && to !~ /^(include|python)$/
        }
        function exists(path,    line, found) {
            found = (getline line < path) >= 0
            close(path)
            return found
        }
        function resolve(name) { # the same folders and order as the compiler: include, src, root
            if (exists("include/" name)) return "include/" name
            if (exists("src/" name)) return "src/" name
            if (exists(name)) return name
            return ""
        }
        function complain(text) {
            printf "%s:%d: %s\n", FILENAME, FNR, text
        }
        /^[ \t]*#[ \t]*include/ {
            name = $0
            sub(/^[ \t]*#[ \t]*include[ \t]*/, "", name)
            quote = substr(name, 1, 1)
            if (quote != "\"" && quote != "<") {
                complain("the included file is not spelled out")
                next
            }
            name = substr(name, 2)
            sub(/[">].*/, "", name)
            if (name ~ /(^|\/)\.\.?\//) {
                complain("\"" name "\" is a relative path")
                next
            }
            target = resolve(name)
            if (quote == "<") {
                if (target != "")
                    complain("<" name "> is a file of this tree: write it in quotes")
                next
            }
            if (target == "") {
                complain("\"" name "\" is not found from include, src or the root")
                next
            }
            from = layer_of(FILENAME)
            to = layer_of(target)
            if (!(from in rank) || !(to in rank))
                complain("\"" name "\": no rank is known for " (from in rank ? to : from))
            else if (rank[to] > rank[from])
                complain(from " includes from " to ", which stands above it")
            else if (is_forbidden(from, to))
                complain(from " must not include from " to)
        }')
}

check_names() { # every source, test and script has a name of its own
    find_in "$1" '*.[ch]' '*.def' '*.cu' '*.cuh' '*.sh' '*.py' -- "${folders[@]}" |
        awk -F/ '{ paths[$NF] = paths[$NF] " " $0; seen[$NF]++ }
                 END { for (name in seen)
                           if (seen[name] > 1 && name !~ /^__(init|main)__\.py$/)
                               print "one name, several files:" paths[name] }'
}

check_purpose() { # the first line is `/* name.c: purpose`
    local path line
    find_in "$1" '*.[ch]' '*.cu' '*.cuh' -- "${folders[@]}" | while IFS= read -r path; do
        line=
        IFS= read -r line <"$1/$path" || true
        [[ $line == "/* ${path##*/}: "?* ]] ||
            echo "$path:1: does not begin with \"/* ${path##*/}: purpose\""
    done
}

check_tree() {
    check_includes "$1"
    check_names "$1"
    check_purpose "$1"
}

fail() {
    echo "layers: $*" >&2
    exit 1
}

complaints=$(check_tree .)
if [[ -n $complaints ]]; then
    echo "$complaints" >&2
    exit 1
fi

# A copy of the tree with a harmless header in every layer, where violations are then planted.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
plants=0
for folder in "${folders[@]}"; do
    [[ ! -d $folder ]] || cp -r "$folder" "$scratch"
done
read -ra lab_folders <<<"$lab_layers"
lab_folders=("${lab_folders[@]/#/lab/}")
for layer in include kernels src/{base,cuda,cpu,core} src/attention{,/ref,/cpu,/cuda} src/merge "${lab_folders[@]}" cli python; do
    mkdir -p "$scratch/$layer"
    name=in_${layer//\//_}.h
    echo "/* $name: harmless. */" >"$scratch/$layer/$name"
done
[[ -z $(check_tree "$scratch") ]] || fail "the check complains of harmless files"

plant() { # plant FILE TEXT COMPLAINT: FILE, beginning with TEXT, must bring exactly COMPLAINT
    local file=$scratch/$1 found
    mkdir -p "${file%/*}"
    echo "$2" >"$file"
    found=$(check_tree "$scratch")
    [[ $found == *"$3"* && $found != *$'\n'* ]] ||
        fail "planted $2 in $1, wanted the complaint '$3', got '$found'"
    rm "$file"
    plants=$((plants + 1))
}

plant_include() { # plant_include FILE INCLUDE COMPLAINT: as plant, behind a proper first line
    plant "$1" "/* ${1##*/}: planted. */"$'\n'"$2" "$3"
}

plant_include include/planted.h '#include "base/in_src_base.h"' 'include includes from src/base'
plant_include kernels/planted.cu '#include "base/in_src_base.h"' 'kernels includes from src/base'
plant_include src/base/planted.c '#include "core/in_src_core.h"' 'src/base includes from src/core'
plant_include src/cpu/planted.c '#include "cuda/in_src_cuda.h"' 'src/cpu includes from src/cuda'
plant_include src/cuda/planted.c '#include "cpu/in_src_cpu.h"' 'src/cuda must not include from src/cpu'
plant_include src/cpu/planted.c '#include "attention/ref/in_src_attention_ref.h"' 'src/cpu must not include from src/attention/ref'
plant_include src/core/planted.c '#include "attention/in_src_attention.h"' 'src/core includes from src/attention'
plant_include src/attention/ref/planted.c '#include "core/in_src_core.h"' 'src/attention/ref includes from src/core'
plant_include src/attention/cpu/planted.c '#include "attention/ref/in_src_attention_ref.h"' 'must not include from src/attention/ref'
plant_include src/attention/cuda/planted.c '#include "attention/cpu/in_src_attention_cpu.h"' 'must not include from src/attention/cpu'
plant_include src/core/planted.c '  #  include "lab/base/in_lab_base.h"' 'src/core includes from lab/base'
for ((i = 0; i + 1 < ${#lab_folders[@]}; i++)); do # every folder of lab/ from the next one above it
    above=${lab_folders[i + 1]}
    plant_include "${lab_folders[i]}/planted.c" "#include \"$above/in_${above//\//_}.h\"" "${lab_folders[i]} includes from $above"
done
plant_include lab/report/planted.c '#include "cli/in_cli.h"' 'lab/report includes from cli'
plant_include lab/moe/planted.c '#include "lab/merge/in_lab_merge.h"' 'lab/moe must not include from lab/merge'
plant_include lab/moe/planted.c '#include "merge/in_src_merge.h"' 'lab/moe must not include from src/merge'
plant_include src/moe/planted.c '#include "merge/in_src_merge.h"' 'src/moe must not include from src/merge'
plant_include lab/planted.c '#include "in_include.h"' 'no rank is known for lab/planted.c'
plant_include cli/planted.c '#include "base/in_src_base.h"' 'cli must not include from src/base'
plant_include python/core/planted.c '#include "core/in_src_core.h"' 'python must not include from src/core'
plant_include python/core/planted.c '#include "lab/base/in_lab_base.h"' 'python must not include from lab/base'
plant_include cli/planted.c '#include "python/in_python.h"' 'cli includes from python'
plant_include src/core/planted.c '#include "../base/in_src_base.h"' 'is a relative path'
plant_include src/core/planted.c '#include "base/../lab/in_lab.h"' 'is a relative path'
plant_include src/core/planted.c '#include "in_src_core.h"' 'is not found from include, src or the root'
plant_include src/core/planted.c '#include <in_include.h>' 'write it in quotes'
plant_include src/core/planted.c '#include PLANTED' 'is not spelled out'
plant_include src/other/planted.c '#include "in_include.h"' 'no rank is known for src/other'
plant_include cli/in_lab_base.h '' 'one name, several files:'
plant tests/planted.c 'int planted;' 'does not begin with'

echo "layers: $(list_sources . | wc -l) files in order; $plants planted violations found"
