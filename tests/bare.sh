#!/usr/bin/env bash
# bare.sh: `make run` and `make test` on a Debian 12 with git and make and nothing else that they need.
#
#   [BUILD=build] [BARE_RUNNERS=...] tests/bare.sh [prepare]
#
# Makes the system with debootstrap under $BUILD/bare, clones this tree into a fresh copy of it, including uncommitted
# changes to tracked files, and runs both commands in it with chroot. The system and Debian's packages are kept for the
# next run; the copy is kept only if the tests fail. With `prepare`, stops when the system is ready. BARE_RUNNERS names
# the parts of `make test` to run; if empty, all of them. BARE_MIRROR is the Debian mirror.
#
# Needs root, mounts and a network. If the machine does not allow one of them, prints one line and exits with 3. All
# mounts are made in a separate mount namespace, and all processes run in a separate process namespace: both end with
# this script, however it ends.
set -euo pipefail
cd "$(dirname "$0")/.."

: "${BUILD:=build}" "${BARE_RUNNERS:=}" "${BARE_MIRROR:=http://deb.debian.org/debian}"
folder=$PWD/$BUILD/bare
[[ $BUILD != /* ]] || folder=$BUILD/bare
base=$folder/base         # Debian 12, git and make
archives=$folder/archives # packages that apt has fetched
system=$folder/system     # the copy that the tests run in

cannot() {
    echo "test-bare: not on this machine: $*" >&2
    exit 3
}

fail() {
    echo "test-bare: $*" >&2
    exit 1
}

make_base() {
    local log=$folder/debootstrap.log
    echo 'test-bare: making a Debian 12 with git and make (debootstrap)'
    rm -rf "$base.new"
    debootstrap --variant=minbase --include=ca-certificates,git,make bookworm "$base.new" "$BARE_MIRROR" >"$log" 2>&1 ||
        cannot "debootstrap fails: $(grep -m 1 -E '^(E|W):' "$log" || tail -n 1 "$log"); see $log"
    rm -rf "$base.new"/var/cache/apt/archives/*.deb
    mv "$base.new" "$base"
}

# Like those of a container: only harmless devices, and its own terminals.
mount_devices() {
    local device
    mount -t tmpfs -o mode=755 tmpfs "$system/dev"
    for device in null zero full random urandom tty; do
        : >"$system/dev/$device"
        mount --bind "/dev/$device" "$system/dev/$device"
    done
    mkdir "$system/dev/pts" "$system/dev/shm"
    mount -t devpts -o newinstance,ptmxmode=0666 devpts "$system/dev/pts"
    mount -t tmpfs tmpfs "$system/dev/shm"
    ln -s pts/ptmx "$system/dev/ptmx"
    ln -s /proc/self/fd "$system/dev/fd"
    ln -s fd/0 "$system/dev/stdin"
    ln -s fd/1 "$system/dev/stdout"
    ln -s fd/2 "$system/dev/stderr"
}

mount_all() {
    mount_devices
    mount -t proc proc "$system/proc"
    mount -t sysfs -o ro sysfs "$system/sys"
    mkdir -p "$archives/partial"
    mount --bind "$archives" "$system/var/cache/apt/archives"
}

clone() { # what is checked out here, as a clone of it; the name of the folder is in no program, which test-install relies on
    git clone --quiet --no-hardlinks . "$system/srv/bare-clone" || fail 'the tree cannot be cloned'
    git diff --binary HEAD | git -C "$system/srv/bare-clone" apply --allow-empty ||
        fail 'changes that are not committed cannot be taken along'
}

inside() { # inside COMMAND...: in the copy, with the settings of a first login
    local -a settings=(PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb)
    local name
    for name in http_proxy https_proxy no_proxy; do
        [[ -z ${!name:-} ]] || settings+=("$name=${!name}")
    done
    chroot "$system" /usr/bin/env -i "${settings[@]}" /bin/sh -c 'cd /srv/bare-clone && exec "$@"' sh "$@"
}

check_bare() { # it is what it is meant to be
    local program
    for program in cc gcc clang nvcc python3 pkg-config; do
        ! inside sh -c "command -v $program" >/dev/null || fail "$program is there before anything is installed"
    done
    inside git --version >/dev/null
}

run_tests() {
    local started=$SECONDS failed=()
    rm -rf "$system"
    cp -a "$base" "$system"
    cp -L /etc/resolv.conf "$system/etc/resolv.conf" 2>/dev/null || true
    mount_all
    clone
    check_bare
    echo '== make run'
    inside make run || failed+=('make run')
    echo '== make test'
    inside make test ${BARE_RUNNERS:+TEST_RUNNERS="$BARE_RUNNERS"} || failed+=('make test')
    [[ ${#failed[@]} -eq 0 ]] || fail "${failed[*]}: failed after $((SECONDS - started)) s; the system is left in $system"
    echo "test-bare: make run and make test pass on a Debian 12 with git and make alone ($((SECONDS - started)) s)"
}

# The second part, inside the namespaces. Packages stay; the copy is removed when nothing is mounted on it.
if [[ ${1:-} == --inside ]]; then
    [[ -d $base ]] || make_base
    [[ $2 == prepare ]] || run_tests
    exit 0
fi

[[ $(id -u) -eq 0 ]] || cannot 'it needs root'
scripts/setup.sh bare || cannot 'debootstrap cannot be installed'
mkdir -p "$folder"
namespaces=(unshare --mount --propagation private --pid --fork --kill-child)
"${namespaces[@]}" mount -t tmpfs tmpfs "$folder" 2>/dev/null || cannot 'file systems cannot be mounted'
git rev-parse --quiet --verify HEAD >/dev/null || cannot 'this is no clone of a git repository'

export GIT_CONFIG_GLOBAL=$folder/gitconfig # the tree may belong to another user than root
git config --global safe.directory '*'
"${namespaces[@]}" "$0" --inside "${1:-test}"
rm -rf "$system"
