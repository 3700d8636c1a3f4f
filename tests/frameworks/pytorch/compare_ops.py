#!/usr/bin/env python3
"""Compares the op pack with PyTorch's own results on the processor: every operation, its gradients, in each type.

Prints a table (one line for each operation and type) and how many agree. --only REGEX takes some of them."""
import argparse
import re
import sys

import torch
import torch.nn.functional as F

f32, f64, f16, bf16, i64, b8 = torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.bool
FLOATS = (f32, f64, bf16, f16)
TOLERANCE = {f32: 2e-5, f64: 1e-11, f16: 4e-3, bf16: 3e-2}


def normal(*shape):
    return lambda g: torch.randn(shape, generator=g, dtype=f64)


def positive(*shape):
    return lambda g: torch.rand(shape, generator=g, dtype=f64) + 0.5


def fraction(*shape):
    return lambda g: torch.rand(shape, generator=g, dtype=f64) * 0.8 + 0.1


def whole(low, high, *shape):
    return lambda g: torch.randint(low, high, shape, generator=g)


def flags(*shape):
    return lambda g: torch.rand(shape, generator=g) < 0.5


CASES = []


def case(name, function, *inputs, types=FLOATS):
    CASES.append((name, function, inputs, types))


def unary(names, make=normal, types=(f32, bf16)):
    for name in names.split():
        case(name, getattr(torch, name), make(6, 37), types=types)


unary("neg abs exp tanh sigmoid sin cos erf square sign", types=FLOATS)
unary("expm1 exp2 atan sinh cosh asinh erfc floor ceil round trunc frac")
unary("sqrt rsqrt log log2 log10 log1p reciprocal", positive)
case("lgamma", lambda x: torch.lgamma(x.detach()), positive(6, 37), types=(f32, bf16))
unary("asin acos tan atanh erfinv", fraction)
for _name in "relu gelu silu elu softplus leaky_relu hardtanh hardswish hardsigmoid logsigmoid mish selu relu6 softshrink".split():
    case(_name, getattr(F, _name), normal(5, 33), types=(f32, bf16, f16) if _name in ("relu", "gelu", "silu") else (f32, bf16))
case("gelu tanh", lambda x: F.gelu(x, approximate="tanh"), normal(5, 33))
case("glu", F.glu, normal(5, 32), types=(f32,))
case("prelu", F.prelu, normal(3, 4, 5), normal(4), types=(f32,))
for _name in "add sub mul div maximum minimum".split():
    case(_name, getattr(torch, _name), normal(4, 5, 6), normal(5, 1))
for _name in "atan2 hypot fmod remainder copysign".split():
    case(_name, getattr(torch, _name), normal(4, 6), positive(4, 6), types=(f32,))
case("pow", torch.pow, positive(4, 6), normal(4, 6), types=(f32, f64))
case("pow number", lambda x: x ** 3, normal(4, 6))
case("number pow", lambda x: 2.0 ** x, normal(4, 6), types=(f32,))
case("add alpha, number, transposed", lambda x: (x.t().add(x[:, :5].t().sum() * 0 + 1, alpha=2) + 3) / 2, normal(7, 5))
case("where", torch.where, flags(4, 6), normal(4, 6), normal(6))
case("lerp", torch.lerp, normal(4, 6), normal(4, 6), fraction(4, 6), types=(f32, bf16))
case("lerp number", lambda a, b: torch.lerp(a, b, 0.3), normal(4, 6), normal(4, 6))
case("addcmul", lambda a, b, c: torch.addcmul(a, b, c, value=0.5), normal(4, 6), normal(4, 6), normal(4, 6))
case("addcdiv", lambda a, b, c: torch.addcdiv(a, b, c, value=0.5), normal(4, 6), normal(4, 6), positive(4, 6))
case("clamp", lambda x: x.clamp(-0.5, 0.7), normal(4, 6))
case("clamp tensors", lambda x, a: x.clamp(-a, a), normal(4, 6), positive(4, 6), types=(f32,))
case("masked_fill", lambda x, m: x.masked_fill(m, -3.0), normal(4, 6), flags(4, 6))
case("logaddexp", torch.logaddexp, normal(4, 6), normal(4, 6), types=(f32,))
case("xlogy", torch.xlogy, positive(4, 6), positive(4, 6), types=(f32,))
for _name in "add sub mul floor_divide remainder maximum bitwise_and bitwise_or bitwise_xor eq lt".split():
    case(_name, getattr(torch, _name), whole(-20, 20, 5, 7), whole(1, 9, 5, 7), types=(i64, torch.int32, torch.uint8) if _name in ("add", "mul") else (i64,))
