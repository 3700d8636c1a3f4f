"""A convolutional network on the handwritten digits."""
import numpy as np
from tinygrad import Tensor, nn
from training import digits, parse_options, train


class Block:
    def __init__(self, width, dtype):
        self.norm, self.dtype = nn.BatchNorm(width), dtype
        self.conv = nn.Conv2d(width, width, 3, padding=1, bias=False)

    def __call__(self, x):
        out = x.cast(self.dtype).conv2d(self.conv.weight.cast(self.dtype), padding=1).float()
        return x + self.norm(out).relu().contiguous()


class ConvNet:
    def __init__(self, width, depth, dtype):
        self.stem = nn.Conv2d(1, width, 3, padding=1)
        self.blocks = [Block(width, dtype) for _ in range(depth)]
        self.head = nn.Linear(width, 10)

    def __call__(self, x):
        return self.head(self.stem(x).relu().contiguous().sequential(self.blocks).mean((2, 3)))


def main():
    options = parse_options(__doc__, steps=6, batch=64, width=16, depth=4)
    Tensor.manual_seed(options.seed)
    images, labels = digits()
    net = ConvNet(options.width, options.depth, options.dtype)
    parameters = nn.state.get_parameters(net)
    optimizer = nn.optim.SGD(nn.state.get_parameters(net), lr=0.05, momentum=0.9)
    random = np.random.default_rng(options.seed)

    def batches(_):
        rows = random.integers(0, len(images), options.batch)
        return images[rows], labels[rows]

    train(options, batches, lambda x, y: net(x).sparse_categorical_crossentropy(y), optimizer, parameters)


if __name__ == "__main__":
    main()
