"""Helpers of the system tests: TAP lines, and running programs with a clean environment."""

import argparse
import os
import subprocess
import sys
import tempfile
import traceback


class Suite:
    """Collects test functions; each gets the suite and raises AssertionError (or Skip) if it does not hold."""

    def __init__(self):
        parser = argparse.ArgumentParser()
        parser.add_argument("--build", default="build")
        parser.add_argument("only", nargs="*", help="names of tests to run (all)")
        args = parser.parse_args()
        self.build = os.path.abspath(args.build)
        self.only = args.only
        self.tests = []
        self.root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        self._scratch = tempfile.TemporaryDirectory(prefix="swapadvisor-test-")
        self.scratch = self._scratch.name

    def path(self, *parts):
        return os.path.join(self.build, *parts)

    def test(self, name):
        def add(function):
            self.tests.append((name, function))
            return function
        return add

    def run(self, command, preload=None, libraries=None, env=None, stdin=None, timeout=120):
        """Runs to the end; the result has stdout, stderr (text) and returncode."""
        variables = {k: v for k, v in os.environ.items()
                     if not k.startswith("SWAPADVISOR") and k not in ("LD_PRELOAD", "LD_LIBRARY_PATH")}
        if preload:
            # The loader only warns of an object that is not there, and everything would be the same without it.
            assert all(os.path.exists(path) for path in preload.split(":")), f"{preload} is not built"
            variables["LD_PRELOAD"] = preload
        if libraries:
            variables["LD_LIBRARY_PATH"] = libraries
        variables.update(env or {})
        # Reports that the shim writes into the current folder must not end up in the tree.
        return subprocess.run(command, env=variables, cwd=self.scratch, input=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, errors="replace", timeout=timeout)

    def main(self):
        failed = 0
        for name, function in self.tests:
            if self.only and name not in self.only:
                continue
            try:
                function()
                print(f"ok {name}")
            except Skip as reason:
                print(f"ok {name} # SKIP {reason}")
            except Exception as error:  # every failure is one test's, whatever its kind
                failed += 1
                print(f"not ok {name}")
                text = str(error) if isinstance(error, AssertionError) and str(error) else traceback.format_exc()
                for line in text.strip().splitlines()[-30:]:
                    print(f"# {line}")
            sys.stdout.flush()
        self._scratch.cleanup()
        sys.exit(1 if failed else 0)


class Skip(Exception):
    pass


def equal(got, wanted, what=""):
    assert got == wanted, f"{str(what)[:2000]}\ngot    {got!r}\nwanted {wanted!r}"
