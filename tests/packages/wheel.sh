#!/usr/bin/env bash
# wheel.sh: the wheel of `make wheel` and the archive of `make sdist`, from the point of view of someone who installs
# them.
#
# `make test-packages` sets BUILD, VERSION, IMAGE_COUNT (0: no GPU kernels are embedded) and TOOLS.
set -euo pipefail
cd "$(dirname "$0")/../.."

: "${BUILD:=build}" "${VERSION:?}" "${IMAGE_COUNT:?}" "${TOOLS:?}"
# shellcheck source=tests/quietly.sh
source tests/quietly.sh

in_make() { # make from inside make would say which folder it enters
    make --no-print-directory BUILD="$BUILD" DIST="$scratch/dist" "$@"
}

check_audit() { # the audit refuses what it should: a name for an older system, a wheel that is too large, debug information
    local other=$scratch/libattest-$VERSION-cp39-abi3-manylinux_2_5_x86_64.whl
    cp "$wheel" "$other"
    ! scripts/audit_wheel.sh "$TOOLS" "$other" >/dev/null 2>&1 || fail 'the audit takes the tag manylinux_2_5'
    rm "$other"
    mkdir -p "$scratch/unstripped/attest"
    echo 'int att_planted;' | "${CC:-cc}" -g -shared -fPIC -x c - -o "$scratch/unstripped/attest/_core.abi3.so"
    quietly python3 packaging/libattest_build.py wheel "$scratch/unstripped" manylinux_2_36_x86_64 "$scratch"
    ! scripts/audit_wheel.sh "$TOOLS" "$scratch"/*manylinux_2_36* >/dev/null 2>&1 || fail 'the audit takes debug information'
    rm "$scratch"/*manylinux_2_36*
}

check_installed() { # in an environment of its own, away from the sources
    local bin=$scratch/venv/bin
    quietly python3 -m venv --without-pip "$scratch/venv"
    quietly python3 -m pip --python "$bin/python" install --no-index --no-deps "$wheel"
    (cd / && env -u PYTHONPATH "$bin/python" - "$VERSION" <<'PYTHON') || fail 'the installed package does not hold'
import sys

import attest
from importlib.metadata import version
assert attest.__version__ == version("libattest") == sys.argv[1]
assert attest.__file__.startswith(sys.prefix)
assert attest.devices()[0].device == "cpu"
PYTHON
    (cd / && quietly "$bin/python" -m attest info)
    (cd / && quietly "$bin/attest" verify --suite seed --device cpu)
    (cd / && quietly "$bin/attest" certify --check)
    grep -q ' checked, 0 failed' "$scratch/log" || fail 'the program of the wheel does not find its evidence'
    [[ $(cd / && "$bin/attest" --version) == "$("$BUILD/attest" --version)" ]] || fail 'the program is of another version'
    (cd / && "$bin/attest" no-such-verb >/dev/null 2>&1) || [[ $? -eq 2 ]] || fail 'the exit status gets lost'
    embedded=$(strings -n 8 "$scratch"/venv/lib/python*/site-packages/attest/libattest_kernels-*.so | grep -c '^fwd_sm90_bf16' || true)
    ((IMAGE_COUNT == 0 || embedded > 0)) || fail 'the wheel has no GPU kernels'
    quietly python3 -m pip --python "$bin/python" uninstall -y libattest
    [[ -z $(find "$scratch"/venv/lib/python*/site-packages -name '*attest*') ]] || fail 'something stays after pip uninstall'
}

check_sdist() { # it holds every file of the project, twice the same bytes, and what pip needs to build from it
    local archive=$scratch/dist/libattest-$VERSION.tar.gz first
    quietly in_make sdist
    first=$(sha256sum <"$archive")
    quietly in_make sdist
    [[ $(sha256sum <"$archive") == "$first" ]] || fail 'two archives of the same files differ'
    tar -C "$scratch" -xzf "$archive"
    diff <(PYTHONDONTWRITEBYTECODE=1 python3 -c 'import sys; sys.path.insert(0, "packaging"); import libattest_build; print(*libattest_build.source_files(), sep="\n")') \
        <(cd "$scratch/libattest-$VERSION" && find . -type f ! -name PKG-INFO -printf '%P\n' | LC_ALL=C sort) >/dev/null ||
        fail 'the source archive lacks files, or has others'
    grep -qx "Version: $VERSION" "$scratch/libattest-$VERSION/PKG-INFO" || fail 'PKG-INFO has another version'
}

check_pip() { # pip builds from the tree, of the objects that are there, and leaves nothing in it
    touch "$scratch/stamp"
    ATTEST_BUILD=$BUILD quietly python3 -m pip install --no-index --no-deps --target "$scratch/target" .
    [[ -x $scratch/target/attest/bin/attest ]] || fail 'pip installs no program'
    (cd / && PYTHONPATH=$scratch/target quietly python3 -m attest --version)
    [[ -z $(find . \( -path "./$BUILD" -o -path ./.git \) -prune -o -type f -newer "$scratch/stamp" -print) ]] || fail 'pip leaves files in the tree'
    [[ ! -e packaging/__pycache__ ]] || fail 'pip leaves compiled Python in the tree'
}

check_sdist
check_pip
if ! in_make wheel >"$scratch/log" 2>&1; then
    grep -q 'cannot fetch' "$scratch/log" || { cat "$scratch/log" >&2; fail 'make wheel failed'; }
    echo "skipped: wheel: $(grep 'cannot fetch' "$scratch/log")"
    exit 0
fi
wheel=$(echo "$scratch"/dist/*.whl)
check_audit
check_installed
echo "wheel: $(stat -c %s "$wheel" | awk '{ printf "%.1f", $1 / 1e6 }') MB; audit, environment, program, evidence, removal, source archive and pip hold"
