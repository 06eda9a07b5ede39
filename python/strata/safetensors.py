"""The functions of the safetensors package: dicts of tensors in files and bytes."""

from . import _C

__all__ = ["load", "load_file", "safe_open", "save", "save_file"]

SafetensorError = RuntimeError  # the package's name for errors in a file


def _checked(tensors):
    for name, t in tensors.items() if isinstance(tensors, dict) else ():
        if isinstance(t, _C.Tensor) and t.dtype is _C.complex128:
            raise TypeError(
                f"safetensors files cannot hold complex128, as '{name}' is; convert it with .to(), or save its parts"
            )
    return tensors


def save_file(tensors, filename, metadata=None):
    """Writes a dict of names to tensors, and metadata of strings to strings, atomically."""
    _C._save_file(_checked(tensors), filename, metadata)


def load_file(filename, device="cpu"):
    """The tensors of a file."""
    return _on(_C._load_file(filename, False)[0], device)


def save(tensors, metadata=None):
    """The bytes of a file with these tensors."""
    return _C._save_file(_checked(tensors), None, metadata)


def load(data):
    """The tensors of a file that was read into bytes."""
    return _C._load_file_bytes(data)[0]


def _on(tensors, device):
    return tensors if str(device) == "cpu" else {name: t.to(device) for name, t in tensors.items()}


class _Slice:
    """A tensor in a mapped file. An index gives a copy, which does not depend on the file."""

    def __init__(self, tensor, device):
        self._tensor, self._device = tensor, device

    def __getitem__(self, index):
        part = self._tensor[index]
        return part.clone() if str(self._device) == "cpu" else part.to(self._device)

    def get_shape(self):
        """The sizes, as a list."""
        return list(self._tensor.shape)

    def get_dtype(self):
        """The dtype of the elements."""
        return self._tensor.dtype


class safe_open:
    """A file whose tensors are read one by one. It is mapped while it is open, so it must not be truncated meanwhile.

    >>> with strata.safetensors.safe_open(path, framework="strata") as f:
    ...     weight = f.get_tensor("weight")
    """

    def __init__(self, filename, framework=None, device="cpu"):
        self._tensors, self._metadata = _C._load_file(filename, True)
        self._device = device

    def keys(self):
        """The names, in the order of the file."""
        return list(self._tensors)

    def metadata(self):
        """The metadata, or None."""
        return self._metadata

    def get_tensor(self, name):
        """A copy of the tensor of this name."""
        return self._mapped(name)[...]

    def _mapped(self, name):
        if name not in self._tensors:
            raise SafetensorError(f"the file has no tensor {name!r}; it has {', '.join(self._tensors) or 'none'}")
        return _Slice(self._tensors[name], self._device)

    def get_slice(self, name):
        """The tensor, to be indexed: only the requested part is read."""
        return self._mapped(name)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._tensors = {}
