#!/usr/bin/env python3
"""Runs test suites and sums up: Catch2 programs, and Python scripts that print TAP.

Prints what failed, one line per suite, and last `N passed, N failed`. Exit status 1 if anything failed."""

import argparse
import concurrent.futures
import os
import re
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET


class Result:
    def __init__(self, suite):
        self.suite = suite
        self.passed = 0
        self.failed = 0
        self.skipped = 0
        self.details = []
        self.seconds = 0.0

    def fail(self, *lines):
        self.failed += 1
        self.details.extend(lines)


def run_process(command, timeout):
    """Output, error output and exit status; the whole process group dies when it takes too long."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
                               text=True, errors="replace")
    try:
        out, err = process.communicate(timeout=timeout)
        return out, err, process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        return out, err + f"\nkilled after {timeout} s", -9


def tail(text, lines=15):
    return ["    " + line for line in text.strip().splitlines()[-lines:]]


def run_catch(result, timeout):
    out, err, status = run_process([result.suite, "-r", "xml"], timeout)
    out = re.sub("[^\t\n\r -\ud7ff]", "?", out)
    try:
        cases = ET.fromstring(out).iter("TestCase")
        finished = True
    except ET.ParseError:
        # It died in the middle: count the whole cases before that, and the death as one failure.
        blocks = re.findall(r"<TestCase .*?</TestCase>", out, re.S)
        cases = [ET.fromstring(block) for block in blocks]
        finished = False
    failed_before = result.failed
    for case in cases:
        verdict = case.find("OverallResult")
        if verdict is not None and verdict.get("success") == "true":
            result.passed += 1
            continue
        lines = [f"  FAILED {case.get('name')} ({case.get('filename')}:{case.get('line')})"]
        for node in case.iter():
            if node.tag == "Expression" and node.get("success") == "false":
                lines.append(f"    {node.get('filename')}:{node.get('line')}: {(node.findtext('Original') or '').strip()}"
                             f"  is  {(node.findtext('Expanded') or '').strip()}")
            elif node.tag in ("Exception", "FatalErrorCondition", "Failure"):
                lines.append(f"    {node.tag}: {(node.text or '').strip()}")
        result.fail(*lines)
    if not finished or (status != 0 and result.failed == failed_before):
        open_case = re.findall(r'<TestCase name="([^"]*)"', out)
        where = f" in {open_case[-1]}" if open_case and not finished else ""
        result.fail(f"  FAILED {result.suite}: ended with status {status}{where}", *tail(err))
    if result.passed + result.failed == 0:
        result.fail(f"  FAILED {result.suite}: holds no test case")


def run_tap(result, build, timeout):
    out, err, status = run_process([sys.executable, result.suite, "--build", build], timeout)
    last_failed = False
    for line in out.splitlines():
        if line.startswith("not ok"):
            result.fail(f"  FAILED {line[6:].strip()}")
            last_failed = True
        elif line.startswith("ok"):
            if "# SKIP" in line:
                result.skipped += 1
            else:
                result.passed += 1
            last_failed = False
        elif line.startswith("#") and last_failed:
            result.details.append("    " + line[1:].strip())
    if status != 0 and result.failed == 0:
        result.fail(f"  FAILED {result.suite}: ended with status {status}", *tail(err))
    elif result.failed:
        result.details.extend(tail(err))
    if result.passed + result.failed + result.skipped == 0:
        result.fail(f"  FAILED {result.suite}: printed no test line", *tail(err))


def run_suite(suite, build, timeout):
    result = Result(suite)
    start = time.monotonic()
    if not os.path.exists(suite):
        result.fail(f"  FAILED {suite}: not built")
    elif suite.endswith(".py"):
        run_tap(result, build, timeout)
    else:
        run_catch(result, timeout)
    result.seconds = time.monotonic() - start
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1), help="suites at a time")
    parser.add_argument("--timeout", type=float, default=900, help="seconds after which a suite is killed")
    parser.add_argument("suites", nargs="*")
    args = parser.parse_args()

    total = Result("all")
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        runs = [pool.submit(run_suite, suite, args.build, args.timeout) for suite in dict.fromkeys(args.suites)]
        for run in concurrent.futures.as_completed(runs):
            result = run.result()
            skipped = f", {result.skipped} skipped" if result.skipped else ""
            print(f"{result.suite}: {result.passed} passed, {result.failed} failed{skipped} ({result.seconds:.1f} s)")
            for line in result.details:
                print(line)
            sys.stdout.flush()
            total.passed += result.passed
            total.failed += result.failed
            total.skipped += result.skipped
    if total.skipped:
        print(f"{total.skipped} skipped")
    print(f"{total.passed} passed, {total.failed} failed")
    return 1 if total.failed or not total.passed else 0


if __name__ == "__main__":
    sys.exit(main())
