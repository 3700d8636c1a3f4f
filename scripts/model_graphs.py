#!/usr/bin/env python3
"""Writes dataflow graphs of training iterations (planner/format/FORMATS.md) for models that are built here, layer by layer.

    scripts/model_graphs.py wide-resnet152 --group 30 -o wide-resnet152.json
    scripts/model_graphs.py --list

Every graph is one iteration as a framework issues it: forward, backward in reverse, then the optimizer's updates, one
op for each parameter or one for each `--group` of them. An op takes what its arithmetic or its memory traffic takes on
the device given, whichever is longer. `--small` makes models of the same shape that tests can play in a moment.
"""
import argparse
import json
import sys

FLOAT = 4
DEVICE = {"memory_bytes": 40 << 30, "h2d_bytes_per_s": 12 * 10**9, "d2h_bytes_per_s": 12 * 10**9, "duplex_bytes_per_s": 24 * 10**9,
          "transfer_latency_ns": 20_000}


class Builder:
    """Ops and tensors of one iteration. Layers put their backward on a tape, which runs in reverse."""

    def __init__(self, name, tflops=6.0, bandwidth=400e9, launch_ns=4000):
        self.name, self.tflops, self.bandwidth, self.launch_ns = name, tflops, bandwidth, launch_ns
        self.tensors, self.ops, self.tape = [], [], []
        self.gradient = {}    # tensor -> its gradient so far
        self.parameters = []  # in the order in which the model makes them
        self.constants = set()  # tensors without a gradient

    def tensor(self, elements, name, persistent=False):
        self.tensors.append({"id": len(self.tensors), "bytes": int(elements) * FLOAT, "persistent": persistent, "name": name})
        return len(self.tensors) - 1

    def elements(self, tensor):
        return self.tensors[tensor]["bytes"] // FLOAT

    def parameter(self, elements, name):
        self.parameters.append(self.tensor(elements, name, persistent=True))
        return self.parameters[-1]

    def data(self, elements, name):
        """What the host brings for this iteration."""
        tensor = self.tensor(elements, name)
        self.constants.add(tensor)
        self.op("load", [], [tensor])
        return tensor

    def op(self, name, reads, writes, flops=0):
        reads, writes = list(dict.fromkeys(reads)), list(dict.fromkeys(writes))
        moved = sum(self.tensors[t]["bytes"] for t in reads) + sum(self.tensors[t]["bytes"] for t in writes)
        ns = self.launch_ns + max(flops / self.tflops / 1e3, moved / self.bandwidth * 1e9)
        self.ops.append({"id": len(self.ops), "name": name, "duration_ns": int(ns), "reads": reads, "writes": writes})

    def add_gradient(self, tensor, gradient):
        before = self.gradient.get(tensor)
        if before is None:
            self.gradient[tensor] = gradient
            return
        total = self.tensor(self.elements(tensor), "gradient")
        self.op("add_gradients", [before, gradient], [total])
        self.gradient[tensor] = total

    def new_gradient(self, tensor):
        return self.tensor(self.elements(tensor), "gradient")

    def layer(self, kind, inputs, elements, parameters=(), flops=0, saves=(), saves_output=False):
        """An op whose backward is one op: reads the output's gradient and what is saved, writes all other gradients."""
        out = self.tensor(elements, kind)
        self.op(kind, [*inputs, *parameters], [out], flops)

        def backward():
            gradient = self.gradient.pop(out)
            wanted = [t for t in dict.fromkeys([*inputs, *parameters]) if t not in self.constants]
            made = [self.new_gradient(t) for t in wanted]
            self.op(kind + "_backward", [gradient, *saves, *parameters, *([out] if saves_output else [])], made, 2 * flops)
            for tensor, g in zip(wanted, made):
                self.add_gradient(tensor, g)

        self.tape.append(backward)
        return out

    def product(self, kind, x, weight, elements, flops, workspace=0):
        """A convolution or a matrix product with a weight: its backward is two ops, for the data and for the weight."""
        out = self.tensor(elements, kind)
        scratch = [self.tensor(workspace, "workspace")] if workspace else []
        self.op(kind, [x, weight], [out, *scratch], flops)

        def backward():
            gradient = self.gradient.pop(out)
            made = self.new_gradient(weight)
            self.op(kind + "_backward_weight", [gradient, x], [made], flops)
            self.add_gradient(weight, made)
            if x not in self.constants:
                made = self.new_gradient(x)
                self.op(kind + "_backward_data", [gradient, weight], [made], flops)
                self.add_gradient(x, made)

        self.tape.append(backward)
        return out

    def in_place(self, kind, x):
        """An activation written over its input, which its backward reads."""
        self.op(kind, [x], [x])

        def backward():
            gradient, made = self.gradient.pop(x), self.new_gradient(x)
            self.op(kind + "_backward", [gradient, x], [made])
            self.gradient[x] = made

        self.tape.append(backward)
        return x

    def add(self, a, b):
        """A residual sum: its gradient is that of both inputs."""
        out = self.tensor(self.elements(a), "add")
        self.op("add", [a, b], [out])

        def backward():
            gradient = self.gradient.pop(out)
            self.add_gradient(a, gradient)
            self.add_gradient(b, gradient)

        self.tape.append(backward)
        return out

    def linear(self, x, rows, inside, outside, name="linear", bias=True):
        y = self.product(name, x, self.parameter(inside * outside, name + ".weight"), rows * outside, 2 * rows * inside * outside)
        return self.layer(name + "_bias", [y], rows * outside, [self.parameter(outside, name + ".bias")]) if bias else y

    def norm(self, x, channels, name="norm"):
        return self.layer(name, [x], self.elements(x), [self.parameter(channels, name + ".weight"), self.parameter(channels, name + ".bias")],
                          saves=[x])

    def loss(self, x):
        probabilities = self.tensor(self.elements(x), "probabilities")
        self.op("loss", [x], [probabilities])
        self.gradient[x] = self.new_gradient(x)
        self.op("loss_backward", [probabilities], [self.gradient[x]])

    def finish(self, states, group, device=None):
        for backward in reversed(self.tape):
            backward()
        for at in range(0, len(self.parameters), group):
            reads, writes = [], []
            for p in self.parameters[at:at + group]:
                kept = [p, *(self.tensor(self.elements(p), f"state{s}", persistent=True) for s in range(states))]
                reads += [self.gradient.pop(p), *kept]
                writes += kept
            self.op("update", reads, writes)
        return {"format": "swapadvisor-graph", "version": 1, "name": self.name, "source": "scripts/model_graphs.py",
                "device": dict(device or DEVICE), "tensors": self.tensors, "ops": self.ops}


