#!/usr/bin/env python3
"""Wrong input, a table: what is given, the exit status, and the one line that says what is wrong. Nothing is started, and
nothing is left in the folder."""

import json
import os
import re
import subprocess
import sys

from tap import Suite, equal

suite = Suite()
COMMAND = suite.path("swapadvisor")
GRAPH = {"format": "swapadvisor-graph", "version": 1, "name": "g", "source": "test",
         "device": {"memory_bytes": 1 << 30, "h2d_bytes_per_s": 10**10, "d2h_bytes_per_s": 10**10, "duplex_bytes_per_s": 2 * 10**10,
                    "transfer_latency_ns": 1000},
         "tensors": [{"id": i, "bytes": 8 << 20, "persistent": i == 0} for i in range(6)],
         "ops": [{"id": i, "name": f"op{i}", "duration_ns": 50_000, "reads": [max(i - 1, 0)], "writes": [i]} for i in range(6)]}


def file(name, content=None):
    path = os.path.join(suite.scratch, name)
    if content is not None:
        with open(path, "wb") as out:
            out.write(content if isinstance(content, bytes) else json.dumps(content).encode())
    return path


G = file("g.json", GRAPH)
TRACE = file("g.trace")
equal(suite.run([COMMAND, "import", G, "-o", TRACE]).returncode, 0)
with open(TRACE, "rb") as whole:
    WHOLE = whole.read()
DAMAGED = file("damaged.trace", WHOLE[:40] + bytes(b ^ 0x55 for b in WHOLE[40:]))
HEAD = file("head.trace", WHOLE[:10])
FOREIGN = file("foreign", b"\x7fELF" + bytes(400))
EMPTY = file("empty", b"")
NO_OP = file("hole.json", {**GRAPH, "ops": GRAPH["ops"] + [{"id": 6, "name": "x", "duration_ns": 1, "reads": [99], "writes": [0]}]})
NEWER = file("newer.json", {**GRAPH, "version": 9})
FOLDER = suite.scratch
MISSING = os.path.join(suite.scratch, "no", "such", "folder", "out")
NO_WRITE = "/proc/swapadvisor-out"  # where not even root may make a file
RUN = ["run"]
TRUE = ["--", "true"]

