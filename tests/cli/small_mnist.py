"""A folder with the four files of MNIST, filled with a few synthetic digits."""

import gzip
import struct

from strata.vision import datasets


def write_idx(path, array):
    head = struct.pack(">BBBB", 0, 0, 8, array.ndim) + b"".join(struct.pack(">I", n) for n in array.shape)
    path.write_bytes(gzip.compress(head + array.astype("uint8").tobytes(), 1))


def write_small_mnist(folder, train=2000, test=500):
    folder.mkdir(parents=True, exist_ok=True)
    for name, count, is_train in (("train", train, True), ("t10k", test, False)):
        digits = datasets.SyntheticDigits(train=is_train)
        write_idx(folder / f"{name}-images-idx3-ubyte.gz", digits.data[:count].numpy())
        write_idx(folder / f"{name}-labels-idx1-ubyte.gz", digits.targets[:count].numpy())
    return folder
