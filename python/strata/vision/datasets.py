"""MNIST, FashionMNIST, CIFAR10 from their published files, and synthetic digits; the names are torchvision's."""

import os

from .. import _C
from ..utils.data import Dataset
from . import _download

__all__ = ["CIFAR10", "FakeData", "FashionMNIST", "MNIST", "SyntheticDigits", "VisionDataset"]


class VisionDataset(Dataset):
    """Images and labels in memory: data is uint8 [n, ...], targets int64 [n].

    A sample is (image, label), the image a uint8 tensor [channels, height, width] before the transform, the label an int.
    """

    classes = [str(i) for i in range(10)]

    def __init__(self, root=None, transform=None, target_transform=None):
        self.root, self.transform, self.target_transform = root, transform, target_transform

    def _images(self, data):
        """A piece of data with its channels."""
        return data

    @property
    def class_to_idx(self):
        return {name: i for i, name in enumerate(self.classes)}

    def __len__(self):
        return len(self.data)

    def __getitem__(self, index):
        n = len(self)
        index = int(index)
        if not -n <= index < n:
            raise IndexError(f"index {index} is out of range for {n} images")
        index %= n
        image, target = self._images(self.data[index : index + 1])[0], self.targets[index].item()
        if self.transform is not None:
            image = self.transform(image)
        if self.target_transform is not None:
            target = self.target_transform(target)
        return image, target

    def get_batch(self, indices):
        if self.target_transform is not None or not (
            self.transform is None or getattr(self.transform, "batched", False)
        ):
            return None
        images = self._images(self.data.index_select(0, indices))
        if self.transform is not None:
            images = self.transform(images)
        return [images, self.targets.index_select(0, indices)]

    def __repr__(self):
        return f"{type(self).__name__}({len(self)} images of {list(self._images(self.data[:0]).shape[1:])})"


class MNIST(VisionDataset):
    """Handwritten digits: 60,000 images of 28 x 28 to train on and 10,000 to test with.

    root is the folder of the four published files, compressed or not, or one with MNIST/raw as in torchvision's layout.
    download=True downloads missing files.
    """

    _files = _download.MNIST

    def __init__(self, root, train=True, transform=None, target_transform=None, download=False):
        super().__init__(root, transform, target_transform)
        self.train = train
        name = type(self).__name__
        if download and not _C._has_mnist(root, name):
            _download.fetch(self._files, os.path.join(root, name, "raw"))
        self.data, self.targets = _C._mnist(root, train, name)

    def _images(self, data):
        return data.unsqueeze(-3)

    train_data = test_data = property(lambda self: self.data, doc="The older name of data.")
    train_labels = test_labels = property(lambda self: self.targets, doc="The older name of targets.")


class FashionMNIST(MNIST):
    """Articles of clothing, in the form of MNIST."""

    classes = "T-shirt/top Trouser Pullover Dress Coat Sandal Shirt Sneaker Bag".split() + ["Ankle boot"]
    _files = _download.FASHION_MNIST


class CIFAR10(VisionDataset):
    """Photographs of ten classes: 50,000 of 3 x 32 x 32 to train on and 10,000 to test with.

    root holds the binary version: its .bin files, cifar-10-batches-bin, or cifar-10-binary.tar.gz. data is [n, 3, 32, 32].
    """

    classes = "airplane automobile bird cat deer dog frog horse ship truck".split()

    def __init__(self, root, train=True, transform=None, target_transform=None, download=False):
        super().__init__(root, transform, target_transform)
        self.train = train
        if download:
            try:
                self.data, self.targets = _C._cifar10(root, train)
                return
            except FileNotFoundError:
                _download.fetch(_download.CIFAR10, root)
        self.data, self.targets = _C._cifar10(root, train)


class SyntheticDigits(VisionDataset):
    """Synthetic digits in the form of MNIST, drawn by distorted strokes: no files, reproducible for a seed."""

    def __init__(self, train=True, transform=None, target_transform=None, seed=0):
        super().__init__(None, transform, target_transform)
        self.train = train
        self.data, self.targets = _C._draw_digits(0, 60000, seed) if train else _C._draw_digits(60000, 10000, seed)

    def _images(self, data):
        return data.unsqueeze(-3)


class FakeData(VisionDataset):
    """Random images and labels, the same for each index: for trying a program without data."""

    def __init__(
        self,
        size=1000,
        image_size=(3, 224, 224),
        num_classes=10,
        transform=None,
        target_transform=None,
        random_offset=0,
    ):
        super().__init__(None, transform, target_transform)
        self.size, self.image_size, self.num_classes = size, tuple(image_size), num_classes
        self.random_offset = random_offset

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        if index >= len(self):
            raise IndexError(f"index {index} is out of range for {len(self)} images")
        generator = _C.Generator().manual_seed(index + self.random_offset)
        image = _C.ops["randint"](0, 256, self.image_size, generator=generator, dtype=_C.uint8)
        target = int(_C.ops["randint"](0, self.num_classes, (1,), generator=generator))
        if self.transform is not None:
            image = self.transform(image)
        if self.target_transform is not None:
            target = self.target_transform(target)
        return image, target

    def get_batch(self, indices):
        return None

    def __repr__(self):
        return f"FakeData({self.size} images of {list(self.image_size)})"