# What is given, the exit status, what the line says.
TABLE = [
    ([], 2, None),
    (["frobnicate"], 2, "has no command frobnicate"),
    (["run"], 2, "no program given"),
    (["run", "--"], 2, "no program given"),
    (["run", "--no-such", *TRUE], 2, "unknown option --no-such"),
    (["run", "--memory", "12Q", *TRUE], 2, "--memory 12Q: not a size"),
    (["run", "--memory", "", *TRUE], 2, "--memory: empty"),
    (["run", "--memory", "0", *TRUE], 2, "--memory 0: no memory at all"),
    (["run", "--memory", "1K", *TRUE], 2, "less than the 4MiB"),
    (["run", "--memory", "150%", *TRUE], 2, "not a share from 0% to 100%"),
    (["run", "--memory", "-5GiB", *TRUE], 2, "--memory"),
    (["run", "--memory", "99999999TiB", *TRUE], 2, "--memory 99999999TiB: not a size"),
    (["run", "--host-memory", "much", *TRUE], 2, "--host-memory much: not a size"),
    (["run", "--planner", "best", *TRUE], 2, "planners are ga, fast"),
    (["run", "--seconds", "soon", *TRUE], 2, "--seconds soon: not a number"),
    (["run", "--threads", "-1", *TRUE], 2, "--threads -1: not a number"),
    (["run", "--seed", "x", *TRUE], 2, "--seed x: not a number"),
    (["run", "--timing", "sundial", *TRUE], 2, "timing is auto, cupti or events"),
    (["run", "--log", "gossip", *TRUE], 2, "topics are"),
    (["run", "--plain", "big", *TRUE], 2, "not sizes"),
    (["run", "-o", MISSING, *TRUE], 2, "cannot write .*: No such file or directory"),
    (["run", "-o", NO_WRITE, *TRUE], 2, "cannot write /proc/swapadvisor-out"),
    (["run", "--trace", MISSING, *TRUE], 2, "cannot write .*: No such file or directory"),
    (["run", "-o", "same", "--trace", "same", *TRUE], 2, "both the trace and the report"),
    (["run", "-o", "same", "--trace", "same.json", *TRUE], 2, "both the trace and the report"),
    (["record", "-o", NO_WRITE, *TRUE], 2, "cannot write"),
    (["run", "--", "no-such-program"], 127, "no-such-program: no such program"),
    (["run", "--", FOLDER + "/g.json"], 126, "cannot start"),
    (["replay"], 2, "no program given"),
    (["replay", *TRUE], 2, "no plan given"),
    (["replay", "/no/such.plan", *TRUE], 2, "cannot read /no/such.plan"),
    (["replay", TRACE, *TRUE], 2, "is no plan"),
    (["replay", EMPTY, *TRUE], 2, "is no plan"),
    (["plan"], 2, "graph is required"),
    (["plan", G], 2, "--output is required"),
    (["plan", G, "-o", "p", "--memory", "0"], 2, "no memory at all"),
    (["plan", "--memory", "", G, "-o", "p"], 2, "--memory"),
    (["plan", G, "-o", "p", "--memory", "12 apples"], 2, "not a size"),
    (["plan", G, "-o", "p", "--planner", "best"], 2, "--planner"),
    (["plan", G, "-o", MISSING, "--memory", "50%"], 1, "cannot write"),
    (["plan", G, "-o", "p", "--memory", "1KiB"], 1, "limit"),
    (["plan", "/no/such.json", "-o", "p"], 1, "cannot read /no/such.json: No such file"),
    (["plan", FOLDER, "-o", "p"], 1, "cannot read .*: Is a directory"),
    (["plan", EMPTY, "-o", "p"], 1, "the file is empty"),
    (["plan", FOREIGN, "-o", "p"], 1, "is not a trace|no trace"),
    (["plan", HEAD, "-o", "p"], 1, "head.trace"),
    (["plan", NO_OP, "-o", "p"], 1, "tensor 99 does not exist"),
    (["plan", NEWER, "-o", "p"], 1, "version 9 is newer"),
    (["bound", G, "--h2d", "-5"], 2, "--h2d"),
    (["bound", G, "--seconds", "-1"], 2, "--seconds"),
    (["simulate", G], 2, "plan is required"),
    (["simulate", G, EMPTY], 1, "empty"),
    (["sweep", G, "--points", "1"], 2, "--points"),
    (["sweep", G, "--from", "0"], 2, "no memory at all"),
    (["sweep", "--to", "x", G], 2, "not a size"),
    (["report"], 2, "file is required"),
    (["report", G], 1, "is neither a trace nor a plan nor a report"),
    (["plan", DAMAGED, "-o", "p"], 1, "no repeating iteration"),
    (["report", TRACE, "--html", "--json"], 2, "at most 1"),
    (["report", TRACE, "-o", MISSING], 1, "cannot write"),
    (["diff", TRACE], 2, "after is required"),
    (["diff", TRACE, FOREIGN], 1, "foreign is neither"),
    (["diff", TRACE, TRACE, "--fail-if", "peak>5"], 2, "is no condition: write peak>\\+5%"),
    (["diff", TRACE, TRACE, "--fail-if", "mood>+5%"], 2, "no figure mood"),
    (["export", FOREIGN], 1, "foreign"),
    (["import", G], 2, "--output is required"),
    (["import", TRACE, "-o", "t"], 1, "JSON|json|parse|graph"),
    (["doctor", "--what"], 2, "--what"),
]


@suite.test(f"{len(TABLE)} wrong inputs: exit status and line")
def _():
    before, shown = set(os.listdir(suite.scratch)), []
    for words, status, line in TABLE:
        done = suite.run([COMMAND, *words], libraries=suite.path("tests/fakedriver"))
        equal((done.returncode, done.stdout), (status, ""), (words, done.stderr))
        if line is not None:
            assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1, (words, done.stderr)
            assert re.search(line, done.stderr), (words, done.stderr)
        equal(set(os.listdir(suite.scratch)), before, words)
        shown.append(f"{status:>4}  swapadvisor {' '.join(words)}\n      {done.stderr.splitlines()[0]}".replace(suite.scratch + "/", ""))
    if os.environ.get("SHOW_TABLE"):
        print("\n".join("# " + line for row in shown for line in row.splitlines()), file=sys.stderr)