case("abs neg sum", lambda x: (x.abs() - x).sum(0), whole(-20, 20, 5, 7), types=(i64,))
case("comparisons", lambda a, b: torch.stack([a < b, a <= b, a > b, a >= b, a == b, a != b]), normal(5, 7), normal(5, 7))
case("logical", lambda a, b: torch.stack([a & b, a | b, a ^ b, ~a, a.logical_and(b)]), flags(5, 7), flags(5, 7), types=(b8,))
case("any all", lambda a: (a.any(0), a.all(1), a.any()), flags(5, 7), types=(b8,))
case("isnan isinf isfinite", lambda x: torch.stack([torch.isnan(x / 0 * 0), torch.isinf(x / 0), torch.isfinite(x)]), positive(5), types=(f32,))

case("sum", lambda x: x.sum(), normal(33, 65))
case("sum dim", lambda x: (x.sum(1), x.sum((0, 2)), x.transpose(0, 2).sum(0)), normal(5, 70, 9))
case("mean", lambda x: (x.mean(), x.mean(-1)), normal(9, 130))
case("prod", lambda x: x.prod(1), positive(4, 6), types=(f32,))
case("var std", lambda x: (x.var(1), x.std(0), x.var()), normal(9, 30), types=(f32, f64))
case("amax amin", lambda x: (x.amax(1), x.amin(0)), normal(9, 30))
case("max min", lambda x: (*x.max(1), *x.min(0), x.max()), normal(9, 30))
case("argmax argmin", lambda x: (x.argmax(1), x.argmin(0), x.argmax()), normal(9, 30))
case("norm", lambda x: (x.norm(), x.norm(1, dim=1), torch.linalg.vector_norm(x, 3)), normal(9, 30), types=(f32, f64))
case("logsumexp", lambda x: x.logsumexp(1), normal(9, 30), types=(f32,))
case("cumsum", lambda x: x.cumsum(1), normal(5, 30), types=(f32, f64))
case("cumprod", lambda x: x.cumprod(0), positive(5, 3), types=(f32,))
case("sort topk", lambda x: (*x.sort(1), *x.topk(4, 1), x.argsort(0)), normal(5, 30), types=(f32, f64))
case("softmax", lambda x: F.softmax(x, -1), normal(9, 150))
case("softmax dim 1", lambda x: F.softmax(x, 1), normal(3, 20, 5), types=(f32,))
case("log_softmax", lambda x: F.log_softmax(x, -1), normal(9, 150))

