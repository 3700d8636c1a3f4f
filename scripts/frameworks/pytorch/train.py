"""Trains one model on synthetic data of a fixed seed: an ordinary PyTorch program that knows nothing of SwapAdvisor.

Prints `loss STEP VALUE HEX` per step, then `iterations_per_second X` over the last half of the steps (wall time of the
machine), `peak_bytes N` and `weights HEX`. --mode picks PyTorch's own answers to too little memory, for comparison.
"""
import argparse
import contextlib
import hashlib
import os
import time

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS gives the same bits in each run only with this

import torch
from torch.nn import functional

import models


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=["resnet152", "gpt2", "recurrent"], default="resnet152")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--steps", type=int, default=16)
    parser.add_argument("--mode", choices=["plain", "checkpoint", "save_on_cpu", "managed"], default="plain")
    parser.add_argument("--managed-allocator", help="library of --mode managed (compare.py builds it)")
    parser.add_argument("--memory-fraction", type=float, help="PyTorch's own cap on device memory")
    options = parser.parse_args()

    if options.mode == "managed":
        allocator = torch.cuda.memory.CUDAPluggableAllocator(options.managed_allocator, "managed_malloc", "managed_free")
        torch.cuda.memory.change_current_allocator(allocator)
    if options.memory_fraction:
        torch.cuda.set_per_process_memory_fraction(options.memory_fraction)
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cudnn.benchmark = False
    torch.manual_seed(1)
    model, inputs, targets = models.build(options.model, options.batch, torch.Generator().manual_seed(2))
    model.recompute = options.mode == "checkpoint"
    model, inputs, targets = model.cuda(), inputs.cuda(), targets.cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    saved = torch.autograd.graph.save_on_cpu(pin_memory=True) if options.mode == "save_on_cpu" else contextlib.nullcontext()

    marks = []
    for step in range(options.steps):
        optimizer.zero_grad(set_to_none=True)
        with saved:
            out = model(inputs)
            loss = functional.cross_entropy(out.flatten(0, -2), targets.flatten())
        loss.backward()
        optimizer.step()
        del out
        value = float(loss)
        marks.append(time.perf_counter())
        print(f"loss {step} {value:.6f} {value.hex()}", flush=True)
    half = len(marks) // 2
    if half:
        print(f"iterations_per_second {(len(marks) - 1 - half) / max(1e-9, marks[-1] - marks[half]):.4f}")
    with contextlib.suppress(Exception):  # the managed allocator keeps no statistics
        print(f"peak_bytes {torch.cuda.max_memory_reserved()}")
    digest = hashlib.sha256()
    for parameter in model.parameters():
        digest.update(parameter.detach().cpu().numpy().tobytes())
    print(f"weights {digest.hexdigest()[:16]}")


if __name__ == "__main__":
    main()