@suite.test("diff --fail-if: 3 and one line where a figure has grown by more, 0 where not; the report's verdict says what grew")
def _():
    grown = {**GRAPH, "tensors": [{**t, "bytes": t["bytes"] * 11 // 10} for t in GRAPH["tensors"]]}
    other = os.path.join(suite.scratch, "grown.trace")
    equal(suite.run([COMMAND, "import", file("grown.json", grown), "-o", other]).returncode, 0)
    for words, status in ((["--fail-if", "peak>+5%"], 3), (["--fail-if", "peak>+15%"], 0), (["--fail-if", "peak_bytes>+9.5%"], 3),
                          (["--fail-if", "peak>+15%", "--fail-if", "peak>+1%"], 3), ([], 0)):
        done = suite.run([COMMAND, "diff", TRACE, other, *words])
        equal((done.returncode, done.stderr.count("\n")), (status, 1 if status else 0), (words, done.stderr))
        assert "peak of the program" in done.stdout and ("error: peak" in done.stderr or not status), done.stderr
    equal(suite.run([COMMAND, "diff", other, TRACE, "--fail-if", "peak>+0%"]).returncode, 0)
    short = suite.run([COMMAND, "report", TRACE]).stdout.partition("In short\n")[2].partition("\n\n")[0]
    assert "It needs " in short and "It cannot run below 16.0 MiB, since op " in short, short
    page = os.path.join(suite.scratch, "verdict.html")
    equal(suite.run([COMMAND, "report", TRACE, "--html", "-o", page]).returncode, 0)
    with open(page) as text:
        assert "It cannot run below 16.0 MiB" in text.read()


@suite.test("options stand on either side of what has no name, and --memory means the same everywhere")
def _():
    def period(*words):
        done = suite.run([COMMAND, "plan", *words, "-o", os.path.join(suite.scratch, "p"), "--planner", "fast", "--bound-seconds", "0", "--json"])
        equal(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["limit_bytes"]

    equal([period(G, "--memory", "50%"), period("--memory", "512MiB", G), period("--memory=0.5gib", G), period(G, "--memory", "536870912")],
          [1 << 29] * 4)
    equal(period(G, "--memory", "16gb"), 16 * 10**9)  # more than there is: what if
    done = suite.run([COMMAND, "bound", "--memory", "50%", G, "--json"])
    equal(json.loads(done.stdout)["limit_bytes"], 1 << 29)


@suite.test("every command has a whole usage line and examples; manual pages and completions follow from them")
def _():
    top = suite.run([COMMAND, "--help"]).stdout
    names = re.findall(r"^  (\w+)\s{2,}", top.partition("commands:\n")[2].partition("\n\n")[0], re.M)
    equal(len(names), 12, names)
    for name in names:
        done = suite.run([COMMAND, name, "--help"])
        equal((done.returncode, done.stderr), (0, ""), name)
        assert re.search(rf"^Usage: swapadvisor {name} \[options\]", done.stdout, re.M), done.stdout
        assert f"\nexamples:\n  swapadvisor {name}" in done.stdout, done.stdout
        equal(suite.run([COMMAND, "help", name]).stdout, done.stdout)
    out = os.path.join(suite.scratch, "shell")
    done = suite.run([sys.executable, os.path.join(suite.root, "scripts/shell_files.py"), COMMAND, out])
    equal(done.returncode, 0, done.stderr)
    equal(len(os.listdir(os.path.join(out, "man1"))), 13)
    script = os.path.join(out, "bash/swapadvisor")
    code = f"source {script}; COMP_WORDS=(swapadvisor plan --me); COMP_CWORD=2; _swapadvisor; echo ${{COMPREPLY[@]}}"
    equal(suite.run(["bash", "-c", code]).stdout, "--memory\n")
    with open(os.path.join(out, "zsh/_swapadvisor")) as text:
        assert "'--or-search[" in text.read()


@suite.test("installed, it works, by hand too; uninstalled, nothing is left")
def _():
    prefix = os.path.join(suite.scratch, "prefix")
    script = os.path.join(suite.root, "scripts/install.sh")
    # From the source's folder, as make has it; another build folder is given as it is.
    install = subprocess.run([script, suite.build, prefix], cwd=suite.root, capture_output=True, text=True, env={**os.environ, "DESTDIR": ""})
    equal(install.returncode, 0, install.stderr)
    probe = suite.path("tests/interpose/linked_probe")
    done = suite.run([os.path.join(prefix, "bin/swapadvisor"), "run", "-q", "--", probe], libraries=suite.path("tests/fakedriver"))
    equal(done.returncode, 0, done.stderr)
    libraries = prefix + "/lib:" + suite.path("tests/fakedriver")
    done = suite.run(["env", "LD_PRELOAD=libswapadvisor.so", probe], libraries=libraries, env={"SWAPADVISOR_MEMORY": "x"})
    equal((done.returncode, done.stderr), (0, "swapadvisor: SWAPADVISOR_MEMORY=x: not a size (write 512MiB, 16GiB or 50%); ignored\n"))
    remove = subprocess.run([script, "--remove", suite.build, prefix], cwd=suite.root, capture_output=True, text=True, env={**os.environ, "DESTDIR": ""})
    equal(remove.returncode, 0, remove.stderr)
    equal([name for _, _, names in os.walk(prefix) for name in names], [])


if __name__ == "__main__":
    suite.main()
