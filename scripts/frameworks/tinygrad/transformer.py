"""A small transformer language model on a text that lies in the tree."""
import numpy as np
from tinygrad import Tensor, nn
from training import parse_options, text_tokens, train

CONTEXT = 32


def norm(x):
    return x.layernorm(eps=1e-5)


class Layer:
    """Products without biases, norms without weights: fewer parameters, so fewer kernels to compile."""

    def __init__(self, width, dtype):
        self.dtype, self.heads = dtype, max(1, width // 16)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.up, self.down = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)

    def product(self, linear, x):
        return x.cast(self.dtype).matmul(linear.weight.cast(self.dtype).T).float()

    def __call__(self, x):
        batch, time, width = x.shape
        q, k, v = (t.reshape(batch, time, self.heads, -1).transpose(1, 2)
                   for t in self.product(self.qkv, norm(x)).chunk(3, dim=-1))
        attended = q.scaled_dot_product_attention(k, v, is_causal=True).transpose(1, 2).reshape(batch, time, width)
        x = (x + self.product(self.out, attended)).contiguous()
        return (x + self.product(self.down, self.product(self.up, norm(x)).gelu())).contiguous()


class LanguageModel:
    def __init__(self, tokens, width, depth, dtype):
        self.embed, self.position = nn.Embedding(tokens, width), nn.Embedding(CONTEXT, width)
        self.layers = [Layer(width, dtype) for _ in range(depth)]
        self.head = nn.Linear(width, tokens, bias=False)

    def __call__(self, ids):
        x = self.embed(ids) + self.position(Tensor.arange(CONTEXT).reshape(1, CONTEXT))
        return self.head(norm(x.contiguous().sequential(self.layers)))


def main():
    options = parse_options(__doc__, steps=6, batch=4, width=32, depth=2)
    Tensor.manual_seed(options.seed)
    tokens, alphabet = text_tokens()
    model = LanguageModel(alphabet, options.width, options.depth, options.dtype)
    parameters = nn.state.get_parameters(model)
    optimizer = nn.optim.Adam(parameters, lr=3e-3)
    random = np.random.default_rng(options.seed)

    def batches(_):
        starts = random.integers(0, len(tokens) - CONTEXT - 1, options.batch)
        window = np.stack([tokens[s:s + CONTEXT + 1] for s in starts])
        return np.ascontiguousarray(window[:, :-1]), np.ascontiguousarray(window[:, 1:])

    def loss_of(ids, targets):
        return model(ids).reshape(-1, alphabet).sparse_categorical_crossentropy(targets.reshape(-1))

    train(options, batches, loss_of, optimizer, parameters)


if __name__ == "__main__":
    main()
