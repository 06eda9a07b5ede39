"""The functions of the safetensors package: dicts of tensors in files and bytes."""

from . import _C

__all__ = ["load", "load_file", "safe_open", "save", "save_file"]

SafetensorError = RuntimeError  # the package's name for what is wrong with a file


def save_file(tensors, filename, metadata=None):
    """Writes a dict of names to tensors, and metadata of strings to strings, whole or not at all."""
    _C._save_file(tensors, filename, metadata)


def load_file(filename, device="cpu"):
    """The tensors of a file, without copying."""
    return _on(_C._load_file(filename)[0], device)


def save(tensors, metadata=None):
    """The bytes of a file with these tensors."""
    return _C._save_file(tensors, None, metadata)


def load(data):
    """The tensors of a file that was read into bytes."""
    return _C._load_file_bytes(data)[0]


def _on(tensors, device):
    return tensors if str(device) == "cpu" else {name: t.to(device) for name, t in tensors.items()}


class safe_open:
    """A file whose tensors are taken one by one.

    >>> with strata.safetensors.safe_open(path, framework="strata") as f:
    ...     weight = f.get_tensor("weight")
    """

    def __init__(self, filename, framework=None, device="cpu"):
        self._tensors, self._metadata = _C._load_file(filename)
        self._tensors = _on(self._tensors, device)

    def keys(self):
        """The names, in the order of the file."""
        return list(self._tensors)

    def metadata(self):
        """The metadata, or None."""
        return self._metadata

    def get_tensor(self, name):
        """The tensor of this name."""
        if name not in self._tensors:
            raise SafetensorError(f"the file has no tensor {name!r}; it has {', '.join(self._tensors) or 'none'}")
        return self._tensors[name]

    def get_slice(self, name):
        """The tensor, to be indexed: nothing is read before it is used anyway."""
        return self.get_tensor(name)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._tensors = {}
