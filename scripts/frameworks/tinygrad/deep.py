"""A deep stack of cheap layers: many steps in little time, so that a plan is made and followed."""
import numpy as np
from tinygrad import Tensor, nn
from training import digits, parse_options, train


class Deep:
    """Every layer is one product and a residual; all are alike, so there are few kernels to compile."""

    def __init__(self, width, depth):
        self.stem, self.head = nn.Linear(8, width), nn.Linear(width, 10)
        self.layers = [nn.Linear(width, width, bias=False) for _ in range(depth)]

    def __call__(self, x):
        x = self.stem(x).contiguous()
        for layer in self.layers:
            x = (x + layer(x).tanh()).contiguous()
        return self.head(x)


def main():
    options = parse_options(__doc__, steps=20, batch=256, width=16, depth=8)
    Tensor.manual_seed(options.seed)
    images, labels = digits()
    net = Deep(options.width, options.depth)
    parameters = nn.state.get_parameters(net)
    optimizer = nn.optim.SGD(parameters, lr=0.05)
    random = np.random.default_rng(options.seed)

    def batches(_):
        rows = random.integers(0, len(images), options.batch)
        return images[rows].sum((1, 2)), labels[rows]  # a digit by its column sums

    train(options, batches, lambda x, y: net(x).sparse_categorical_crossentropy(y), optimizer, parameters)


if __name__ == "__main__":
    main()
