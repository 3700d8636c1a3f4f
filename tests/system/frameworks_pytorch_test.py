#!/usr/bin/env python3
"""PyTorch from PyPI, unmodified, on the software GPU: operations, and training at a quarter of the peak. What takes long is
`make test-pytorch`; this runs where that has installed PyTorch and built its kernels, and is skipped elsewhere."""

import os
import subprocess

from tap import Skip, Suite

suite = Suite()
HERE = os.path.join(suite.root, "tests/frameworks/pytorch")


def run(*command):
    if not os.path.exists(suite.path("pytorch/libops.so")):
        raise Skip("PyTorch's environment is not built here; make test-pytorch does that")
    return subprocess.run(command, env=dict(os.environ, BUILD=suite.build), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=600)


@suite.test("PyTorch: operations of the pack agree with PyTorch's own on the processor")
def _():
    done = run(os.path.join(suite.root, "scripts/frameworks/pytorch/softgpu.sh"), "--", "python", os.path.join(HERE, "compare_ops.py"), "--brief",
               "--only", "^(add|mm|conv2d|layer_norm|cross_entropy|Adam)$")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].endswith("0 differ"), done.stdout


@suite.test("PyTorch: an autoencoder trains at a quarter of its peak, the same to the last bit")
def _():
    done = run(os.path.join(HERE, "run.py"), "--build", suite.build, "--case", "autoencoder, short")
    assert done.returncode == 0 and "ok pytorch autoencoder" in done.stdout, done.stdout + done.stderr


suite.main()
