#!/usr/bin/env bash
# setup.sh: install what `make run`, `make test`, `make test-frameworks`, `make lint`, `make test-bare`, `make wheel`,
# `make deb`, `make CROSS=aarch64-linux-gnu-` or `make test-aarch64` needs on this machine.
#
#   [BUILD=build] [TOOLS=$BUILD/tools] scripts/setup.sh run|test|frameworks|lint|bare|wheel|deb|cross|aarch64
#
# Silent and instant if nothing is missing. Otherwise installs the missing Debian packages if root or passwordless sudo
# allows it; if not, names them in one line and exits with 3. The disassembler for GPU code, which a CUDA toolkit may
# lack, and the tools of `make wheel` come from PyPI; without them their tests are skipped. PyTorch, transformers and JAX
# come from there too, into a Python environment of their own, $TOOLS/frameworks. Libraries for another processor come from Debian and are unpacked into the tools' folder: see sysroot.sh.
set -euo pipefail

: "${BUILD:=build}" "${CROSS:=aarch64-linux-gnu-}"
: "${TOOLS:=$BUILD/tools}"

missing=()
wished=() # missing too, but a machine that cannot have them only skips their tests

need() { # need PACKAGE CHECK [ARGUMENT...]: PACKAGE is missing unless CHECK holds
    local package=$1
    shift
    "$@" || [[ " ${missing[*]-} " == *" $package "* ]] || missing+=("$package")
}

wish() { # wish PACKAGE CHECK [ARGUMENT...]: the same of what `make test` can do without
    local package=$1
    shift
    "$@" || wished+=("$package")
}

has_command() {
    command -v "$1" >/dev/null 2>&1
}

has_header() { # has_header NAME: in the places where a compiler looks unasked
    local -a folders=(/usr/local/include /usr/include /usr/include/*-linux-gnu)
    local folder
    if [[ -n ${CPATH:-} ]]; then
        IFS=: read -ra more <<<"$CPATH"
        folders+=("${more[@]}")
    fi
    for folder in "${folders[@]}"; do
        [[ -e $folder/$1 ]] && return 0
    done
    return 1
}

has_numpy() { # the file first: starting Python takes longer than everything else here
    [[ -e /usr/lib/python3/dist-packages/numpy/__init__.py ]] ||
        python3 -c 'import numpy' >/dev/null 2>&1
}

has_python_headers() {
    compgen -G '/usr/include/python3*/Python.h' >/dev/null
}

has_pytest() {
    [[ -e /usr/lib/python3/dist-packages/pytest/__init__.py ]] ||
        python3 -c 'import pytest' >/dev/null 2>&1
}

has_pip() {
    [[ -e /usr/lib/python3/dist-packages/pip/__init__.py ]] || python3 -c 'import pip' >/dev/null 2>&1
}

has_font() { # any at all
    compgen -G '/usr/share/fonts/*/*/*.ttf' >/dev/null || compgen -G '/usr/share/fonts/*/*.ttf' >/dev/null
}

has_fuzzer() { # what clang links for -fsanitize=fuzzer
    compgen -G '/usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.fuzzer-'"$(uname -m)"'.a' >/dev/null
}

need_for_run() {
    local compiler=${CC:-cc} # what make will call; the first word, where it has flags
    case $compiler in
    *clang*) need clang has_command "${compiler%% *}" ;;
    *) need gcc has_command "${compiler%% *}" ;;
    esac
    need libc6-dev has_header stdio.h
    need libjansson-dev has_header jansson.h
}

need_for_test() {
    need_for_run
    need gcc has_command gcc # the coverage is gcc's, whatever CC is
    need g++ has_command c++
    need clang has_command clang
    need libclang-rt-dev has_fuzzer
    need chromium has_command chromium
    need fonts-dejavu-core has_font # text on the pictures, not boxes
    need cmake has_command cmake
    need gcovr has_command gcovr
    need git has_command git
    need groff-base has_command groff
    need libcmocka-dev has_header cmocka.h
    need openssh-client has_command ssh-keygen
    need pkg-config has_command pkg-config
    need python3 has_command python3
    need python3-dev has_python_headers
    need python3-numpy has_numpy
    need python3-pytest has_pytest
    need python3-pip has_pip
    need_for_deb
    wish libopenmpi-dev has_command mpicc
    wish openmpi-bin has_command mpirun
}

need_for_wheel() {
    need_for_run
    need python3 has_command python3
    need python3-dev has_python_headers
    need python3-pip has_pip
}

need_for_frameworks() {
    need_for_run
    need python3 has_command python3
    need python3-dev has_python_headers
    need python3-pip has_pip
}

need_for_deb() {
    need_for_run
    need binutils has_command strip
    need dpkg has_command dpkg-deb
}

