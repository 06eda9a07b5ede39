"""vision: transforms against NumPy, data sets from files made here, downloads from a local server."""

import gzip
import hashlib
import http.server
import io
import os
import struct
import tarfile
import threading

import numpy as np
import pytest
import strata
from strata.utils.data import DataLoader
from strata.vision import _download, datasets
from strata.vision import transforms as T

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (6, 28, 28), dtype=np.uint8)
LABELS = np.array([3, 1, 4, 1, 5, 9], np.uint8)


def idx(array):
    return bytes([0, 0, 8, array.ndim]) + b"".join(struct.pack(">I", n) for n in array.shape) + array.tobytes()


FILES = {
    f"{part}-{kind}": idx(array)
    for part, count in (("train", 6), ("t10k", 4))
    for kind, array in (("images-idx3-ubyte", IMAGES[:count]), ("labels-idx1-ubyte", LABELS[:count]))
}


@pytest.mark.parametrize("cls", [datasets.MNIST, datasets.FashionMNIST])
@pytest.mark.parametrize("layout", ["", "{}/raw"])
@pytest.mark.parametrize("packed", [False, True])
def test_mnist_is_read_in_both_layouts(tmp_path, cls, layout, packed):
    folder = tmp_path / layout.format(cls.__name__)
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in FILES.items():
        (folder / (name + ".gz" if packed else name)).write_bytes(gzip.compress(content) if packed else content)
    train, test = cls(tmp_path), cls(str(tmp_path), train=False, download=True)  # nothing to download
    assert (
        len(train) == 6
        and len(test) == 4
        and np.array_equal(train.data.numpy(), IMAGES)
        and train.targets.tolist() == LABELS.tolist()
    )
    image, label = train[2]
    assert image.shape == (1, 28, 28) and image.dtype == strata.uint8 and label == 4 and type(label) is int
    assert int(train[-1][1]) == 9 and train.class_to_idx[train.classes[3]] == 3
    with pytest.raises(IndexError, match="6 is out of range for 6 images"):
        train[6]


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_equal_samples_one_by_one(tmp_path, workers):
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
    fixed = T.Compose([T.Resize(20), T.Pad(2), T.CenterCrop((18, 22)), T.ToTensor(), T.Normalize((0.13,), (0.31,))])
    assert fixed.batched and not T.Compose([T.ToTensor(), T.RandomCrop(3)]).batched
    fast = datasets.MNIST(tmp_path, transform=fixed)
    slow = datasets.MNIST(tmp_path, transform=lambda image: fixed(image))
    for a, b in zip(DataLoader(fast, 4, num_workers=workers), DataLoader(slow, 4), strict=True):
        assert strata.equal(a[0], b[0]) and strata.equal(a[1], b[1]) and a[0].shape[1:] == (1, 18, 22)
    labels = datasets.MNIST(tmp_path, target_transform=lambda y: y + 1)
    assert next(iter(DataLoader(labels, 6)))[1].tolist() == (LABELS + 1).tolist()


def test_missing_files_say_what_to_do(tmp_path):
    with pytest.raises(FileNotFoundError, match="train-images-idx3-ubyte.gz' is in .*download=True"):
        datasets.MNIST(tmp_path)
    with pytest.raises(FileNotFoundError, match="data_batch_1.bin.*download=True"):
        datasets.CIFAR10(tmp_path)


def test_cifar10(tmp_path):
    records = RNG.integers(0, 256, (6, 2, 3073), dtype=np.uint8)
    records[:, :, 0] %= 10
    names = [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]
    with tarfile.open(tmp_path / "cifar-10-binary.tar.gz", "w:gz", format=tarfile.USTAR_FORMAT) as tar:
        for name, batch in zip(names, records, strict=True):
            info = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            info.size = batch.size
            tar.addfile(info, io.BytesIO(batch.tobytes()))
    train, test = datasets.CIFAR10(tmp_path), datasets.CIFAR10(tmp_path, train=False)
    assert np.array_equal(train.data.numpy(), records[:5, :, 1:].reshape(10, 3, 32, 32))
    assert train.targets.tolist() == records[:5, :, 0].reshape(-1).tolist() and len(test) == 2
    assert test[1][0].shape == (3, 32, 32) and train.classes[9] == "truck"


