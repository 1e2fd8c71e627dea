# faults_list.sh: reads faults.txt; to be sourced.
#
# read_faults FILE fills `names` and, by name, `kind`, `kernel`, `problems`, `sms`, `file`, `times`, `find`, `put`,
# `quick`, `equivalent` and `missed`. It fails at the first line that it does not understand, and says where.
#
# shellcheck shell=bash disable=SC2034 # others use what it fills
declare -a names=()
declare -A kind kernel problems sms file times find put quick equivalent missed

faults_complain() { # faults_complain TEXT
    echo "$list:$line_number: $1" >&2
    return 1
}

begin_fault() { # begin_fault KIND NAME [N times] [quick]
    local is=$1 name=$2
    shift 2
    [[ -n $name && -z ${kind[$name]:-} ]] || { faults_complain "'$name' is not a name, or is given twice" || return; }
    names+=("$name")
    kind[$name]=$is
    kernel[$name]=$now_kernel
    problems[$name]=$now_problems
    sms[$name]=$now_sms
    file[$name]=$now_file
    times[$name]=1
    while (($#)); do
        case $1 in
        quick) quick[$name]=yes ;;
        [1-9]*) times[$name]=$1 && shift ;;
        *) faults_complain "'$1' is neither 'N times' nor 'quick'" || return ;;
        esac
        shift
    done
    now=$name
}

add_line() { # add_line FIND|PUT TEXT: one more line of it
    local -n of=$1
    [[ -n $now ]] || { faults_complain 'this belongs to no fault' || return; }
    of["$now"]=${of["$now"]+${of["$now"]}$'\n'}$2
}

read_faults() { # read_faults FILE
    local line line_number=0 list=$1 now='' now_kernel='' now_problems='' now_sms=2 now_file=''
    while IFS= read -r line; do
        line_number=$((line_number + 1))
        case $line in
        '' | '#'*) continue ;;
        -*) add_line find "${line#-}" || return ;;
        +*) add_line put "${line#+}" || return ;;
        *)
            local -a words
            read -ra words <<<"$line"
            case ${words[0]} in
            kernel) now_kernel=${words[1]} now_sms=2 ;;
            sms) now_sms=${words[1]} ;;
            on) now_problems=${words[*]:1} ;;
            in) now_file=${words[1]} ;;
            synchronisation | addressing | masks | numbers) begin_fault "${words[@]}" || return ;;
            equivalent) equivalent[$now]=${words[*]:1} ;;
            missed) missed[$now]=${words[*]:1} ;;
            *) faults_complain "'${words[0]}'?" || return ;;
            esac
            ;;
        esac
    done <"$list"
}

declare -A digest # of all that makes a fault what it is
digest_faults() { # digest_faults FOLDER: an empty one
    local name sum
    for name in "${names[@]}"; do
        printf "%s\n" "${kind[$name]}" "${kernel[$name]}" "${problems[$name]}" "${sms[$name]}" "${file[$name]}" "${times[$name]}" "${find[$name]}" \
            "${put[$name]:-}" >"$1/$name"
    done
    while read -r sum name; do
        digest[$name]=${sum:0:12}
    done < <(cd "$1" && sha256sum -- *)
}

# Digests of what a result depends on besides the fault itself.
kernels_digest() {
    cat kernels/*.cu kernels/*.cuh kernels/*.h kernels/*.def | sha256sum | cut -c 1-12
}

virtual_digest() {
    cat tests/virtual_gpu/*.c tests/virtual_gpu/*.h | sha256sum | cut -c 1-12
}
