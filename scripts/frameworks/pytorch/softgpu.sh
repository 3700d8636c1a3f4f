#!/bin/sh
# Runs a program in the PyTorch environment on the software GPU: softgpu.sh [options of scripts/softgpu] -- command. `python` is the
# environment's. Build first: make build/pytorch/libops.so
set -eu
root=$(cd "$(dirname "$0")/../../.." && pwd)
build=${BUILD:-$root/build}
home=$build/pytorch
[ -e "$home/libops.so" ] || { echo "error: $home/libops.so is missing: run make $home/libops.so first" >&2; exit 2; }
export PATH="$home/venv/bin:$PATH" SOFTGPU_TORCH_OPS="$home/libops.so" LD_LIBRARY_PATH="$home/links${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export TRITON_PTXAS_PATH="$root/scripts/frameworks/pytorch/ptx_as_it_is.sh" TRITON_LIBCUDA_PATH="$build/softgpu"
exec "$root/scripts/softgpu" --build "$build" "$@"