# What a cross compiler needs, and what of that processor the library, the program, their tests and the Python package use.
triple=${CROSS##*/}
triple=${triple%-}
sysroot=(libjansson-dev libcmocka-dev libcmocka0 python3-dev python3 libexpat1 zlib1g python3-numpy libblas3 liblapack3 libgfortran5)

has_cross_libc() {
    [[ -e /usr/$triple/include/stdio.h ]]
}

has_sysroot() {
    [[ -e $TOOLS/$triple/packages.txt && $(<"$TOOLS/$triple/packages.txt") == "$(printf '%s\n' "${sysroot[@]}")" ]]
}

fetch_sysroot() {
    echo "setup: unpacking Debian's libraries for $triple into $TOOLS/$triple"
    mkdir -p "$TOOLS"
    if [[ $triple != aarch64-linux-gnu ]] ||
        ! "${BASH_SOURCE[0]%/*}/sysroot.sh" "$TOOLS/$triple" arm64 "${sysroot[@]}" >/dev/null 2>&1; then
        echo 'setup: cannot fetch them; SYSROOT=FOLDER names others'
        return 1
    fi
}

need_for_cross() {
    need "gcc-$triple" has_command "${CROSS}gcc"
    [[ $triple != aarch64-linux-gnu ]] || need libc6-dev-arm64-cross has_cross_libc
}

need_for_aarch64() { # nothing on such a machine itself
    [[ $(uname -m) != aarch64 ]] || return 0
    wish gcc-aarch64-linux-gnu has_command aarch64-linux-gnu-gcc
    wish libc6-dev-arm64-cross has_cross_libc
    wish qemu-user has_command qemu-aarch64
}

need_for_lint() {
    need_for_run
    need clang-format has_command clang-format
    need clang-tidy has_command clang-tidy
    need cppcheck has_command cppcheck
    need shellcheck has_command shellcheck
    need libcmocka-dev has_header cmocka.h
    need python3-dev has_python_headers
}

need_for_bare() {
    need debootstrap has_command debootstrap
    need debian-archive-keyring test -e /usr/share/keyrings/debian-archive-keyring.gpg
    need git has_command git
}

has_nvdisasm() {
    local nvcc
    nvcc=$(command -v nvcc || echo "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc")
    [[ ! -x $nvcc || -x ${nvcc%/*}/nvdisasm ]] || has_command nvdisasm ||
        compgen -G "$TOOLS/nvidia/cu*/bin/nvdisasm" >/dev/null
}

has_wheel_tools() {
    local tools=$TOOLS
    [[ -x $tools/ziglang/zig && -e $tools/auditwheel/__init__.py && -e $tools/elftools/__init__.py &&
        -e $tools/packaging/__init__.py ]]
}

fetch() { # fetch NAMES LIST OTHERWISE [FOLDER]: what LIST names, from PyPI into the build folder; OTHERWISE says what lacks without
    echo "setup: fetching $1"
    python3 -m pip install --quiet --no-deps --only-binary :all: --require-hashes --target "${4:-$TOOLS}" \
        -r "${BASH_SOURCE[0]%/*}/$2" >/dev/null 2>&1 ||
        { echo "setup: cannot fetch $1; $3"; return 1; }
}

fetch_nvdisasm() {
    fetch nvidia-cuda-nvdisasm nvdisasm.txt 'the machine code of fwd_sm90 will not be read' || return 0
    chmod +x "$TOOLS"/nvidia/cu*/bin/nvdisasm
}

fetch_wheel_tools() {
    fetch 'ziglang and auditwheel' wheel_tools.txt 'no wheel for other systems can be built'
}

# Complete if it has the list that it was made from. Without pip: that needs one more package on Debian.
has_frameworks() {
    cmp -s "${BASH_SOURCE[0]%/*}/frameworks.txt" "$TOOLS/frameworks/frameworks.txt"
}

fetch_frameworks() {
    local venv=$TOOLS/frameworks packages
    rm -rf "$venv"
    if ! python3 -m venv --without-pip "$venv" ||
        ! packages=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'); then
        echo 'setup: Python cannot make an environment for PyTorch, transformers and JAX; the tests with them cannot run'
        return 1
    fi
    fetch 'PyTorch, transformers and JAX (some gigabytes)' frameworks.txt 'the tests with them cannot run' "$packages" || return 1
    cp "${BASH_SOURCE[0]%/*}/frameworks.txt" "$venv/frameworks.txt"
}

as_root() {
    if [[ $(id -u) -eq 0 ]]; then
        "$@"
    else
        sudo -n "$@"
    fi
}

may_install() {
    has_command apt-get && { [[ $(id -u) -eq 0 ]] || sudo -n true 2>/dev/null; }
}

apt() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 "$@"
}

install() { # install PACKAGE...
    local log status=0
    log=$(mktemp)
    echo "setup: installing $*"
    { apt update && apt install -y --no-install-recommends "$@"; } >"$log" 2>&1 ||
        status=$?
    [[ $status -eq 0 ]] || grep '^E:' "$log" >&2 || true
    rm -f "$log"
    return "$status"
}

main() {
    case ${1:-} in
    run | test | frameworks | lint | bare | wheel | deb | cross | aarch64) "need_for_$1" ;;
    *)
        echo "usage: setup.sh run|test|frameworks|lint|bare|wheel|deb|cross|aarch64" >&2
        exit 2
        ;;
    esac
    if [[ ${#missing[@]} -gt 0 ]] && { ! may_install || ! install "${missing[@]}"; }; then
        echo "setup: please install these Debian packages: ${missing[*]}" >&2
        exit 3
    fi
    if [[ ${#wished[@]} -gt 0 ]] && { ! may_install || ! install "${wished[@]}"; }; then
        echo "setup: these Debian packages are not available, their tests will be skipped: ${wished[*]}"
    fi
    case $1 in
    test)
        has_wheel_tools || fetch_wheel_tools || true
        has_nvdisasm || fetch_nvdisasm
        ;;
    frameworks) has_frameworks || fetch_frameworks || exit 3 ;;
    wheel) has_wheel_tools || fetch_wheel_tools || exit 3 ;;
    cross) has_sysroot || fetch_sysroot || exit 3 ;;
    aarch64) [[ $(uname -m) == aarch64 ]] || has_sysroot || fetch_sysroot || true ;;
    esac
}

main "$@"