def test_synthetic_digits_are_a_set_like_the_others():
    test = datasets.SyntheticDigits(train=False, transform=T.ToTensor())
    images, labels = next(iter(DataLoader(test, 256)))
    assert (
        images.shape == (256, 1, 28, 28) and images.dtype == strata.float32 and 0 <= images.min() and images.max() <= 1
    )
    assert set(labels.tolist()) == set(range(10)) and repr(test) == "SyntheticDigits(10000 images of [1, 28, 28])"
    assert strata.equal(datasets.SyntheticDigits(False).data, test.data)
    assert not strata.equal(datasets.SyntheticDigits(False, seed=1).data, test.data)


# --- transforms --------------------------------------------------------------------------------------------------------------


def test_to_tensor_and_normalize():
    array = RNG.integers(0, 256, (5, 7, 3), dtype=np.uint8)
    assert np.array_equal(T.ToTensor()(array).numpy(), (array.transpose(2, 0, 1) / np.float32(255)).astype(np.float32))
    assert T.ToTensor()(array[:, :, 0]).shape == (1, 5, 7)
    assert T.ToTensor()(strata.full((1, 2, 2), 255, dtype=strata.uint8)).tolist() == [[[1, 1], [1, 1]]]
    floats = strata.rand(3, 5, 7)
    assert T.ToTensor()(floats) is floats
    mean, std = [0.1, 0.2, 0.3], [0.5, 0.6, 0.7]
    expected = (floats.numpy().astype(np.float64) - np.reshape(mean, (3, 1, 1))) / np.reshape(std, (3, 1, 1))
    assert np.allclose(T.Normalize(mean, std)(floats).numpy(), expected, atol=1e-6)
    with pytest.raises(TypeError, match=r"put ToTensor\(\) before"):
        T.Normalize(mean, std)(floats.to(strata.uint8))
    with pytest.raises(ValueError, match="division by zero"):
        T.Normalize([0], [0])
    with pytest.raises(ValueError, match="2 or 3 dimensions"):
        T.ToTensor()(np.zeros(3, np.uint8))


def test_convert_image_dtype():
    x = strata.arange(256).to(strata.uint8).reshape(1, 16, 16)
    half = T.ConvertImageDtype(strata.float64)(x)
    assert half.dtype == strata.float64 and half.max().item() == 1
    assert strata.equal(T.ConvertImageDtype(strata.uint8)(half), x) and T.ConvertImageDtype(strata.uint8)(x) is x
    with pytest.raises(NotImplementedError, match="go through float32"):
        T.ConvertImageDtype(strata.int16)(x)


@pytest.mark.parametrize("dtype", [strata.uint8, strata.float32])
def test_crops_and_pads(dtype):
    x = strata.arange(48).to(dtype).reshape(1, 6, 8)
    a = x.numpy()
    assert np.array_equal(T.CenterCrop((2, 4))(x).numpy(), a[:, 2:4, 2:6])
    assert np.array_equal(T.CenterCrop(8)(x).numpy(), np.pad(a, [(0, 0), (1, 1), (0, 0)]))
    assert np.array_equal(T.Pad(2, fill=7)(x).numpy(), np.pad(a, [(0, 0), (2, 2), (2, 2)], constant_values=7))
    assert np.array_equal(T.Pad((1, 2, 3, 0))(x).numpy(), np.pad(a, [(0, 0), (2, 0), (1, 3)]))
    assert np.array_equal(
        T.Pad((1, 2), padding_mode="edge")(x).numpy(), np.pad(a, [(0, 0), (2, 2), (1, 1)], mode="edge")
    )
    assert np.array_equal(
        T.Pad(2, padding_mode="reflect")(x).numpy(), np.pad(a, [(0, 0), (2, 2), (2, 2)], mode="reflect")
    )
    places = set()
    for _ in range(300):
        crop = T.RandomCrop((3, 5))(x).numpy()
        top, left = divmod(int(crop[0, 0, 0]), 8)
        assert np.array_equal(crop, a[:, top : top + 3, left : left + 5])
        places.add((top, left))
    assert len(places) == 16
    assert T.RandomCrop(6, padding=4)(x).shape == (1, 6, 6) and T.RandomCrop(10, pad_if_needed=True)(x).shape == (
        1,
        10,
        10,
    )
    with pytest.raises(ValueError, match="larger than input image size"):
        T.RandomCrop(7)(x)
    for bad in (
        lambda: T.RandomCrop(0),
        lambda: T.CenterCrop((1, 2, 3)),
        lambda: T.Pad((1, 2, 3)),
        lambda: T.RandomHorizontalFlip(2),
        lambda: T.Resize(-1),
    ):
        with pytest.raises(ValueError):
            bad()
    with pytest.raises(TypeError, match="expected an image tensor"):
        T.CenterCrop(2)(a)