def conv(b, x, batch, inside, outside, size, kernel, stride=1, groups=1, bias=False):
    after = size // stride
    flops = 2 * batch * after * after * kernel * kernel * inside // groups * outside
    if groups == inside > 1:
        flops *= 20  # depthwise: kernels of real libraries reach a small part of the arithmetic
    weight = b.parameter(kernel * kernel * inside // groups * outside, "conv.weight")
    y = b.product("conv", x, weight, batch * outside * after * after, flops)
    if bias:
        y = b.layer("conv_bias", [y], b.elements(y), [b.parameter(outside, "conv.bias")])
    return y


def conv_norm(b, x, *shape, act=True):
    y = b.norm(conv(b, x, *shape), shape[2], "batch_norm")
    return b.in_place("relu", y) if act else y


def wide_resnet(b, batch, image, blocks, width):
    size = image // 4
    x = b.data(batch * 3 * image * image, "images")
    inside = 64 * width
    x = conv_norm(b, x, batch, 3, inside, image, 7, 2)
    x = b.layer("max_pool", [x], batch * inside * size * size, saves=[x])
    for stage, count in enumerate(blocks):
        middle, outside = 64 * width << stage, 256 * width << stage
        for block in range(count):
            stride = 2 if block == 0 and stage > 0 else 1
            y = conv_norm(b, x, batch, inside, middle, size, 1)
            y = conv_norm(b, y, batch, middle, middle, size, 3, stride)
            y = conv_norm(b, y, batch, middle, outside, size // stride, 1, act=False)
            if block == 0:
                x = conv_norm(b, x, batch, inside, outside, size, 1, stride, act=False)
            x = b.in_place("relu", b.add(y, x))
            size, inside = size // stride, outside
    x = b.layer("average_pool", [x], batch * inside)
    b.loss(b.linear(x, batch, inside, 1000))


def transformer_block(b, x, batch, tokens, width, heads):
    rows = batch * tokens
    scores = batch * heads * tokens * tokens
    y = b.norm(x, width, "layer_norm")
    qkv = b.linear(y, rows, width, 3 * width, "qkv")
    s = b.layer("scores", [qkv], scores, flops=2 * rows * tokens * width, saves=[qkv])
    p = b.layer("softmax", [s], scores, saves_output=True)
    p = b.layer("dropout", [p], scores)
    y = b.layer("attend", [p, qkv], rows * width, flops=2 * rows * tokens * width, saves=[p, qkv])
    x = b.add(x, b.linear(y, rows, width, width, "project"))
    y = b.norm(x, width, "layer_norm")
    y = b.linear(y, rows, width, 4 * width, "expand")
    y = b.layer("gelu", [y], rows * 4 * width, saves=[y])
    return b.add(x, b.linear(y, rows, 4 * width, width, "contract"))


def gpt(b, batch, layers, tokens, width, heads, words):
    ids = b.data(batch * tokens, "tokens")
    x = b.layer("embed", [ids], batch * tokens * width, [b.parameter(words * width, "embedding"), b.parameter(tokens * width, "positions")],
                saves=[ids])
    for _ in range(layers):
        x = transformer_block(b, x, batch, tokens, width, heads)
    b.loss(b.linear(b.norm(x, width, "layer_norm"), batch * tokens, width, words, "head", bias=False))


def vit(b, batch, layers, image, patch, width, heads):
    tokens = (image // patch) ** 2 + 1
    x = b.data(batch * 3 * image * image, "images")
    weight = b.parameter(3 * patch * patch * width, "patch.weight")
    x = b.product("patches", x, weight, batch * tokens * width, 2 * batch * tokens * 3 * patch * patch * width)
    x = b.layer("add_positions", [x], batch * tokens * width, [b.parameter(tokens * width, "positions")])
    for _ in range(layers):
        x = transformer_block(b, x, batch, tokens, width, heads)
    x = b.layer("class_token", [b.norm(x, width, "layer_norm")], batch * width)
    b.loss(b.linear(x, batch, width, 1000, "head"))


def lstm_chain(b, inputs, batch, inside, hidden):
    """One direction of one layer over all steps; returns the outputs, in the order of the inputs."""
    weight = b.parameter((inside + hidden) * 4 * hidden, "lstm.weight")
    bias = b.parameter(4 * hidden, "lstm.bias")
    flops = 2 * batch * (inside + hidden) * 4 * hidden
    state = {"h": b.data(batch * hidden, "h0"), "c": b.data(batch * hidden, "c0")}
    outputs = []

    def step(x, h, c):
        gates, c2, h2 = b.tensor(batch * 4 * hidden, "gates"), b.tensor(batch * hidden, "c"), b.tensor(batch * hidden, "h")
        b.op("gates", [x, h, weight], [gates], flops)
        b.op("cell", [gates, bias, c], [gates, c2, h2])

        def backward():
            g = b.tensor(batch * 4 * hidden, "gradient")
            coming = [t for t in (b.gradient.pop(h2, None), b.gradient.pop(c2, None)) if t is not None]
            made = {} if c in b.constants else {c: b.new_gradient(c)}
            b.op("cell_backward", [gates, c, c2, *coming], [g, *made.values()])
            for parameter, cost, saved in ((weight, flops, [x, h]), (bias, 0, [])):  # adds to what the later steps gave
                before = b.gradient.get(parameter)
                b.gradient[parameter] = before if before is not None else b.new_gradient(parameter)
                b.op("gates_backward_weight" if saved else "bias_backward", [g, *saved, *([before] if before is not None else [])],
                     [b.gradient[parameter]], cost)
            wanted = [t for t in (x, h) if t not in b.constants]
            if wanted:
                new = {t: b.new_gradient(t) for t in wanted}
                b.op("gates_backward_data", [g, weight], list(new.values()), flops)
                made.update(new)
            for tensor, gradient in made.items():
                b.add_gradient(tensor, gradient)

        b.tape.append(backward)
        return h2, c2

    for x in inputs:
        state["h"], state["c"] = step(x, state["h"], state["c"])
        outputs.append(state["h"])
    return outputs


def lstm(b, batch, layers, steps, hidden, words, both=False):
    embedding = b.parameter(words * hidden, "embedding")
    ids = [b.data(batch, "tokens") for _ in range(steps)]
    # The embedding's gradient comes step by step and is added up in one buffer.
    xs = []
    for t in ids:
        x = b.tensor(batch * hidden, "embed")
        b.op("embed", [t, embedding], [x])

        def backward(x=x, t=t):
            before = b.gradient.get(embedding)
            b.gradient[embedding] = before if before is not None else b.new_gradient(embedding)
            b.op("embed_backward", [b.gradient.pop(x), t, *([before] if before is not None else [])], [b.gradient[embedding]])

        b.tape.append(backward)
        xs.append(x)
    inside = hidden
    for _ in range(layers):
        ahead = lstm_chain(b, xs, batch, inside, hidden)
        if both:
            back = lstm_chain(b, xs[::-1], batch, inside, hidden)[::-1]
            xs = [b.layer("join", pair, 2 * batch * hidden) for pair in zip(ahead, back)]
            inside = 2 * hidden
        else:
            xs = ahead
    x = b.layer("stack", xs, steps * batch * inside)
    b.loss(b.linear(x, steps * batch, inside, words, "head"))


def separable(b, x, batch, inside, outside, size, kernel, stride):
    for first in (True, False):
        y = b.layer("relu", [x], b.elements(x), saves_output=True)
        s, i, now = (stride, inside, size) if first else (1, outside, size // stride)
        y = conv(b, y, batch, i, i, now, kernel, s, groups=i)
        x = b.norm(conv(b, y, batch, i, outside, now // s, 1), outside, "batch_norm")
    return x


def nasnet_cell(b, before, last, batch, size, channels, reduce):
    """A NASNet-A cell: (tensor, channels, size) of the two cells before it in, its own out."""
    s, stride = size, 2 if reduce else 1

    def fitted(source):
        x, inside, now = source
        y = b.layer("relu", [x], b.elements(x), saves_output=True)
        return b.norm(conv(b, y, batch, inside, channels, now, 1, now // s), channels, "batch_norm")

    h, p = fitted(last), fitted(before)
    sep = lambda x, kernel, down=stride: separable(b, x, batch, channels, channels, s * down // stride if down != stride else s, kernel, down)
    after = batch * channels * (s // stride) ** 2
    pool = lambda x, kind: b.layer(kind, [x], after, saves=[x] if kind == "max_pool" else [])
    if reduce:
        one = b.add(sep(h, 5), sep(p, 7))
        two = b.add(pool(h, "max_pool"), sep(p, 7))
        three = b.add(pool(h, "average_pool"), sep(p, 5))
        four = b.add(b.layer("average_pool", [one], after), two)
        five = b.add(separable(b, one, batch, channels, channels, s // stride, 3, 1), pool(h, "max_pool"))
        parts = [two, three, four, five]
    else:
        parts = [p, b.add(sep(h, 3), h), b.add(sep(p, 3), sep(h, 5)), b.add(pool(h, "average_pool"), p),
                 b.add(pool(p, "average_pool"), pool(p, "average_pool")), b.add(sep(p, 5), sep(p, 3))]
    out = b.layer("join", parts, len(parts) * after)
    return out, len(parts) * channels, s // stride


def nasnet(b, batch, image, cells, channels):
    x = b.data(batch * 3 * image * image, "images")
    size = image // 4
    x = b.norm(conv(b, x, batch, 3, 32, image, 3, 4), 32, "batch_norm")
    before = last = (x, 32, size)
    for stage in range(3):
        for cell in range(cells + (stage > 0)):
            reduce = stage > 0 and cell == 0
            before, last = last, nasnet_cell(b, before, last, batch, last[2], channels << stage, reduce)
    x = b.layer("average_pool", [b.layer("relu", [last[0]], b.elements(last[0]), saves_output=True)], batch * last[1])
    b.loss(b.linear(x, batch, last[1], 1000))


def unet(b, batch, image, levels, channels):
    x, inside, size, skips = b.data(batch * image * image, "images"), 1, image, []

    def twice(x, inside, outside):
        for i in (inside, outside):
            x = b.in_place("relu", conv(b, x, batch, i, outside, size, 3, bias=True))
        return x

    for level in range(levels):
        x = twice(x, inside, channels << level)
        inside = channels << level
        if level + 1 < levels:
            skips.append(x)
            size //= 2
            x = b.layer("max_pool", [x], batch * inside * size * size, saves=[x])
    for skip in reversed(skips):
        size, outside = size * 2, inside // 2
        x = b.product("up_conv", x, b.parameter(4 * inside * outside, "up_conv.weight"), batch * outside * size * size,
                      2 * batch * inside * outside * size * size)
        x = b.layer("join", [skip, x], 2 * batch * outside * size * size)
        x, inside = twice(x, inside, outside), outside
    b.loss(conv(b, x, batch, inside, 2, size, 1, bias=True))


# name -> (function, states of its optimizer for each parameter, full size, small size)
MODELS = {
    "wide-resnet152": (wide_resnet, 1, dict(batch=8, image=224, blocks=(3, 8, 36, 3), width=4),
                       dict(batch=2, image=64, blocks=(2, 3, 4, 2), width=1)),
    "gpt": (gpt, 2, dict(batch=4, layers=24, tokens=1024, width=1024, heads=16, words=50257),
            dict(batch=2, layers=3, tokens=128, width=128, heads=4, words=1000)),
    "lstm": (lstm, 2, dict(batch=256, layers=4, steps=60, hidden=2048, words=10000),
             dict(batch=64, layers=2, steps=8, hidden=256, words=1000)),
    "bilstm": (lstm, 2, dict(batch=256, layers=3, steps=40, hidden=1536, words=10000, both=True),
               dict(batch=64, layers=2, steps=6, hidden=256, words=1000, both=True)),
    "nasnet": (nasnet, 1, dict(batch=64, image=224, cells=4, channels=44), dict(batch=1, image=64, cells=1, channels=24)),
    "unet": (unet, 1, dict(batch=8, image=576, levels=5, channels=64), dict(batch=1, image=96, levels=3, channels=16)),
    "vit": (vit, 2, dict(batch=144, layers=24, image=224, patch=16, width=1024, heads=16),
            dict(batch=2, layers=3, image=64, patch=8, width=128, heads=4)),
}


def make(name, group=1, small=False, device=None, tflops=None, **changes):
    """The graph of a model as a dictionary. `group`: parameters that one update serves. `changes`: of its sizes."""
    function, states, full, tiny = MODELS[name]
    b = Builder(name + (f"-{group}" if group > 1 else "") + ("-small" if small else ""), **({"tflops": tflops} if tflops else {}))
    function(b, **{**(tiny if small else full), **changes})
    return b.finish(states, group, device)


def peak_bytes(graph):
    """The most that lives at once in program order; persistent tensors always count."""
    first, last = {}, {}
    for i, op in enumerate(graph["ops"]):
        for t in op["reads"] + op["writes"]:
            first.setdefault(t, i)
            last[t] = i
    change, live = [0] * (len(graph["ops"]) + 1), 0
    for t in graph["tensors"]:
        if t["persistent"]:
            live += t["bytes"]
        elif t["id"] in first:
            change[first[t["id"]]] += t["bytes"]
            change[last[t["id"]] + 1] -= t["bytes"]
    most = live
    for c in change:
        live += c
        most = max(most, live)
    return most


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", choices=MODELS)
    parser.add_argument("-o", "--output", help="file (standard output)")
    parser.add_argument("--group", type=int, default=1, help="parameters that one update serves (1)")
    parser.add_argument("--small", action="store_true", help="a model of the same shape for tests")
    parser.add_argument("--batch", type=int, help="another batch size")
    parser.add_argument("--tflops", type=float, help="arithmetic of the device, 10^12 a second (6)")
    parser.add_argument("--list", action="store_true", help="all models: ops, tensors, peak of live tensors, time")
    args = parser.parse_args()
    if args.group < 1 or (args.batch is not None and args.batch < 1):
        parser.error("--group and --batch need at least 1")
    changes = {"batch": args.batch} if args.batch else {}
    if args.list:
        for name in MODELS:
            for group in (1, 30):
                g = make(name, group, args.small, tflops=args.tflops, **changes)
                print(f"{g['name']:24} {len(g['ops']):5} ops {len(g['tensors']):6} tensors {peak_bytes(g) / 2**30:8.3f} GiB"
                      f" {sum(op['duration_ns'] for op in g['ops']) / 1e6:9.1f} ms")
        return
    if not args.model:
        parser.error("which model? --list shows all")
    text = json.dumps(make(args.model, args.group, args.small, tflops=args.tflops, **changes), separators=(",", ":"))
    if args.output:
        with open(args.output, "w") as out:
            out.write(text + "\n")
    else:
        sys.stdout.write(text + "\n")


if __name__ == "__main__":
    main()
