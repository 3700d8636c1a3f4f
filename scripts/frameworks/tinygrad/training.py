"""What the three tinygrad examples share: options, data that lies in the tree, and the training loop.

The examples are ordinary tinygrad programs: nothing here knows of SwapAdvisor. Each prints one line per step,
`loss STEP VALUE HEX`, where HEX is the exact float, so that two runs can be compared to the last bit, and closes
with `weights HEX`, a hash of all trained parameters.
"""
import argparse
import gzip
import hashlib
import pathlib
import time

import numpy as np
from tinygrad import Context, Tensor, TinyJit, dtypes

ROOT = pathlib.Path(__file__).resolve().parents[3]


def parse_options(description, **defaults):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--steps", type=int, default=defaults.pop("steps"))
    parser.add_argument("--batch", type=int, default=defaults.pop("batch"))
    parser.add_argument("--width", type=int, default=defaults.pop("width"))
    parser.add_argument("--depth", type=int, default=defaults.pop("depth"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--half", action="store_true", help="half precision products (the shapes tensor cores take)")
    parser.add_argument("--jit", action="store_true", help="run the step through TinyJit (captured graphs)")
    options = parser.parse_args()
    options.dtype = dtypes.half if options.half else dtypes.float
    return options


def digits():
    """The UCI optical digits: images (n, 1, 8, 8) in 0..1 and labels (n,)."""
    with gzip.open(ROOT / "tests/workloads/digits/digits.csv.gz", "rt") as file:
        table = np.loadtxt(file, delimiter=",", dtype=np.float32)
    return table[:, :64].reshape(-1, 1, 8, 8) / 16, table[:, 64].astype(np.int32)


def text_tokens():
    """The licence text of this project as byte tokens: a small text that lies in the tree."""
    raw = (ROOT / "LICENSE").read_bytes()
    alphabet = sorted(set(raw))
    index = {byte: i for i, byte in enumerate(alphabet)}
    return np.array([index[byte] for byte in raw], dtype=np.int32), len(alphabet)


def train(options, batches, loss_of, optimizer, parameters):
    """`batches(step)` gives numpy arrays, `loss_of(*tensors)` the loss tensor."""

    def step(*inputs):
        optimizer.zero_grad()
        loss = loss_of(*inputs).backward()
        return loss.realize(*optimizer.schedule_step())

    run = TinyJit(step) if options.jit else step
    begin = time.perf_counter()
    with Context(TRAINING=1):
        for number in range(options.steps):
            inputs = [Tensor(array).realize() for array in batches(number)]
            value = float(run(*inputs).item())
            print(f"loss {number} {value:.6f} {value.hex()}", flush=True)
    digest = hashlib.sha256()
    for parameter in parameters:
        digest.update(parameter.numpy().tobytes())
    print(f"seconds {time.perf_counter() - begin:.2f}")
    print(f"weights {digest.hexdigest()[:16]}")
