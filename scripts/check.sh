#!/bin/sh
# `make check`: what should hold before a commit, in under three minutes: formatting, rooms, clang-tidy over the files that
# differ from $BASE (default: the last commit of main, or the one before on main itself), and the unit tests given.
set -u
cd "$(dirname "$0")/.."
build=$1
shift
failed=0
step() { printf 'check: %s\n' "$1"; }

step format
unformatted=$(git ls-files '*.cpp' '*.h' '*.cu' '*.c' | xargs -P "$(nproc)" -n 40 clang-format --dry-run 2>&1 |
    sed -n 's/^\([^:]*\):.*clang-format-violations.*/\1/p' | sort -u)
if [ -n "$unformatted" ]; then
    printf 'not formatted (make format mends it): %s\n' $unformatted
    failed=1
fi

step rooms
scripts/check_rooms.py || failed=1

step clang-tidy
base=${BASE:-$(git merge-base HEAD main 2>/dev/null)}
[ "$base" != "$(git rev-parse HEAD)" ] || base=HEAD~1
changed=$(git diff --name-only --diff-filter=d "$base" -- 'interpose/*.cpp' 'recorder/*.cpp' 'planner/*.cpp' 'replayer/*.cpp' | head -40)
if [ -n "$changed" ]; then
    scripts/tidy.sh $changed 2>/dev/null | grep -E 'warning:|error:' && { echo 'clang-tidy: see the lines above'; failed=1; }
else
    echo 'clang-tidy: no source file differs'
fi

step 'unit tests'
tests/run_suites.py --build "$build" "$@" || failed=1
exit $failed
