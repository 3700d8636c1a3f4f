#!/bin/sh
# An environment with PyTorch for the software GPU: build/pytorch/venv (reused when it is whole). `--check` only tells whether
# it is there (exit 0). torch comes from PyPI without NVIDIA's libraries; link stubs stand where the wheel names them.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
build=${BUILD:-$root/build}
home=$build/pytorch
venv=$home/venv
TORCH=2.15.0
TRITON=3.9.0

installed() {
    [ -x "$venv/bin/python" ] && [ -e "$home/links/libnccl.so.2" ] && [ -d "$site/torch-$TORCH.dist-info" ] &&
        [ -d "$site/triton-$TRITON.dist-info" ] && [ -d "$site/numpy" ] && [ -e "$site/softgpu_torch_ops.py" ]
}
site=$(echo "$venv"/lib/python3.*/site-packages)
installed && exit 0
[ "${1:-}" != --check ] || exit 1

mkdir -p "$home"
[ -x "$venv/bin/pip" ] || python3 -m venv "$venv" || { echo "error: python3 -m venv failed; install python3-venv" >&2; exit 3; }
echo "pytorch: installing torch $TORCH and triton $TRITON into $venv (0.8 GB to load, 2.5 GB on disk)" >&2
"$venv/bin/pip" install -q --no-deps "torch==$TORCH" "triton==$TRITON" >&2 &&
    "$venv/bin/pip" install -q filelock 'typing-extensions>=4.13' sympy networkx jinja2 fsspec numpy 'setuptools>=77' >&2 || {
    echo "error: PyTorch could not be installed from PyPI; check the network and run this again" >&2; exit 3; }
site=$(echo "$venv"/lib/python3.*/site-packages)
# PyTorch loads what names itself a backend at import: the kernels of our own, where SOFTGPU_TORCH_OPS names them.
cp "$root/tests/frameworks/pytorch/autoload.py" "$site/softgpu_torch_ops.py"
mkdir -p "$site/softgpu_torch_ops-1.dist-info"
printf 'Metadata-Version: 2.1\nName: softgpu-torch-ops\nVersion: 1\n' > "$site/softgpu_torch_ops-1.dist-info/METADATA"
printf '[torch.backends]\nsoftgpu_torch_ops = softgpu_torch_ops:load\n' > "$site/softgpu_torch_ops-1.dist-info/entry_points.txt"
"$here/make_link_stubs.py" "$site/torch" "$home/links" >&2 ||
    { echo "error: the link stubs could not be made; a C compiler and binutils are needed" >&2; exit 3; }
