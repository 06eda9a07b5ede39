"""Downloads published files: verified by their MD5 sums, stored atomically."""

import hashlib
import os
import sys
import tempfile
import urllib.error
import urllib.request

# Folder, then (file, MD5 sum) as the publishers and torchvision give them.
MNIST = (
    ("https://ossci-datasets.s3.amazonaws.com/mnist/", "http://yann.lecun.com/exdb/mnist/"),
    {
        "train-images-idx3-ubyte.gz": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
        "train-labels-idx1-ubyte.gz": "d53e105ee54ea40749a09fcbcd1e9432",
        "t10k-images-idx3-ubyte.gz": "9fb629c4189551a2d022fa330f9573f3",
        "t10k-labels-idx1-ubyte.gz": "ec29112dd5afa0611ce80d1b7f02629c",
    },
)
FASHION_MNIST = (
    ("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",),
    {
        "train-images-idx3-ubyte.gz": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
        "train-labels-idx1-ubyte.gz": "25c81989df183df01b3e8a0aad5dffbe",
        "t10k-images-idx3-ubyte.gz": "bef4ecab320f06d8554ea6380940ec79",
        "t10k-labels-idx1-ubyte.gz": "bb300cfdad3c16e7a12a480ee83cd310",
    },
)
CIFAR10 = (
    ("https://www.cs.toronto.edu/~kriz/",),
    {"cifar-10-binary.tar.gz": "c32a1d4ab5d03f1284b67883e8d87530"},
)


def fetch(source, folder, timeout=30):
    """Downloads the files that are not in the folder yet."""
    mirrors, files = source
    os.makedirs(folder, exist_ok=True)
    for name, digest in files.items():
        target = os.path.join(folder, name)
        if os.path.exists(target) and _md5(target) == digest:
            continue
        problems = []
        for mirror in mirrors:
            try:
                _download(mirror + name, target, digest, timeout)
                break
            except (OSError, urllib.error.URLError) as error:
                problems.append(f"{mirror + name}: {error}")
        else:
            raise RuntimeError(
                f"{name} could not be downloaded ({'; '.join(problems)}). Without a network, fetch it elsewhere and put it into {folder}"
            )


def _md5(path):
    with open(path, "rb") as f:
        return (
            hashlib.file_digest(f, "md5").hexdigest()
            if hasattr(hashlib, "file_digest")
            else hashlib.md5(f.read()).hexdigest()
        )


def _download(url, target, digest, timeout):
    with urllib.request.urlopen(url, timeout=timeout) as response:
        total = int(response.headers.get("Content-Length") or 0)
        handle, temporary = tempfile.mkstemp(dir=os.path.dirname(target), suffix=".part")
        try:
            with os.fdopen(handle, "wb") as out:
                found = _copy(response, out, os.path.basename(target), total)
            if found != digest:
                raise OSError(
                    f"the MD5 sum is {found}, expected {digest}: the download is damaged or the file has changed"
                )
            os.chmod(temporary, 0o644)
            os.replace(temporary, target)
        except BaseException:
            os.unlink(temporary)
            raise


def _copy(response, out, name, total):
    """Copies with a progress bar (on a terminal only); returns the MD5 sum."""
    digest, done = hashlib.md5(), 0
    show = sys.stderr.isatty()
    while block := response.read(1 << 16):
        out.write(block)
        digest.update(block)
        done += len(block)
        if show:
            bar = "#" * (30 * done // total) if total else ""
            sys.stderr.write(f"\r{name} [{bar:<30}] {done / 1e6:.1f} MB")
    if show:
        sys.stderr.write("\n")
    if total and done != total:
        raise OSError(f"{done} of {total} bytes arrived")
    return digest.hexdigest()
