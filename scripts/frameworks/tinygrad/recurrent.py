"""A recurrent network that reads a digit row by row."""
import numpy as np
from tinygrad import Tensor, nn
from training import digits, parse_options, train


class Recurrent:
    def __init__(self, width, depth, dtype):
        self.cells = [nn.LSTMCell(8 if i == 0 else width, width) for i in range(depth)]
        self.head, self.dtype = nn.Linear(width, 10), dtype

    def __call__(self, images):
        states = [None] * len(self.cells)
        for row in range(8):
            x = images[:, 0, row]
            for i, cell in enumerate(self.cells):
                h, c = cell(x, states[i])
                states[i] = (h.contiguous(), c.contiguous())
                x = states[i][0]
        return self.head(x.cast(self.dtype).float())


def main():
    options = parse_options(__doc__, steps=6, batch=64, width=32, depth=2)
    Tensor.manual_seed(options.seed)
    images, labels = digits()
    net = Recurrent(options.width, options.depth, options.dtype)
    parameters = nn.state.get_parameters(net)
    optimizer = nn.optim.Adam(parameters, lr=3e-3)
    random = np.random.default_rng(options.seed)

    def batches(_):
        rows = random.integers(0, len(images), options.batch)
        return images[rows], labels[rows]

    train(options, batches, lambda x, y: net(x).sparse_categorical_crossentropy(y), optimizer, parameters)


if __name__ == "__main__":
    main()
