#!/bin/sh
# Installs what a fresh Debian 12 machine lacks. `--check` only tells (exit 0: nothing is missing), without network.
set -eu

PACKAGES="build-essential ccache python3 catch2 libtbb-dev libunwind-dev libcli11-dev nlohmann-json3-dev libfmt-dev
    libzstd-dev liblz4-dev libxxhash-dev coinor-libclp-dev libdw-dev zlib1g-dev libjs-chart.js clang-format clang-tidy"
# Tests that need it are skipped without it.
OPTIONAL="chromium-headless-shell"

info=/var/lib/dpkg/info
if [ ! -d "$info" ]; then
    # Not a Debian system: the compiler will name what is missing.
    [ "${1:-}" = --check ] || echo "setup: no dpkg here; install the equivalents of:" $PACKAGES >&2
    exit 0
fi

missing=
for package in $PACKAGES; do
    # One file test per package: dpkg-query would cost every `make` a noticeable moment.
    for list in "$info/$package.list" "$info/$package":*.list; do
        [ -e "$list" ] && continue 2
    done
    missing="$missing $package"
done
[ -n "$missing" ] || exit 0
[ "${1:-}" != --check ] || exit 1

echo "setup: installing$missing" >&2
sudo=
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || { echo "error: run as root: apt-get install$missing" >&2; exit 1; }
    sudo=sudo
fi
$sudo apt-get update -q >&2 || echo "setup: apt-get update failed, trying with the lists at hand" >&2
DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -q --no-install-recommends $missing >&2 ||
    { echo "error: apt-get could not install$missing" >&2; exit 1; }
DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -q --no-install-recommends $OPTIONAL >&2 ||
    echo "setup: going on without $OPTIONAL" >&2
