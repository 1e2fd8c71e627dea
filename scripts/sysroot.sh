#!/usr/bin/env bash
# sysroot.sh FOLDER ARCHITECTURE PACKAGE...: Debian packages of another architecture, unpacked into FOLDER.
#
# ARCHITECTURE is Debian's name: arm64. Nothing is installed, and the system's own list of architectures stays as it is:
# apt works in FOLDER.new with lists of its own, checks the signatures as always, and needs no root. `python3` among the packages
# stands for the interpreter of that release with its standard library, `python3-dev` for its headers.
set -euo pipefail

folder=$1 architecture=$2
shift 2

new=$PWD/$folder.new
[[ $folder != /* ]] || new=$folder.new
rm -rf "$new"
mkdir -p "$new"/{apt/lists/partial,apt/cache/archives/partial,debs}
trap 'rm -rf "$new"' EXIT
options=(-o "APT::Architecture=$architecture" -o "APT::Architectures=$architecture" -o "Dir::State::lists=$new/apt/lists"
    -o "Dir::Cache=$new/apt/cache" -o Dir::State::status=/dev/null -o APT::Sandbox::User= -o Acquire::Retries=3)

apt-get -qq "${options[@]}" update
version=$(apt-cache "${options[@]}" depends python3 | sed -nE 's/.*Depends: (python3\.[0-9]+)$/\1/p' | head -1)
packages=()
for package in "$@"; do
    case $package in
    python3) packages+=("$version-minimal" "lib$version-minimal" "lib$version-stdlib") ;;
    python3-dev) packages+=("lib$version-dev") ;;
    *) packages+=("$package") ;;
    esac
done
(cd "$new/debs" && apt-get -qq "${options[@]}" download "${packages[@]}")
for package in "$new"/debs/*.deb; do
    dpkg-deb -x "$package" "$new"
done
rm -rf "$new/apt" "$new/debs"
[[ -z $version || ! -d $new/usr/include/$version ]] || ln -sfn "$version" "$new/usr/include/python3"
printf '%s\n' "$@" >"$new/packages.txt"
rm -rf "$folder"
mv "$new" "$folder"
