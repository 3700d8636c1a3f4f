"""Random graphs of planner/format/FORMATS.md, and what the graph player's memory holds after playing one, worked out without a device."""

import random

MASK = (1 << 64) - 1
SMALL = [8, 24, 4096, 1 << 20, (3 << 20) + 40]


def random_graph(seed, tensors=12, ops=30, width=6, sizes=SMALL):
    rng = random.Random(seed)
    return {
        "format": "swapadvisor-graph", "version": 1, "name": f"random-{seed}", "source": "test",
        "device": {"memory_bytes": 1 << 30, "h2d_bytes_per_s": 10**10, "d2h_bytes_per_s": 10**10,
                   "duplex_bytes_per_s": 2 * 10**10, "transfer_latency_ns": 1000},
        "tensors": [{"id": i, "bytes": rng.choice(sizes), "persistent": rng.random() < 0.3}
                    for i in range(tensors)],
        "ops": [{"id": i, "name": f"op{i}", "duration_ns": rng.randrange(1000, 100000),
                 "reads": rng.sample(range(tensors), rng.randrange(0, width)),
                 "writes": rng.sample(range(tensors), rng.randrange(1, width))} for i in range(ops)],
    }


def mix(z):
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & MASK
    return z ^ (z >> 31)


def model(graph, iterations):
    """What the player's memory holds at the end, worked out without a device."""
    tensors, ops = graph["tensors"], graph["ops"]
    uses = []
    for op in ops:  # reads first, then what is only written, each tensor once
        order = list(dict.fromkeys(op["reads"] + op["writes"]))
        uses.append([(t, t in op["reads"], t in op["writes"]) for t in order])
    first = {}
    for i, op in enumerate(uses):
        for t, _, _ in op:
            first.setdefault(t, i)

    def places(t):
        last = (tensors[t]["bytes"] - 8) & ~7
        return [(last * p // 2) & ~7 for p in range(3)]

    memory, defined, digest = {}, set(), 0
    for t, tensor in enumerate(tensors):
        if tensor["persistent"]:
            defined.add(t)
            for p, place in enumerate(places(t)):
                word = t * 3 + p + 1
                memory[t, place] = word | word << 32
    for _ in range(iterations):
        for i, op in enumerate(uses):
            for t, _, _ in op:
                if not tensors[t]["persistent"] and first[t] == i:
                    defined.discard(t)
            s = mix((i + 1 + 0x9E3779B97F4A7C15) & MASK)
            for t, read, _ in op:
                if read and t in defined:
                    for p, place in enumerate(places(t)):
                        s = mix(((s ^ memory[t, place]) + p) & MASK)
            for k, (t, _, write_it) in enumerate(op):
                if write_it:
                    defined.add(t)
                    for p, place in enumerate(places(t)):
                        memory[t, place] = mix((s + k * 3 + p) & MASK)
            digest = mix(digest ^ s)
    h = 0xCBF29CE484222325
    words = [digest] + [memory[t, place] for t, tensor in enumerate(tensors) if tensor["persistent"] for place in places(t)]
    for word in words:
        for byte in word.to_bytes(8, "little"):
            h = (h ^ byte) * 0x100000001B3 & MASK
    return f"{h:016x}"


def working_set(graph, granularity=2 << 20):
    """Bytes that the largest op touches, each tensor rounded up."""
    size = [(t["bytes"] + granularity - 1) // granularity * granularity for t in graph["tensors"]]
    return max(sum(size[t] for t in set(op["reads"]) | set(op["writes"])) for op in graph["ops"])
