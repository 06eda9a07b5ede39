"""Trains a small CNN on MNIST: python examples/python/train_mnist.py [FOLDER WITH THE MNIST FILES] [EPOCHS] [--compile]

Without a folder it learns synthetic digits, which need no download. --compile replays the network, with the same numbers.
"""

import sys
import time

import strata
import strata.nn.functional as F
from strata import nn, optim
from strata.utils.data import DataLoader, TensorDataset
from strata.vision import datasets


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 32, 3, padding=1), nn.Conv2d(32, 64, 3, padding=1)
        self.fc1, self.fc2 = nn.Linear(3136, 128), nn.Linear(128, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.fc2(F.relu(self.fc1(x.flatten(1))))


def digits(folder, train):
    source = datasets.MNIST(folder, train=train) if folder else datasets.SyntheticDigits(train=train)
    images = (source.data.unsqueeze(1).float() / 255 - 0.1307) / 0.3081
    return TensorDataset(images, source.targets)


def main(folder=None, epochs=1, compiled=False):
    strata.manual_seed(0)
    train, test = digits(folder, True), digits(folder, False)
    net = Net().to(memory_format=strata.channels_last)
    model = strata.compile(net, replay=True, disable=not compiled)
    optimizer = optim.Adam(net.parameters(), lr=1e-3)
    loss, right = strata.zeros(()), 0  # what no epochs give
    for epoch in range(epochs):
        start = time.perf_counter()
        for images, labels in DataLoader(train, batch_size=128, shuffle=True):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
        seconds = time.perf_counter() - start
        with strata.no_grad():
            right = sum((net(x).argmax(1) == y).sum().item() for x, y in DataLoader(test, batch_size=500))
        print(
            f"epoch {epoch + 1}: loss {loss.item():.4f}, test accuracy {right / len(test):.2%}, {len(train) / seconds:.0f} images/s"
        )
    strata.save(net.state_dict(), "mnist.safetensors")
    return right / len(test)


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if word != "--compile"] + [None, None]
    main(words[0], int(words[1] or 1), "--compile" in sys.argv)
