#!/bin/sh
# Trains the tinygrad examples on the software GPU at a quarter of their peak and compares every loss with the run that
# has enough memory. Installs tinygrad (PyPI) into build/venv-tinygrad first. Options: see run.py --help.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
venv="$root/build/venv-tinygrad"
if [ ! -x "$venv/bin/python" ] || ! "$venv/bin/python" -c 'import tinygrad, numpy' 2>/dev/null; then
    echo "tinygrad: installing tinygrad and numpy into build/venv-tinygrad" >&2
    python3 -m venv "$venv" 2>/dev/null || python3 -m venv --without-pip "$venv"
    if [ -x "$venv/bin/pip" ]; then pip="$venv/bin/pip"; else pip="python3 -m pip --python $venv/bin/python"; fi
    $pip install -q 'tinygrad==0.14.0' 'numpy<3' >&2 || {
        echo "error: tinygrad could not be installed from PyPI; check the network and run this again" >&2; exit 3; }
fi
exec "$venv/bin/python" "$here/run.py" "$@"
