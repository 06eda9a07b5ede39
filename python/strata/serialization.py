"""save and load: checkpoints as safetensors files; PyTorch's are read too, and no pickle is ever run."""

from . import _C

__all__ = ["load", "save"]


def save(obj, f):
    """Writes tensors, numbers, strings, None, and lists, tuples and dicts of these, as a safetensors file.

    f is a path or a file open for binary writing. The file format does not depend on the name. A path is written whole or not
    at all: whenever the process ends, it names the old file or the new one.

    >>> strata.save({"weight": strata.ones(2, 3), "epoch": 4}, path)
    >>> strata.load(path)["epoch"]
    4
    """
    if hasattr(f, "write"):
        f.write(_C._save(obj, None))
    else:
        _C._save(obj, f)


def load(f, map_location=None, *, weights_only=True, mmap=None):
    """What save() wrote, or a state dict of torch.save (.pt, .pth).

    With mmap=True nothing is copied: tensors use the memory of the file, which is read when it is touched. A program that writes
    into the file changes them, and one that cuts it short ends this process when it touches what is missing (SIGBUS). Pickles are read by an interpreter that builds data only; one that asks for anything else is refused by name, whatever
    weights_only says. f is a path or a file open for binary reading.
    """
    if map_location is not None and not callable(map_location) and not isinstance(map_location, dict):
        _C.ops["empty"](0, device=map_location)  # raises where there is no such device
    if hasattr(f, "read"):
        if mmap:
            raise ValueError("load: mmap=True needs the path of a file, not an open one")
        return _C._load_bytes(f.read())
    return _C._load(f, bool(mmap))
