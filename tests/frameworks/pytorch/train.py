#!/usr/bin/env python3
"""Trains a small network on the GPU with plain PyTorch and prints each loss, exactly, and a digest of all state at the end
(parameters, buffers, optimizer, generator). Nothing here knows of SwapAdvisor or of the software GPU."""
import argparse
import hashlib
import io

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

import models

SIZES = {"autoencoder": 16384, "gpt": 512, "resnet": 128, "lstm": 8192, "unet": 64}


def data(name, batch, steps):
    """Generated: the same in every run."""
    g = torch.Generator().manual_seed(1)
    count = batch * steps
    if name == "autoencoder":
        x = torch.randn(count, 32, generator=g)
        return x, x.roll(1, 1)
    if name in ("gpt", "lstm"):
        length = 16 if name == "gpt" else 3
        x = torch.randint(0, 64, (count, length + 1), generator=g)
        return x[:, :-1], x[:, 1:]
    if name == "resnet":
        return torch.randn(count, 1, 32, 32, generator=g), torch.randint(0, 10, (count,), generator=g)
    x = torch.randn(count, 1, 32, 32, generator=g)
    return x, x * 0.1


def loss_of(name, out, y):
    if name in ("autoencoder", "unet"):
        return F.mse_loss(out, y)
    return F.cross_entropy(out.reshape(-1, out.shape[-1]), y.reshape(-1))


def digest(*objects):
    buffer = io.BytesIO()
    for item in objects:
        flat = []

        def walk(thing, path):
            if isinstance(thing, torch.Tensor):
                flat.append((path, str(thing.dtype), thing.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes() if thing.dim() else thing.detach().cpu().numpy().tobytes()))
            elif isinstance(thing, dict):
                for key in sorted(thing, key=str):
                    walk(thing[key], f"{path}/{key}")
            elif isinstance(thing, (list, tuple)):
                for k, part in enumerate(thing):
                    walk(part, f"{path}/{k}")
            else:
                flat.append((path, "", repr(thing).encode()))
        walk(item, "")
        for path, kind, content in flat:
            buffer.write(path.encode() + kind.encode() + content)
    return hashlib.sha256(buffer.getvalue()).hexdigest()[:16]


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("model", choices=SIZES)
    p.add_argument("--steps", type=int, default=8)
    p.add_argument("--batch", type=int)
    p.add_argument("--optimizer", default="adam", choices=["adam", "adam-each", "adam-fused", "sgd"])
    p.add_argument("--workers", type=int, default=0, help="of the DataLoader")
    p.add_argument("--accumulate", type=int, default=1, help="batches for one step of the optimizer")
    p.add_argument("--checkpointing", action="store_true", help="activations are computed again in the backward pass")
    p.add_argument("--autocast", choices=["bfloat16", "float16"])
    p.add_argument("--evaluate", action="store_true", help="an evaluation pass every third step")
    p.add_argument("--graph", action="store_true", help="the step is captured once and replayed")
    p.add_argument("--compile", action="store_true")
    p.add_argument("--reload", action="store_true", help="save, build anew and load in the middle")
    p.add_argument("--information", action="store_true", help="print what PyTorch says of memory")
    args = p.parse_args()
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True, warn_only=True)
    device = torch.device("cuda")
    batch = args.batch or SIZES[args.model]

    def build():
        model = {"autoencoder": models.Autoencoder, "gpt": models.GPT, "resnet": models.ResNet, "lstm": models.Recurrent, "unet": models.UNet}[args.model]()
        model.keep = not args.checkpointing
        model.to(device)
        options = {"adam": {}, "adam-each": {"foreach": False}, "adam-fused": {"fused": True}}
        if args.optimizer == "sgd":
            optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9, foreach=False)
        else:
            optimizer = torch.optim.Adam(model.parameters(), 1e-3, capturable=args.graph, **options[args.optimizer])
        return model, optimizer

    model, optimizer = build()
    # Products as Triton kernels, too: the closed libraries are not here.
    run = torch.compile(model, options={"joint_graph_constant_folding": False, "triton.native_matmul": True}) if args.compile else model
    scaler = torch.amp.GradScaler("cuda", enabled=args.autocast == "float16")
    x, y = data(args.model, batch, min(args.steps, 4))
    loader = DataLoader(TensorDataset(x, y), batch_size=batch, num_workers=args.workers, pin_memory=args.workers > 0,
                        persistent_workers=args.workers > 0)

    def batches():
        while True:
            yield from loader

    def forward(xb, yb):
        with torch.autocast("cuda", getattr(torch, args.autocast or "float32"), enabled=bool(args.autocast)):
            return loss_of(args.model, run(xb).float(), yb)

    captured = None
    losses = []
    stream = batches()
    for step in range(args.steps):
        if args.graph and step >= 2:
            xb, yb = next(stream)
            if captured is None:
                static_x, static_y = xb.to(device), yb.to(device)
                captured = torch.cuda.CUDAGraph()
                optimizer.zero_grad(set_to_none=True)
                with torch.cuda.graph(captured):
                    static_loss = forward(static_x, static_y)
                    static_loss.backward()
                    optimizer.step()
            static_x.copy_(xb)
            static_y.copy_(yb)
            captured.replay()
            losses.append(static_loss.item())
        else:
            total = 0.0
            for _ in range(args.accumulate):
                xb, yb = (t.to(device, non_blocking=True) for t in next(stream))
                loss = forward(xb, yb) / args.accumulate
                scaler.scale(loss).backward()
                total += loss.item()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad(set_to_none=True)
            losses.append(total)
        if args.evaluate and step % 3 == 2:
            model.eval()
            with torch.no_grad():
                losses.append(forward(*(t.to(device) for t in next(stream))).item())
            model.train()
        if args.reload and step == args.steps // 2:
            kept = io.BytesIO()
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "generator": torch.cuda.get_rng_state()}, kept)
            model, optimizer = build()
            kept.seek(0)
            state = torch.load(kept, weights_only=True)
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            torch.cuda.set_rng_state(state["generator"].cpu())
            run = model
    for k, loss in enumerate(losses):
        print(f"loss {k} {loss:.6f} {loss.hex()}")
    print("state", digest(model.state_dict(), optimizer.state_dict(), scaler.state_dict(), torch.cuda.get_rng_state()))
    if args.information:
        free, total = torch.cuda.mem_get_info()
        print(f"memory {free >> 20} of {total >> 20} MiB free, {torch.cuda.max_memory_allocated() >> 20} MiB allocated at most")


main()
