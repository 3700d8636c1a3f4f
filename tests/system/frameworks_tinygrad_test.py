#!/usr/bin/env python3
"""tinygrad from PyPI, unmodified, trains at a quarter of its peak with the losses and weights of the unlimited run."""

import os
import subprocess

from tap import Skip, Suite

suite = Suite()
RUN = os.path.join(suite.root, "scripts/frameworks/tinygrad/run.sh")
lines = None


def results():
    """The output of the small run, made once for all cases."""
    global lines
    if lines is None:
        done = subprocess.run([RUN, "--small", "--build", suite.build], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=1200)
        if done.returncode == 3:
            raise Skip("tinygrad cannot be installed from PyPI")
        lines = (done.stdout + done.stderr).splitlines()
    return lines


def case(name, more=""):
    @suite.test(f"tinygrad {name}: bit-identical at a quarter of its peak{more}")
    def _():
        assert any(line.startswith(f"ok tinygrad {name} peak") for line in results()), "\n".join(results())


case("deep-jit", ", and follows a plan")
case("recurrent-half")
suite.main()
