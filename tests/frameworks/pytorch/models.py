"""Small networks with large activations: what a step computes is little, what it keeps is much."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint


class Autoencoder(nn.Module):
    """A deep stack of cheap layers."""
    def __init__(self, width=32, layers=6):
        super().__init__()
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(width, width), nn.GELU()) for _ in range(layers))
        self.last = nn.Linear(width, width)
        self.keep = True

    def forward(self, x):
        for layer in self.layers:
            x = layer(x) if self.keep else checkpoint(layer, x, use_reentrant=False)
        return self.last(x)


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        n, t, width = x.shape
        q, k, v = (y.view(n, t, self.heads, -1).transpose(1, 2) for y in self.qkv(self.before(x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(n, t, width)
        x = x + self.drop(self.out(y))
        return x + self.drop(self.down(F.gelu(self.up(self.between(x)))))


class GPT(nn.Module):
    def __init__(self, vocabulary=64, context=16, width=32, heads=2, layers=2):
        super().__init__()
        self.token, self.place = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.token.weight
        self.keep = True

    def forward(self, tokens):
        x = self.token(tokens) + self.place(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x) if self.keep else checkpoint(block, x, use_reentrant=False)
        return self.head(self.norm(x))


class Residual(nn.Module):
    def __init__(self, channels, out, stride):
        super().__init__()
        self.one, self.two = nn.Conv2d(channels, out, 3, stride, 1, bias=False), nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(out), nn.BatchNorm2d(out)
        self.short = nn.Conv2d(channels, out, 1, stride, bias=False) if stride > 1 or channels != out else nn.Identity()

    def forward(self, x):
        y = F.relu(self.norm1(self.one(x)))
        return F.relu(self.norm2(self.two(y)) + self.short(x))


class ResNet(nn.Module):
    def __init__(self, channels=8):
        super().__init__()
        self.first, self.norm = nn.Conv2d(1, channels, 3, 1, 1), nn.BatchNorm2d(channels)
        self.blocks = nn.Sequential(Residual(channels, channels, 1), Residual(channels, channels, 1), Residual(channels, 2 * channels, 2))
        self.last = nn.Linear(2 * channels, 10)
        self.keep = True

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.norm(self.first(x))), 2)
        x = self.blocks(x) if self.keep else checkpoint(self.blocks, x, use_reentrant=False)
        return self.last(F.adaptive_avg_pool2d(x, 1).flatten(1))


class Recurrent(nn.Module):
    def __init__(self, vocabulary=64, width=32, layers=2):
        super().__init__()
        self.token, self.lstm, self.head = nn.Embedding(vocabulary, width), nn.LSTM(width, width, layers, batch_first=True), nn.Linear(width, vocabulary)
        self.keep = True

    def forward(self, tokens):
        return self.head(self.lstm(self.token(tokens))[0])


class UNet(nn.Module):
    """Predicts the noise that was added to an image."""
    def __init__(self, channels=8):
        super().__init__()
        def part(a, b):
            return nn.Sequential(nn.Conv2d(a, b, 3, 1, 1), nn.GroupNorm(4, b), nn.SiLU())
        self.down1, self.down2, self.middle = part(1, channels), part(channels, 2 * channels), part(2 * channels, 2 * channels)
        self.up2, self.up1 = part(4 * channels, channels), part(2 * channels, channels)
        self.last = nn.Conv2d(channels, 1, 1)
        self.keep = True

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(F.max_pool2d(a, 2))
        c = self.middle(F.avg_pool2d(b, 2))
        d = self.up2(torch.cat([F.interpolate(c, scale_factor=2), b], 1))
        return self.last(self.up1(torch.cat([F.interpolate(d, scale_factor=2, mode="bilinear"), a], 1)))