case("mm", torch.mm, normal(37, 20), normal(20, 70))
case("mm transposed", lambda a, b: a.t() @ b.t(), normal(20, 37), normal(70, 20))
case("bmm", torch.bmm, normal(3, 17, 20), normal(3, 20, 9))
case("addmm", lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=2), normal(9), normal(17, 20), normal(20, 9))
case("baddbmm", torch.baddbmm, normal(3, 17, 9), normal(3, 17, 20), normal(3, 20, 9))
case("mv dot", lambda m, v: (m @ v, v.dot(v)), normal(17, 20), normal(20), types=(f32, f64))
case("linear", F.linear, normal(4, 8, 20), normal(30, 20), normal(30))
case("einsum", lambda a, b: torch.einsum("bik,bjk->bij", a, b), normal(2, 5, 7), normal(2, 6, 7), types=(f32,))
case("attention", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), normal(2, 2, 9, 8), normal(2, 2, 9, 8), normal(2, 2, 9, 8), types=(f32, bf16))
case("conv2d", lambda x, w, b: F.conv2d(x, w, b, padding=1), normal(2, 3, 9, 8), normal(5, 3, 3, 3), normal(5))
case("conv2d stride, groups, dilation", lambda x, w: F.conv2d(x, w, None, 2, 2, 2, 2), normal(2, 4, 11, 9), normal(6, 2, 3, 3), types=(f32, f64))
case("conv1d", lambda x, w, b: F.conv1d(x, w, b, padding=1), normal(2, 3, 9), normal(5, 3, 3), normal(5), types=(f32,))
case("conv_transpose2d", lambda x, w, b: F.conv_transpose2d(x, w, b, 2, 1, 1), normal(2, 4, 5, 6), normal(4, 3, 3, 3), normal(3), types=(f32, f64))

case("layer_norm", lambda x, w, b: F.layer_norm(x, (20,), w, b), normal(4, 7, 20), normal(20), normal(20))
case("group_norm", lambda x, w, b: F.group_norm(x, 2, w, b), normal(3, 4, 5, 5), normal(4), normal(4), types=(f32, f64))
case("batch_norm", lambda x, w, b: F.batch_norm(x, None, None, w, b, True), normal(3, 4, 5, 5), normal(4), normal(4), types=(f32, f64))
case("batch_norm evaluation", lambda x, m, v, w, b: F.batch_norm(x, m.detach(), v.detach(), w, b, False), normal(3, 4, 5, 5), normal(4), positive(4), normal(4), normal(4), types=(f32,))
case("max_pool2d", lambda x: F.max_pool2d(x, 3, 2, 1), normal(2, 3, 9, 8))
case("avg_pool2d", lambda x: F.avg_pool2d(x, 3, 2, 1), normal(2, 3, 9, 8), types=(f32, f64))
case("adaptive_avg_pool2d", lambda x: (F.adaptive_avg_pool2d(x, (3, 2)), F.adaptive_avg_pool2d(x, 1)), normal(2, 3, 9, 8), types=(f32, f64))
case("upsample nearest", lambda x: F.interpolate(x, scale_factor=2), normal(2, 3, 5, 4), types=(f32, bf16))
case("upsample bilinear", lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), normal(2, 3, 5, 4), types=(f32, f64))
case("upsample bilinear aligned", lambda x: F.interpolate(x, size=(7, 9), mode="bilinear", align_corners=True), normal(2, 3, 5, 4), types=(f32,))
case("embedding", F.embedding, whole(0, 11, 5, 6), normal(11, 8))
case("embedding padded", lambda i, w: F.embedding(i, w, padding_idx=2), whole(0, 11, 5, 6), normal(11, 8), types=(f32,))
case("gather", lambda x, i: x.gather(1, i), normal(6, 7), whole(0, 7, 6, 4), types=(f32, f64))
case("scatter_add", lambda x, i, s: x.scatter_add(1, i, s), normal(6, 7), whole(0, 7, 6, 4), normal(6, 4), types=(f32, f64))
case("scatter one_hot", lambda i: F.one_hot(i, 9), whole(0, 9, 6), types=(i64,))
case("index_select", lambda x, i: x.index_select(1, i), normal(6, 7), whole(0, 7, 4))
case("index_add", lambda x, i, s: x.index_add(0, i, s), normal(6, 7), whole(0, 6, 4), normal(4, 7), types=(f32,))
case("index", lambda x, i, j: (x[i], x[:, i], x[i, j], x[i, :, j]), normal(7, 8, 9), whole(0, 7, 5), whole(0, 8, 5), types=(f32, f64))
case("index mask", lambda x, m: x[m], normal(7, 8), flags(7, 8), types=(f32,))
case("index_put", lambda x, i, v: x.clone().index_put((i,), v, accumulate=True), normal(7, 8), whole(0, 7, 5), normal(5, 8), types=(f32,))
case("cat stack", lambda a, b: (torch.cat([a, b], 1), torch.stack([a, a * 2])), normal(4, 6), normal(4, 3))
case("split chunk permute", lambda x: (x.chunk(3, 1)[1] * 2, x.permute(2, 0, 1).contiguous(), x.expand(2, 4, 6, 5).sum(0)), normal(4, 6, 5))
case("flip roll repeat", lambda x: (x.flip(0), x.roll(2, 1), x.repeat(2, 3)), normal(4, 6), types=(f32,))
case("tril triu", lambda x: (x.tril(), x.triu(1)), normal(6, 6), types=(f32, f64))
case("pad", lambda x: F.pad(x, (1, 2, 3, 0)), normal(4, 6), types=(f32,))
case("casts", lambda x: torch.cat([x.float().view(-1), x.half().float().view(-1), x.bfloat16().float().view(-1), x.long().float().view(-1)]), normal(4, 6), types=(f32, f64, f16))
case("unfold diagonal", lambda x: (x.unfold(1, 3, 2).sum(-1), x.diagonal()), normal(6, 6), types=(f32,))

