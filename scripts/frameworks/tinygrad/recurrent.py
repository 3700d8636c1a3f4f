"""A recurrent network that reads a digit two rows at a time."""
import numpy as np
from tinygrad import Tensor, nn
from training import digits, parse_options, train


class Cell:
    """An LSTM cell whose gates are one buffer."""

    def __init__(self, inputs, width, dtype):
        self.of_input, self.of_state = nn.Linear(inputs, 4 * width), nn.Linear(width, 4 * width, bias=False)
        self.dtype = dtype

    def __call__(self, x, state):
        gates = self.of_input(x)
        if state is not None:
            product = state[0].cast(self.dtype).matmul(self.of_state.weight.cast(self.dtype).T)
            gates = gates + product.float()
        i, f, g, o = gates.contiguous().chunk(4, dim=1)
        c = i.sigmoid() * g.tanh() if state is None else f.sigmoid() * state[1] + i.sigmoid() * g.tanh()
        c = c.contiguous()
        return (o.sigmoid() * c.tanh()).contiguous(), c


class Recurrent:
    """Rather deep than long: tinygrad sums a weight's gradient over all time steps in one kernel, which needs the
    activations of that layer at every step at once."""

    def __init__(self, width, depth, dtype):
        self.cells = [Cell(16 if i == 0 else width, width, dtype) for i in range(depth)]
        self.head = nn.Linear(width, 10)

    def __call__(self, images):
        states = [None] * len(self.cells)
        for row in range(0, 8, 2):
            x = images[:, 0, row:row + 2].flatten(1)
            for i, cell in enumerate(self.cells):
                states[i] = cell(x, states[i])
                x = states[i][0]
        return self.head(x)


def main():
    options = parse_options(__doc__, steps=6, batch=64, width=32, depth=4)
    Tensor.manual_seed(options.seed)
    images, labels = digits()
    net = Recurrent(options.width, options.depth, options.dtype)
    parameters = nn.state.get_parameters(net)
    optimizer = nn.optim.SGD(parameters, lr=0.1, momentum=0.9)
    random = np.random.default_rng(options.seed)

    def batches(_):
        rows = random.integers(0, len(images), options.batch)
        return images[rows], labels[rows]

    train(options, batches, lambda x, y: net(x).sparse_categorical_crossentropy(y), optimizer, parameters)


if __name__ == "__main__":
    main()
