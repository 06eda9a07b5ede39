"""save and load: checkpoints as safetensors files; PyTorch's are read too, and no pickle is ever run."""

from . import _C

__all__ = ["load", "save"]


def save(obj, f):
    """Writes tensors, numbers, strings, None, and lists, tuples and dicts of these, as a safetensors file.

    f is a path or a file open for binary writing. The file format does not depend on the name. A path is written
    atomically: if the process is killed, it has either the old file or the new one.

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

    With mmap=True nothing is copied: tensors use the memory of the file, which is read on access. If a program writes into
    the file, the tensors change; if it truncates the file, this process dies by SIGBUS on the next access. Pickles are read
    by an interpreter that only builds data; anything else is rejected by name, whatever weights_only says. f is a path
    or a file open for binary reading.
    """
    place = None
    if map_location is not None and not callable(map_location) and not isinstance(map_location, dict):
        place = _C.ops["empty"](0, device=map_location).device  # raises if there is no such device
    if hasattr(f, "read"):
        if mmap:
            raise ValueError("load: mmap=True needs the path of a file, not an open one")
        tree = _C._load_bytes(f.read())
    else:
        tree = _C._load(f, bool(mmap))
    return tree if place is None or place.type != "meta" else _without_values(tree)


def _without_values(tree):
    """The same tree with its tensors on device meta."""
    if isinstance(tree, _C.Tensor):
        return tree.to("meta")
    if isinstance(tree, dict):
        return type(tree)((key, _without_values(value)) for key, value in tree.items())
    return type(tree)(map(_without_values, tree)) if isinstance(tree, (list, tuple)) else tree
