"""save and load: checkpoints as safetensors files and in PyTorch's format. No pickle is run unless the caller asks for it."""

import os
import typing
import warnings

from . import _C

__all__ = ["add_safe_globals", "clear_safe_globals", "get_safe_globals", "load", "safe_globals", "save"]

# The types of the arguments, under PyTorch's names.
FILE_LIKE: typing.TypeAlias = "str | os.PathLike | typing.IO[bytes]"
MAP_LOCATION: typing.TypeAlias = "typing.Callable | str | _C.device | dict[str, str] | None"

default_format = "safetensors"  # "torch" in programs that imported Strata as torch


def save(obj, f, pickle_module=None, pickle_protocol=2, _use_new_zipfile_serialization=True, *, format=None):
    """Writes tensors, numbers, strings, None, and lists, tuples and dicts of these, as a safetensors file.

    Other objects (modules, arrays) need format="torch", which is chosen for them: PyTorch's zip file with a pickle, which
    PyTorch opens, and load(weights_only=False). f is a path or a file open for binary writing. A path is written atomically: if
    the process is killed, it has either the old file or the new one.

    >>> strata.save({"weight": strata.ones(2, 3), "epoch": 4}, path)
    >>> strata.load(path)["epoch"]
    4
    """
    if format not in (None, "safetensors", "torch"):
        raise ValueError(f"save: found format {format!r}, expected 'safetensors' or 'torch'")
    if (format or default_format) == "torch":
        return _save_torch(obj, f, pickle_protocol)
    try:
        if hasattr(f, "write"):
            f.write(_C._save(obj, None))
        else:
            _C._save(obj, f)
    except (TypeError, NotImplementedError):  # the latter: sparse tensors
        if format is not None:
            raise
        _save_torch(obj, f, pickle_protocol)
    return None


def _get_layout(name):
    """The layout of a pickle of PyTorch."""
    return name.rpartition(".")[2]


def _save_torch(obj, f, protocol):
    from .torch import files

    files.write(obj, f, protocol)


def load(f, map_location=None, pickle_module=None, *, weights_only=True, mmap=None, **pickle_load_args):
    """What save() wrote, or a file of torch.save (.pt, .pth).

    With mmap=True nothing is copied: tensors use the memory of the file, which is read on access. If a program writes into
    the file, the tensors change; if it truncates the file, this process dies by SIGBUS on the next access.

    Pickles are read by an interpreter that only builds data; anything else is rejected by name. add_safe_globals() allows
    more names. weights_only=False runs the pickle, which can run any program: only for files that you trust. f is a path or a
    file open for binary reading.
    """
    if not weights_only:
        return _load_any(f, map_location)
    place = None
    if map_location is not None and not callable(map_location) and not isinstance(map_location, dict):
        place = _C.ops["empty"](0, device=_place(map_location)).device  # raises if there is no such device
    if hasattr(f, "read"):
        if mmap:
            raise ValueError("load: mmap=True needs the path of a file, not an open one")
        data = f.read()
        tree = _with_safe_globals(lambda: _C._load_bytes(data), lambda: data, map_location)
    else:
        tree = _with_safe_globals(lambda: _C._load(f, bool(mmap)), lambda: _bytes_of(f), map_location)
    return tree if place is None or place.type == "cpu" else _moved(tree, place, {})


def _place(map_location):
    return f"cuda:{map_location}" if isinstance(map_location, int) else map_location


def _bytes_of(f):
    if hasattr(f, "read"):
        return f.read()
    with open(os.fspath(f), "rb") as file:
        return file.read()


def _load_any(f, map_location):
    """The objects of a file, whose pickle is run."""
    from .torch import files

    data = _bytes_of(f)
    if not files.is_archive(data):
        return load(_Bytes(data), map_location)
    warnings.warn(
        "load(weights_only=False) runs the pickle in the file, and a pickle can run any program: only load files from sources "
        "that you trust",
        UserWarning,
        stacklevel=3,
    )
    return files.read(data, _place(map_location))


class _Bytes:
    """Bytes as a file."""

    def __init__(self, data):
        self.data = data

    def read(self):
        return self.data


def _moved(tree, place, known):
    """The same tree with its tensors on another device; one that appears twice stays one."""
    if isinstance(tree, _C.Tensor):
        if id(tree) not in known:
            known[id(tree)] = _moved_tensor(tree, place)
        return known[id(tree)]
    if isinstance(tree, dict):
        return type(tree)((key, _moved(value, place, known)) for key, value in tree.items())
    if isinstance(tree, _C.Size):
        return tree
    return type(tree)(_moved(v, place, known) for v in tree) if isinstance(tree, (list, tuple)) else tree


def _moved_tensor(tensor, place):
    moved = tensor.detach().to(place)
    if type(tensor) is not _C.Tensor:
        return _C.Tensor._make_subclass(type(tensor), moved, tensor.requires_grad)
    return moved.requires_grad_(tensor.requires_grad)


# --- names that a pickle may use -------------------------------------------------------------------------------------------

_safe = {}  # full name -> object


def _full_name(entry):
    from .torch.files import full_name

    thing, name = entry if isinstance(entry, tuple) else (entry, None)
    return name or full_name(thing), thing


def add_safe_globals(safe_globals):
    """Allows load() to call these classes and functions when a pickle asks for them by name; (object, name) gives another name."""
    _safe.update(map(_full_name, safe_globals))


def get_safe_globals():
    """The classes and functions that were allowed."""
    return list(_safe.values())


def clear_safe_globals():
    """Allows none."""
    _safe.clear()


class safe_globals:
    """add_safe_globals() inside a with block."""

    def __init__(self, safe_globals):
        self.entries = safe_globals

    def __enter__(self):
        self.before = dict(_safe)
        add_safe_globals(self.entries)

    def __exit__(self, *_):
        _safe.clear()
        _safe.update(self.before)


def _with_safe_globals(read, data, map_location):
    """read(); if the file asks for names, and some are allowed, the restricted unpickler instead."""
    try:
        return read()
    except RuntimeError as error:
        if "which would run code" not in str(error):
            raise
        from .torch import files

        if not _safe:
            raise files.RefusedPickle(f"{error}; weights_only=False runs it, for files that you trust") from None

    return files.read(data(), _place(map_location), _safe)