case("cross_entropy", F.cross_entropy, normal(9, 12), whole(0, 12, 9), types=(f32, f64))
case("cross_entropy smoothed, ignored", lambda x, t: F.cross_entropy(x, t, ignore_index=3, label_smoothing=0.1), normal(9, 12), whole(0, 12, 9), types=(f32,))
case("cross_entropy 2d", F.cross_entropy, normal(2, 5, 4, 3), whole(0, 5, 2, 4, 3), types=(f32,))
case("nll_loss weights", lambda x, t, w: F.nll_loss(x, t, w.detach(), reduction="none"), normal(9, 12), whole(0, 12, 9), positive(12), types=(f32,))
case("mse_loss", F.mse_loss, normal(5, 6), normal(5, 6))
case("smooth_l1 huber l1", lambda a, b: (F.smooth_l1_loss(a, b), F.huber_loss(a, b), F.l1_loss(a, b)), normal(5, 6), normal(5, 6), types=(f32,))
case("bce with logits", F.binary_cross_entropy_with_logits, normal(5, 6), fraction(5, 6), types=(f32, f64))
case("bce", lambda x, t: F.binary_cross_entropy(x, t.detach()), fraction(5, 6), fraction(5, 6), types=(f32,))
case("kl_div", lambda x, t: F.kl_div(F.log_softmax(x, 1), t, reduction="batchmean"), normal(5, 6), fraction(5, 6), types=(f32,))


def cell(x, h, c, w, u, b):
    import torch._VF as vf
    return vf.lstm_cell(x, [h, c], w, u, b, b)


case("lstm cell", cell, normal(5, 7), normal(5, 6), normal(5, 6), normal(24, 7), normal(24, 6), normal(24), types=(f32, f64))


def optimizer(make):
    def run(a, b):
        parameters = [torch.nn.Parameter(a.detach().clone()), torch.nn.Parameter(b.detach().clone())]
        o = make(parameters)
        for _ in range(3):
            o.zero_grad()
            sum((p ** 2).sum() * (1 + k) for k, p in enumerate(parameters)).backward()
            o.step()
        return tuple(p.detach() for p in parameters)
    return run


