#!/bin/sh
# clang-tidy over the sources given, or all of the product's; the checks are in .clang-tidy.
set -eu
cd "$(dirname "$0")/.."
cuda=${CUDA_HOME:-$(dirname "$(dirname "$(readlink -f "$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)")")")}
[ $# -gt 0 ] || set -- $(git ls-files 'interpose/*.cpp' 'recorder/*.cpp' 'planner/*.cpp' 'replayer/*.cpp' 'tests/softgpu/*.cpp')
printf '%s\n' "$@" | xargs -P "$(nproc)" -n 4 sh -c \
    'clang-tidy --quiet "$@" -- -std=c++20 -I. -Ibuild/generated -isystem "$0/include"' "$cuda"
