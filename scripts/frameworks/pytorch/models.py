"""Models for the comparison, written out so that PyTorch alone is enough, and synthetic data of a fixed seed."""
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint


class Bottleneck(nn.Module):
    def __init__(self, inner, outer, channels, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, inner, 1, bias=False), nn.BatchNorm2d(inner), nn.ReLU(),
            nn.Conv2d(inner, inner, 3, stride, 1, bias=False), nn.BatchNorm2d(inner), nn.ReLU(),
            nn.Conv2d(inner, outer, 1, bias=False), nn.BatchNorm2d(outer))
        self.skip = nn.Identity() if stride == 1 and channels == outer else nn.Sequential(
            nn.Conv2d(channels, outer, 1, stride, bias=False), nn.BatchNorm2d(outer))

    def forward(self, x):
        return functional.relu(self.body(x) + self.skip(x))


class Staged(nn.Module):
    """A stem, a list of blocks and a head; with `recompute`, blocks keep no activations (PyTorch's checkpointing)."""

    def __init__(self, stem, blocks, head):
        super().__init__()
        self.stem, self.blocks, self.head, self.recompute = stem, nn.ModuleList(blocks), head, False

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.recompute else block(x)
        return self.head(x)


def resnet152():
    blocks, channels = [], 64
    for inner, count, stride in ((64, 3, 1), (128, 8, 2), (256, 36, 2), (512, 3, 2)):
        for i in range(count):
            blocks.append(Bottleneck(inner, 4 * inner, channels, stride if i == 0 else 1))
            channels = 4 * inner
    stem = nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
    head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))
    return Staged(stem, blocks, head)


class TransformerBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        batch, time, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, time, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = (q @ k.transpose(-1, -2)) * (width // self.heads) ** -0.5
        mask = torch.ones(time, time, dtype=torch.bool, device=x.device).triu(1)
        attended = scores.masked_fill(mask, float("-inf")).softmax(-1) @ v
        x = x + self.out(attended.transpose(1, 2).reshape(batch, time, width))
        return x + self.mlp(self.norm2(x))


class Embedding(nn.Module):
    def __init__(self, tokens, context, width):
        super().__init__()
        self.token, self.position = nn.Embedding(tokens, width), nn.Embedding(context, width)

    def forward(self, ids):
        return self.token(ids) + self.position(torch.arange(ids.shape[1], device=ids.device))


def gpt2(tokens=50257, context=512, width=768, layers=12, heads=12):
    head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, tokens, bias=False))
    return Staged(Embedding(tokens, context, width), [TransformerBlock(width, heads) for _ in range(layers)], head)


class Lstm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.cell, self.width = nn.LSTMCell(width, width), width

    def forward(self, x):  # (time, batch, width)
        h = x.new_zeros(x.shape[1], self.width)
        c, outputs = h.clone(), []
        for step in x:
            h, c = self.cell(step, (h, c))
            outputs.append(h)
        return torch.stack(outputs)


class LastStep(nn.Module):
    def forward(self, x):
        return x[-1]


def recurrent(width=1024, layers=3):
    return Staged(nn.Linear(64, width), [Lstm(width) for _ in range(layers)], nn.Sequential(LastStep(), nn.Linear(width, 10)))


def build(name, batch, generator):
    """(model, one batch of inputs, targets) on the CPU."""
    if name == "resnet152":
        return resnet152(), torch.randn(batch, 3, 224, 224, generator=generator), torch.randint(0, 1000, (batch,), generator=generator)
    if name == "gpt2":
        ids = torch.randint(0, 50257, (batch, 513), generator=generator)
        return gpt2(), ids[:, :-1].contiguous(), ids[:, 1:].contiguous()
    return recurrent(), torch.randn(64, batch, 64, generator=generator), torch.randint(0, 10, (batch,), generator=generator)
