#!/usr/bin/env bash
# test_setup.sh: everything that scripts/setup.sh fetches with pip is pinned to one version with one digest.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
passed=0
failed=0

check() { # check NAME COMMAND...
    local name=$1
    shift
    if "$@"; then
        passed=$((passed + 1))
    else
        echo "FAILED $name"
        failed=$((failed + 1))
    fi
}

# A toolkit without a disassembler, and a Python that records how it is called.
mkdir "$scratch/bin"
printf '#!/bin/sh\n' >"$scratch/bin/nvcc"
cat >"$scratch/bin/python3" <<END
#!/bin/sh
case \$2 in
pip) echo "\$@" >>"$scratch/calls"; [ ! -e "$scratch/offline" ] ;;
venv) mkdir -p "\$4/bin"; printf '#!/bin/sh\necho %s/packages\n' "\$4" >"\$4/bin/python"; chmod +x "\$4/bin/python" ;;
esac
END
chmod +x "$scratch"/bin/*
: >"$scratch/calls"
set_up() { # set_up TARGET
    PATH=$scratch/bin:$PATH BUILD=$scratch/build scripts/setup.sh "$1" 2>&1
}

set_up test >/dev/null
check 'pip is called once per list' test "$(grep -c ' install ' "$scratch/calls")" -eq 2

# An environment for the frameworks, once per list.
touch "$scratch/offline"
said=$(set_up frameworks)
check 'without a network it cannot be fetched' test $? -eq 3
check 'one line says so' test "$(grep -c '^setup: cannot fetch .*; the tests with them cannot run$' <<<"$said")" -eq 1
rm "$scratch/offline"
check 'it is fetched the next time' set_up frameworks >/dev/null
check 'in a folder of its own' grep -q -- " --target $scratch/build/tools/frameworks/packages " "$scratch/calls"
fetched=$(wc -l <"$scratch/calls")
check 'it is kept' set_up frameworks
check 'nothing is fetched again' test "$(wc -l <"$scratch/calls")" -eq "$fetched"
echo other >"$scratch/build/tools/frameworks/frameworks.txt"
check 'that of another list is made again' set_up frameworks >/dev/null
check 'by this list' test "$(wc -l <"$scratch/calls")" -eq $((fetched + 1))

for list in nvdisasm wheel_tools frameworks; do
    check "by the list $list" grep -q -- " -r scripts/$list.txt$" "$scratch/calls"
    check "$list has one version and digest per package" test "$(grep -v '^#' "scripts/$list.txt" |
        grep -vcE '^[a-z0-9-]+==[0-9.]+( --hash=sha256:[0-9a-f]{64})+$')" -eq 0
done
check 'with digests' test "$(grep ' install ' "$scratch/calls" | grep -vc -- ' --require-hashes ')" -eq 0
check 'for what is named with them alone' test "$(grep ' install ' "$scratch/calls" | grep -vc -- ' --no-deps ')" -eq 0
check 'no other script or rule has pip fetch anything' test -z \
    "$(grep -rnE 'pip3? (install|download) [^.]' Makefile mk scripts tests .ci | grep -v -e '--no-index' |
        grep -vE '^(scripts/setup.sh|tests/test_setup.sh):')"

echo "$passed passed, $failed failed, 0 skipped"
((failed == 0))
