#!/usr/bin/env bash
# signed_release.sh: `make release`: the tests that it needs; and its end, with stand-ins for the packages: notes, digests
# and a valid signature.
#
# `make test-packages` sets VERSION.
set -euo pipefail
cd "$(dirname "$0")/../.."

: "${VERSION:?}"
# shellcheck source=tests/quietly.sh
source tests/quietly.sh

folder=$scratch/dist
names=("libattest-$VERSION.tar.gz" "libattest-$VERSION-cp39-abi3-any_"{x86_64,aarch64}.whl "libattest0_${VERSION}_amd64.deb" "libattest-dev_${VERSION}_amd64.deb"
    "attest_${VERSION}_amd64.deb")
holds() {
    (cd "$folder" && ssh-keygen -Y verify -f "$scratch/signers" -I lab@example.org -n attest -s SHA256SUMS.sig <SHA256SUMS &&
        sha256sum -c SHA256SUMS) >/dev/null 2>&1
}

planned=$(env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make -n release MAKE='echo a part:')
for part in test test-timing test-frameworks test-bare; do
    grep -qE "^a part: .* $part\$" <<<"$planned" || fail "a release does not need make $part"
done
refuses() { # refuses STATUS WORDS: a preparation that exits so
    ! said=$(scripts/release.sh require test-bare bash -c "exit $1" 2>&1) && grep -q "^release: make test-bare $2" <<<"$said"
}
quietly scripts/release.sh require test-bare true
refuses 3 'cannot run on this machine, and a release needs it$' || fail 'a release does without what this machine cannot test'
refuses 1 'cannot be prepared: .* exited with 1$' || fail 'a release does without what cannot be prepared'

mkdir "$folder"
! scripts/release.sh finish "$VERSION" "$folder" >/dev/null 2>&1 || fail 'a release without packages is taken'
for name in "${names[@]}"; do
    echo "$name" >"$folder/$name"
done
quietly ssh-keygen -q -t ed25519 -N '' -f "$scratch/key"
echo "lab@example.org $(cat "$scratch/key.pub")" >"$scratch/signers"

quietly scripts/release.sh finish "$VERSION" "$folder"
grep -q unsigned "$scratch/log" || fail 'a release without a signature does not say so'
SIGN=$scratch/key quietly scripts/release.sh finish "$VERSION" "$folder"
[[ $(wc -l <"$folder/SHA256SUMS") -eq $((${#names[@]} + 1)) ]] || fail 'SHA256SUMS does not list every file'
holds || fail 'the signature does not hold'
grep -q '^\*\*api\*\*$' "$folder/RELEASE_NOTES.md" || fail 'the notes are not those of the changelog'
! grep -q '^## ' "$folder/RELEASE_NOTES.md" || fail 'the notes have more than one version'

# A heading may have a date; a longer version is another one.
tree=$scratch/tree
mkdir -p "$tree/scripts"
cp scripts/release.sh "$tree/scripts"
printf '%s\n' '# Changelog' '' "## $VERSION.1" '' later '' "## $VERSION (2026-11-15)" '' this '' '## 0.0.1 (2026-01-02)' '' earlier >"$tree/CHANGELOG.md"
quietly "$tree/scripts/release.sh" finish "$VERSION" "$folder"
[[ $(<"$folder/RELEASE_NOTES.md") == this ]] || fail 'a heading with a date has other notes'
SIGN=$scratch/key quietly scripts/release.sh finish "$VERSION" "$folder"

echo more >>"$folder/${names[1]}"
! holds || fail 'a changed package holds'
(cd "$folder" && sha256sum RELEASE_NOTES.md "${names[@]}" >SHA256SUMS)
! holds || fail 'digests that nobody signed hold'
echo "release: tests, notes, digests and signature hold"
