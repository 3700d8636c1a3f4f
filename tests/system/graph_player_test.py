#!/usr/bin/env python3
"""The graph player on the software GPU: stamps against a model of them, virtual times against the graph's."""

import json
import os
import re

from graph_model import model, random_graph
from tap import Suite, equal

suite = Suite()
PLAYER = suite.path("workloads/graph_player")
SOFTGPU = os.path.join(suite.root, "scripts/softgpu")
TABLE = os.path.join(suite.scratch, "kernels")
with open(TABLE, "w") as file:
    file.write("^opl?_([0-9]+)$ $1\n")
# Host calls and launches cost nothing here, so that an iteration takes what its ops take.
DEVICE = ["--launch", "0", "--call", "0", "--create-call", "0", "--kernel-table", TABLE]
GRAPHS = ("bert-256", "inceptionv3-1536", "resnet152-1280")


def play(graph, *words, memory="400GiB", device=DEVICE):
    return suite.run([SOFTGPU, "--build", suite.build, "--memory", memory, *device, "--", PLAYER, graph, *words])


def stamps(done):
    equal(done.returncode, 0, done.stderr)
    last = done.stdout.splitlines()[-1]
    assert re.fullmatch(r"stamps [0-9a-f]{16}", last), last
    return last.split()[1]


def times(done):
    return [int(ns) for ns in re.findall(r"^iteration \d+ device ns (\d+)$", done.stdout, re.M)]


def write(graph, name="graph.json"):
    path = os.path.join(suite.scratch, name)
    with open(path, "w") as out:
        json.dump(graph, out)
    return path


@suite.test("stamps are what the graph says")
def _():
    for seed in range(4):
        graph = random_graph(seed)
        equal(stamps(play(write(graph), "--iterations", "3")), model(graph, 3), f"seed {seed}")


@suite.test("ops with many tensors")
def _():
    graph = random_graph(99, tensors=150, ops=6, width=70)
    equal(stamps(play(write(graph))), model(graph, 3))


@suite.test("a tensor that is read before it is written contributes nothing")
def _():
    graph = random_graph(5)
    graph["ops"] = [{"id": 0, "name": "a", "duration_ns": 1000, "reads": [0, 1], "writes": [0, 2]},
                    {"id": 1, "name": "b", "duration_ns": 1000, "reads": [0, 2], "writes": [1]}]
    for tensor, persistent in enumerate((False, True, False)):
        graph["tensors"][tensor]["persistent"] = persistent
    equal(stamps(play(write(graph))), model(graph, 3))


@suite.test("virtual iteration time is the sum of the op times, on every graph")
def _():
    for name in GRAPHS:
        path = os.path.join(suite.root, "tests/graphs", name + ".json")
        wanted = sum(op["duration_ns"] for op in json.load(open(path))["ops"])
        done = play(path, "--iterations", "2")
        stamps(done)
        equal(len(times(done)), 2)
        for ns in times(done):
            assert abs(ns - wanted) <= wanted / 1000, (name, ns, wanted)


@suite.test("--op-speedup divides the op times")
def _():
    path = os.path.join(suite.root, "tests/graphs/inceptionv3-1536.json")
    whole, tenth = (times(play(path, "--iterations", "1", *more))[0] for more in ([], ["--op-speedup", "10"]))
    assert abs(whole / 10 - tenth) <= whole / 10000, (whole, tenth)


@suite.test("timings file, one line per iteration")
def _():
    file = os.path.join(suite.scratch, "timings")
    done = play(write(random_graph(1)), "--iterations", "4", "--timings", file)
    equal([int(line) for line in open(file)], times(done))
    equal(len(times(done)), 4)


@suite.test("the peak that is printed is what the device needs")
def _():
    path = write(random_graph(7))
    peak = int(re.search(r"peak (\d+) bytes", play(path, "--info").stdout)[1])
    stats = os.path.join(suite.scratch, "stats.json")
    stamps(play(path, device=[*DEVICE, "--stats", stats]))
    used = json.load(open(stats))["devices"][0]["peak_bytes"]
    assert used <= peak + (4 << 20), (used, peak)  # the device packs small allocations


@suite.test("too small a device: exit code 3 and one line")
def _():
    done = play(os.path.join(suite.root, "tests/graphs/bert-256.json"), memory="40GiB")
    equal(done.returncode, 3)
    assert re.fullmatch(r"graph_player: cuMemAlloc of \d+ bytes: \S.* \(CUDA_ERROR_OUT_OF_MEMORY\)\n", done.stderr), done.stderr


@suite.test("wrong graphs and wrong usage: exit code 2 and one line that names the field")
def _():
    good = random_graph(2)

    def broken(change):
        graph = json.loads(json.dumps(good))
        change(graph)
        broken.number += 1
        return write(graph, f"broken{broken.number}.json")

    broken.number = 0

    cases = [
        (broken(lambda g: g.update(format="x")), "format"), (broken(lambda g: g.update(version=2)), "version"),
        (broken(lambda g: g.pop("tensors")), "tensors"), (broken(lambda g: g["ops"][0].pop("reads")), "ops[0].reads"),
        (broken(lambda g: g["ops"][3]["reads"].append(12)), "ops[3].reads"),
        (broken(lambda g: g["tensors"][1].update(bytes=-1)), "tensors[1].bytes"),
        (broken(lambda g: g["ops"][2].update(duration_ns=1.5)), "ops[2].duration_ns"),
        ("/nonexistent.json", "cannot be read"), ("/dev/null", "/dev/null"),
    ]
    for path, word in cases:
        done = play(path)
        equal(done.returncode, 2, word)
        equal(len(done.stderr.splitlines()), 1, done.stderr)
        assert word in done.stderr, (word, done.stderr)
    for words in (["--iterations", "0"], ["--nonsense"], ["--op-speedup"]):
        equal(play(write(good), *words).returncode, 2, words)


suite.main()