for _name, _make in {
    "SGD": lambda p: torch.optim.SGD(p, 0.01), "SGD momentum": lambda p: torch.optim.SGD(p, 0.01, 0.9, weight_decay=0.1, nesterov=True),
    "SGD one by one": lambda p: torch.optim.SGD(p, 0.01, 0.9, foreach=False), "SGD fused": lambda p: torch.optim.SGD(p, 0.01, 0.9, fused=True),
    "Adam": lambda p: torch.optim.Adam(p, 0.01), "Adam one by one": lambda p: torch.optim.Adam(p, 0.01, foreach=False),
    "Adam fused": lambda p: torch.optim.Adam(p, 0.01, fused=True), "AdamW": lambda p: torch.optim.AdamW(p, 0.01),
    "AdamW fused": lambda p: torch.optim.AdamW(p, 0.01, fused=True), "Adam amsgrad": lambda p: torch.optim.Adam(p, 0.01, amsgrad=True),
    "RMSprop": lambda p: torch.optim.RMSprop(p, 0.01), "Adagrad": lambda p: torch.optim.Adagrad(p, 0.01),
}.items():
    case(_name, optimizer(_make), normal(30, 7), normal(11), types=(f32,))


def flat(out):
    return [t for t in (out if isinstance(out, (tuple, list)) else (out,)) if isinstance(t, torch.Tensor)]


def differ(a, b, tolerance):
    if a.shape != b.shape or a.dtype != b.dtype:
        return f"shape or type: {tuple(a.shape)} {a.dtype}, not {tuple(b.shape)} {b.dtype}"
    if not a.dtype.is_floating_point:
        return "" if torch.equal(a, b) else "other values"
    a, b = a.double(), b.double()
    if not torch.equal(torch.isfinite(a), torch.isfinite(b)):
        return "not finite elsewhere"
    a, b = a.nan_to_num(0, 0, 0), b.nan_to_num(0, 0, 0)
    error = ((a - b).abs() / (1 + b.abs())).max().item() if a.numel() else 0
    return f"error {error:.1e}" if error > tolerance else ""


def run(function, inputs, device):
    inputs = [t.to(device).requires_grad_(t.dtype.is_floating_point) for t in inputs]
    out = flat(function(*inputs))
    wanted = [t for t in out if t.requires_grad]
    leaves = [t for t in inputs if t.requires_grad]
    gradients = []
    if wanted and leaves:
        weights = [torch.linspace(-1, 1, t.numel(), dtype=f64).view(t.shape).to(t.dtype).to(device) for t in wanted]
        gradients = torch.autograd.grad(wanted, leaves, weights, allow_unused=True)
    return [t.detach().cpu() for t in out], [None if g is None else g.detach().cpu() for g in gradients]


def compare(function, makers, dtype):
    generator = torch.Generator().manual_seed(7)
    inputs = []
    for make in makers:
        t = make(generator)
        inputs.append(t.to(dtype) if t.dtype == f64 or (t.dtype == i64 and not dtype.is_floating_point) else t)
    expected, expected_gradients = run(function, inputs, "cpu")
    got, gradients = run(function, inputs, "cuda")
    tolerance = TOLERANCE.get(dtype, 2e-5)
    for k, (a, b) in enumerate(zip(got, expected, strict=True)):
        if text := differ(a, b, tolerance):
            return f"result {k}: {text}", 0
    for k, (a, b) in enumerate(zip(gradients, expected_gradients, strict=True)):
        if (a is None) != (b is None):
            return f"gradient {k}: missing", 0
        if a is not None and (text := differ(a, b, 3 * tolerance)):
            return f"gradient {k}: {text}", 0
    return "", sum(g is not None for g in gradients)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--brief", action="store_true", help="only what differs, and the count")
    args = parser.parse_args()
    good = bad = with_gradient = 0
    for name, function, makers, types in CASES:
        if not re.search(args.only, name):
            continue
        for dtype in types:
            try:
                text, gradients = compare(function, makers, dtype)
            except Exception as error:  # an operation that is missing says so itself
                text, gradients = f"{type(error).__name__}: {str(error).splitlines()[0]}", 0
            good, bad, with_gradient = good + (not text), bad + bool(text), with_gradient + (not text and gradients > 0)
            if text or not args.brief:
                print(f"{name:36} {str(dtype)[6:]:9} {text or ('agrees, with gradients' if gradients else 'agrees')}", flush=True)
    print(f"{good} agree ({with_gradient} with gradients), {bad} differ")
    return bad > 0


sys.exit(main())
