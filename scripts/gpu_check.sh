#!/bin/sh
# One check for a borrowed GPU machine (CUDA 13, perhaps PyTorch, no registry): most valuable first, under 8 minutes,
# partial results kept. Usage: scripts/gpu_check.sh [--softgpu] [--quick] [--seconds N] [--build DIR]; see gpu_check.py --help.
here=$(cd "$(dirname "$0")" && pwd)
exec python3 "$here/gpu_check.py" "$@"
