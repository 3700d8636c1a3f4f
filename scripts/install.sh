#!/bin/sh
# install.sh BUILD PREFIX: copies the command and its libraries; DESTDIR is honoured.
set -eu
[ $# = 2 ] || { echo "usage: $0 BUILD PREFIX" >&2; exit 2; }
build=$1
prefix=${DESTDIR:-}$2

# The command looks for the libraries beside itself and in ../lib/swapadvisor; the preload object looks beside itself.
install -d "$prefix/bin" "$prefix/lib/swapadvisor" "$prefix/share/doc/swapadvisor"
install -m 755 "$build/swapadvisor" "$prefix/bin/swapadvisor"
for library in libswapadvisor.so libswapadvisor_planner.so; do
    install -m 755 "$build/$library" "$prefix/lib/swapadvisor/$library"
done
for page in README.md LICENSE; do
    if [ -e "$page" ]; then install -m 644 "$page" "$prefix/share/doc/swapadvisor/$page"; fi
done
echo "installed swapadvisor to $prefix"