def test_flips_and_lambda():
    x = strata.arange(6.0).reshape(1, 2, 3)
    assert np.array_equal(T.RandomHorizontalFlip(1)(x).numpy(), x.numpy()[..., ::-1])
    assert np.array_equal(T.RandomVerticalFlip(1)(x).numpy(), x.numpy()[..., ::-1, :])
    strata.manual_seed(0)
    flipped = sum(not strata.equal(T.RandomHorizontalFlip()(x), x) for _ in range(400))
    assert 140 < flipped < 260 and T.RandomHorizontalFlip(0)(x) is x
    assert T.Lambda(lambda image: image + 1)(x)[0, 0, 0] == 1
    with pytest.raises(TypeError, match="callable"):
        T.Lambda(3)


def test_resize():
    x = strata.rand(3, 8, 12)
    assert T.Resize(4)(x).shape == (3, 4, 6) and T.Resize((5, 3))(x).shape == (3, 5, 3) and T.Resize((8, 12))(x) is x
    assert T.Resize(4)(x.transpose(1, 2)).shape == (3, 6, 4) and T.Resize(6, max_size=8)(x).shape == (3, 5, 8)
    assert np.allclose(T.Resize((4, 6))(strata.ones(1, 8, 12)).numpy(), 1)
    # Halving with antialiasing: a triangle of half-width 2 around each centre, cut at the border.
    line = np.array([0, 0, 0, 8, 0, 0, 0, 0], np.float64)
    centres, weights = (
        np.arange(0.5, 8, 2) + 0.5,
        np.maximum(0, 1 - abs(np.arange(8) + 0.5 - (np.arange(0.5, 8, 2) + 0.5)[:, None]) / 2),
    )
    expected = (weights / weights.sum(1, keepdims=True)) @ line
    assert len(centres) == 4
    assert np.allclose(T.Resize((1, 4))(strata.tensor(line).reshape(1, 1, 8)).numpy().ravel(), expected)
    near = T.Resize((16, 24), interpolation="nearest")(x)
    assert np.array_equal(near.numpy(), x.numpy().repeat(2, 1).repeat(2, 2))
    assert T.Resize((3, 3))(strata.full((1, 9, 9), 200, dtype=strata.uint8)).tolist() == [[[200] * 3] * 3]


# --- downloads -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("server")

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args):
            super().__init__(*args, directory=str(folder))

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield folder, f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


def test_downloads_are_checked_and_put_into_place_whole(tmp_path, server, monkeypatch):
    folder, address = server
    packed = {name + ".gz": gzip.compress(content) for name, content in FILES.items()}
    sums = {name: hashlib.md5(content).hexdigest() for name, content in packed.items()}
    for name, content in packed.items():
        (folder / name).write_bytes(content)
    monkeypatch.setattr(datasets.MNIST, "_files", (("http://127.0.0.1:9/", address), sums))  # the first mirror is down
    assert len(datasets.MNIST(tmp_path / "a", download=True)) == 6
    assert sorted(os.listdir(tmp_path / "a" / "MNIST" / "raw")) == sorted(packed)

    (folder / "t10k-labels-idx1-ubyte.gz").write_bytes(b"something else")
    with pytest.raises(
        RuntimeError, match="t10k-labels-idx1-ubyte.gz could not be downloaded .*MD5 sum is .*put it into"
    ):
        datasets.MNIST(tmp_path / "b", download=True)
    assert sorted(os.listdir(tmp_path / "b" / "MNIST" / "raw")) == sorted(set(packed) - {"t10k-labels-idx1-ubyte.gz"})
    monkeypatch.setattr(datasets.MNIST, "_files", (("http://127.0.0.1:9/",), sums))
    with pytest.raises(RuntimeError, match="Without a network, fetch it elsewhere"):
        datasets.MNIST(tmp_path / "c", download=True)


def test_the_sums_of_the_published_files_are_well_formed():
    for mirrors, files in (_download.MNIST, _download.FASHION_MNIST, _download.CIFAR10):
        assert all(m.endswith("/") for m in mirrors) and all(len(s) == 32 and int(s, 16) for s in files.values())
