#!/usr/bin/env bash
# audit_wheel.sh TOOLS WHEEL: checks that a wheel matches its name and is small enough to publish.
#
# TOOLS is the folder into which scripts/setup.sh fetched auditwheel. auditwheel does not notice a function without a
# version that no system library has; this script does.
set -euo pipefail

tools=$1 wheel=$2
most=$((25 * 1000 * 1000)) # bytes
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

fail() {
    echo "audit_wheel: ${wheel##*/}: $*" >&2
    exit 1
}

platform=${wheel##*-}
platform=${platform%%.*}
said=$(PYTHONPATH=$tools PYTHONDONTWRITEBYTECODE=1 python3 -m auditwheel show "$wheel" 2>&1 | tr -s '\n ' ' ')
[[ $said == *"the following platform tag: \"$platform\""* ]] || fail "auditwheel does not find it to be $platform: $said"

size=$(stat -c %s "$wheel")
((size < most)) || fail "it has $size bytes, $most are allowed"

python3 -m zipfile -e "$wheel" "$scratch"
while IFS= read -r binary; do
    ! readelf -SW "$binary" | grep -qE ' \.(debug_info|symtab) ' || fail "${binary##*/} is not stripped"
    strangers=$(nm -D --undefined-only "$binary" | awk '$1 == "U" && $2 !~ /@/ { print $2 }' |
        grep -vE '^(_?Py[A-Z_]|att_embedded_(codes|texts)$)' || true)
    [[ -z $strangers ]] || fail "${binary##*/} needs what no system library has: ${strangers//$'\n'/, }"
done < <(find "$scratch" -name '*.so' -o -path '*/attest/bin/attest')

printf '%s: %s, %s, %.1f MB\n' "${wheel##*/}" "$platform" abi3 "$((size / 1000))e-3"
