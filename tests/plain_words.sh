# plain_words.sh: runs commands of pages without a shell; sourced by tests. tests/install.sh checks what it refuses.
# shellcheck shell=bash disable=SC2034 # `words` is used by the scripts that source this

# plain_words LINE: the words of a command up to its comment, into `words`. Nothing is expanded: a word is letters,
# digits and some signs, in single quotes if it has a star. Anything that the shell would read differently is refused.
plain_words() {
    local word split
    words=()
    read -ra split <<<"${1%%#*}"
    for word in "${split[@]}"; do
        if [[ $word =~ ^[A-Za-z0-9_.,=/-]+$ ]]; then
            words+=("$word")
        elif [[ $word =~ ^\'([A-Za-z0-9_.,=/*-]+)\'$ ]]; then
            words+=("${BASH_REMATCH[1]}")
        else
            return 1
        fi
    done
}
