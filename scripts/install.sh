#!/bin/sh
# install.sh [--remove] BUILD PREFIX: copies the command, its libraries, manual pages, completions and guides, or removes
# what it has copied. DESTDIR is honoured.
set -eu
remove=
if [ "${1:-}" = --remove ]; then remove=1; shift; fi
[ $# = 2 ] || { echo "usage: $0 [--remove] BUILD PREFIX" >&2; exit 2; }
build=$1
prefix=${DESTDIR:-}$2

# The command looks for the libraries beside itself and in ../lib/swapadvisor; the preload object looks beside itself, so
# that in lib, where the loader looks, the two are links.
shell=$build/shell_files
folders="lib/swapadvisor share/doc/swapadvisor"
[ -n "$remove" ] || scripts/shell_files.py "$build/swapadvisor" "$shell"
place() {  # MODE FILE TARGET
    if [ -n "$remove" ]; then
        rm -f "$prefix/$3"
    else
        install -D -m "$1" "$2" "$prefix/$3"
    fi
}
place 755 "$build/swapadvisor" bin/swapadvisor
for library in libswapadvisor.so libswapadvisor_planner.so; do
    place 755 "$build/$library" "lib/swapadvisor/$library"
    if [ -n "$remove" ]; then rm -f "$prefix/lib/$library"; else ln -sf "swapadvisor/$library" "$prefix/lib/$library"; fi
done
for page in README.md LICENSE; do place 644 "$page" "share/doc/swapadvisor/$page"; done
place 644 scripts/frameworks/README.md share/doc/swapadvisor/frameworks.md
if [ -n "$remove" ]; then
    rm -f "$prefix"/share/man/man1/swapadvisor.1 "$prefix"/share/man/man1/swapadvisor-*.1
else
    for page in "$shell"/man1/*.1; do place 644 "$page" "share/man/man1/${page##*/}"; done
fi
place 644 "$shell/bash/swapadvisor" share/bash-completion/completions/swapadvisor
place 644 "$shell/zsh/_swapadvisor" share/zsh/site-functions/_swapadvisor
if [ -n "$remove" ]; then
    for folder in $folders; do rmdir "$prefix/$folder" 2>/dev/null || true; done
    echo "removed swapadvisor from $prefix"
else
    # The loader's own list, where this is one of its folders.
    if [ -z "${DESTDIR:-}" ] && [ "$(id -u)" = 0 ]; then ldconfig 2>/dev/null || true; fi
    echo "installed swapadvisor to $prefix"
fi
