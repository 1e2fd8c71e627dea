#!/usr/bin/env bash
# release.sh: the parts of a release, from a committed and tested tree; `make release` calls them in order.
#
#   release.sh check VERSION             check that this tree may be released
#   release.sh require TARGET COMMAND... prepare the tests of `make TARGET`, without which nothing is released
#   release.sh finish VERSION FOLDER     release notes, digests and, with SIGN, their signature beside the packages in FOLDER
#
# SIGN is the private key for an ssh-keygen signature, as for `attest certify --sign`; the namespace is `attest`. Check
# it with
#   ssh-keygen -Y verify -f SIGNERS -I NAME -n attest -s SHA256SUMS.sig <SHA256SUMS && sha256sum -c SHA256SUMS
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
    echo "release: $*" >&2
    exit 1
}

notes() { # notes VERSION: its part of the changelog, without the heading `## VERSION` or `## VERSION (DATE)`
    awk -v version="$1" '
        /^## / { inside = $2 == version && (NF == 2 || NF == 3 && $3 ~ /^\([0-9]+-[0-9]+-[0-9]+\)$/); next }
        inside' CHANGELOG.md | sed '/./,$!d'
}

check() { # check VERSION
    [[ -z $(git status --porcelain) ]] || fail 'the tree has changes that are not committed'
    [[ -n $(notes "$1") ]] || fail "CHANGELOG.md says nothing of $1"
    grep -qx "version: $1" CITATION.cff || fail "CITATION.cff is not of $1"
    [[ -n ${NVCC:-} ]] || fail 'nvcc is needed: a release has the GPU kernels'
    [[ -z ${SIGN:-} || -r $SIGN ]] || fail "there is no key $SIGN"
}

require() { # require TARGET COMMAND...: an exit code of 3 means that this machine cannot run them
    local target=$1 status=0
    shift
    "$@" || status=$?
    case $status in
    0) ;;
    3) fail "make $target cannot run on this machine, and a release needs it" ;;
    *) fail "make $target cannot be prepared: $* exited with $status" ;;
    esac
}

finish() { # finish VERSION FOLDER
    local version=$1 pattern
    cd "$2"
    for pattern in "libattest-$version.tar.gz" "libattest-$version-*_x86_64.whl" "libattest-$version-*_aarch64.whl" "libattest[0-9]*_${version}_*.deb" "libattest-dev_${version}_*.deb" \
        "attest_${version}_*.deb"; do
        compgen -G "$pattern" >/dev/null || fail "$2 has no $pattern"
    done
    (cd "$OLDPWD" && notes "$version") >RELEASE_NOTES.md
    rm -f SHA256SUMS SHA256SUMS.sig
    sha256sum RELEASE_NOTES.md ./*"$version"*.{tar.gz,whl,deb} | sed 's, \./, ,' >SHA256SUMS
    if [[ -n ${SIGN:-} ]]; then
        ssh-keygen -q -Y sign -f "$SIGN" -n attest SHA256SUMS
    else
        echo 'release: SHA256SUMS is unsigned: SIGN=KEY signs it'
    fi
    cat SHA256SUMS
}

case ${1:-} in
check) check "$2" ;;
require) require "${@:2}" ;;
finish) SIGN=${SIGN:+$(realpath "$SIGN")} finish "$2" "$3" ;;
*)
    echo 'usage: release.sh check VERSION | require TARGET COMMAND... | finish VERSION FOLDER' >&2
    exit 2
    ;;
esac
