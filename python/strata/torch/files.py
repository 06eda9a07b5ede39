"""Files of torch.save: a zip archive with a pickle of the objects and the bytes of every storage beside it.

Writing names every class of Strata by PyTorch's name, so that PyTorch opens the file. Reading here runs the pickle, all of it
or only the calls that were allowed; serialization.load() decides. Its default reader, in C++, runs none.
"""

import io
import os
import pickle
import sys
import tempfile
import zipfile
from collections import OrderedDict

from .. import _C
from .storage import _KINDS, TypedStorage, UntypedStorage

_STORAGE_NAMES = {getattr(_C, dtype): f"{kind}Storage" for kind, dtype in _KINDS.items()}


_OP = type(_C.ops["add"])


class _Global:
    """A name of PyTorch in a pickle. Callable, because a pickle calls it."""

    def __init__(self, module, name):
        self.module, self.name = module, name

    def __call__(self):
        raise TypeError("only a name")


_REBUILD = _Global("torch._utils", "_rebuild_tensor_v2")
_REBUILD_TYPED = _Global("torch._utils", "_rebuild_tensor_v3")
_REBUILD_PARAMETER = _Global("torch._utils", "_rebuild_parameter")
_REBUILD_SPARSE = _Global("torch._utils", "_rebuild_sparse_tensor")
_LAYOUT = _Global("torch.serialization", "_get_layout")
_REBUILD_TYPE = _Global("torch._tensor", "_rebuild_from_type_v2")
_SIZE, _DEVICE, _TENSOR = _Global("torch", "Size"), _Global("torch", "device"), _Global("torch", "Tensor")


# --- writing ---------------------------------------------------------------------------------------------------------------


class _Storage:
    """The memory of one or more tensors on its way into the archive."""

    def __init__(self, key, bytes, dtype):
        self.key, self.bytes, self.dtype = key, bytes, dtype


def _torch_name(obj, module):
    """The module under which PyTorch has a class of Strata."""
    if module.startswith("strata.nn") and not module.startswith("strata.nn.utils"):
        from ..nn.modules import HOME

        if obj.__qualname__ in HOME:
            return f"torch.nn.modules.{HOME[obj.__qualname__]}"
    if module == "strata.optim._rules":
        return f"torch.optim.{obj.__qualname__.lower()}"
    if module.startswith("strata.torch."):
        return "torch" + module.removeprefix("strata.torch")
    return "torch" + module.removeprefix("strata")


def full_name(obj):
    """The name of a class or function in a pickle."""
    if isinstance(obj, _OP):
        return f"torch.{obj.__reduce__()[1][0]}"
    module = obj.__module__
    return f"{_torch_name(obj, module) if module.partition('.')[0] == 'strata' else module}.{obj.__qualname__}"


class _Pickler(pickle._Pickler):  # the one in Python: the other cannot write names of classes that are not importable
    def __init__(self, file, protocol):
        super().__init__(file, protocol)
        self.storages = {}  # address -> _Storage

    def persistent_id(self, obj):
        if not isinstance(obj, _Storage):
            return None
        if obj.dtype is None:
            return ("storage", _Global("torch.storage", "UntypedStorage"), obj.key, "cpu", obj.bytes.numel())
        kind = _Global("torch", _STORAGE_NAMES[obj.dtype])
        return ("storage", kind, obj.key, "cpu", obj.bytes.numel() // obj.dtype.itemsize)

    def reducer_override(self, obj):
        if isinstance(obj, _C.Tensor):
            return self._reduce_tensor(obj)
        if isinstance(obj, (_C.dtype, _Global, _OP)):
            return "name"
        if isinstance(obj, _C.Size):
            return _SIZE, (tuple(obj),)
        if isinstance(obj, _C.device):
            return _DEVICE, (obj.type,) if obj.index is None else (obj.type, obj.index)
        from ..nn.module import Module

        if isinstance(obj, Module) and type(obj).__reduce_ex__ is object.__reduce_ex__:
            return _reduce_module(obj, self.proto)
        return NotImplemented

    def save_global(self, obj, name=None):
        if isinstance(obj, _Global):
            return self._write_global(obj, obj.module, obj.name)
        if isinstance(obj, _C.dtype):
            return self._write_global(obj, "torch", str(obj).rpartition(".")[2])
        module = getattr(obj, "__module__", None) or ""
        if isinstance(obj, _OP) or module.partition(".")[0] in ("strata", "torch"):
            return self._write_global(obj, *full_name(obj).rsplit(".", 1))
        return super().save_global(obj, name)

    def save_type(self, obj):
        return super().save_type(obj) if obj in (type(None), type(NotImplemented), type(...)) else self.save_global(obj)

    dispatch = {**pickle._Pickler.dispatch, type: save_type}

    def _write_global(self, obj, module, name):
        self.write(pickle.GLOBAL + module.encode() + b"\n" + name.encode() + b"\n")
        self.memoize(obj)

    def _reduce_tensor(self, tensor):
        from ..nn.parameter import Parameter

        if tensor.layout != "strided":
            return _reduce_sparse(tensor)
        if tensor.is_meta:
            raise NotImplementedError("save: a tensor on device meta has no values to save; save its shape")
        values = tensor.detach()
        host = values.cpu()
        whole = host._storage_bytes()
        typed = tensor.dtype in _STORAGE_NAMES
        key = values._storage_bytes().data_ptr() if whole.numel() else ("empty", id(tensor))
        if key not in self.storages:
            self.storages[key] = _Storage(str(len(self.storages)), whole, tensor.dtype if typed else None)
        storage = self.storages[key]
        requires_grad = tensor.requires_grad and tensor.is_leaf
        rest = (requires_grad and not isinstance(tensor, Parameter), OrderedDict())
        parts = (storage, host.storage_offset(), tuple(host.shape), host.stride(), *rest)
        if storage.dtype is not None and storage.dtype is not tensor.dtype:  # a view of another dtype: copied
            return self._reduce_tensor(values.clone())
        made = (_REBUILD, parts) if typed else (_REBUILD_TYPED, (*parts, tensor.dtype))
        if isinstance(tensor, Parameter):
            return _REBUILD_PARAMETER, (_Reduced(*made), requires_grad, OrderedDict())
        if type(tensor) is not _C.Tensor or tensor.__dict__:
            kind = _TENSOR if type(tensor) is _C.Tensor else type(tensor)
            return _REBUILD_TYPE, (made[0], kind, made[1], dict(tensor.__dict__))
        return made


class _Reduced:
    """A call inside of another call's arguments."""

    def __init__(self, function, args):
        self.parts = (function, args)

    def __reduce__(self):
        return self.parts


def _reduce_sparse(tensor):
    layout = _Reduced(_LAYOUT, (f"torch.{tensor.layout}",))
    if tensor.layout != "sparse_coo":
        parts = (*tensor._places, tensor.values().detach(), tensor.shape)
    else:
        parts = (tensor._indices(), tensor._values().detach(), tensor.shape, tensor.is_coalesced())
    return _REBUILD_SPARSE, (layout, parts)


def _reduce_module(module, protocol):
    """A module with the attributes that PyTorch's class of the same name has."""
    function, args, state, *rest = object.__reduce_ex__(module, max(protocol, 2))
    state = {**state, "_parameters": dict(module._parameters), "_buffers": dict(module._buffers)}
    kind = type(module).__name__
    if kind in ("Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"):
        padding, n = state.get("padding"), len(state["kernel_size"])
        state.setdefault("transposed", "Transpose" in kind)
        state.setdefault("output_padding", (0,) * n)
        sides = [p for p in reversed(padding) for _ in (0, 1)] if not isinstance(padding, str) else [0] * (2 * n)
        state.setdefault("_reversed_padding_repeated_twice", sides)
    return function, args, state, *rest


def write(obj, f, protocol=2):
    """Writes obj to a path or a file open for binary writing."""
    if hasattr(f, "write"):
        memory = io.BytesIO()  # a zip file is written out of order, which f may not allow
        _write_archive(obj, "archive", protocol, memory)
        f.write(memory.getbuffer())
        return
    path = os.fspath(f)
    path = path.decode() if isinstance(path, bytes) else path
    name = os.path.splitext(os.path.basename(path))[0] or "archive"
    folder = os.path.dirname(os.path.abspath(path))
    handle, temporary = tempfile.mkstemp(prefix=".strata-", suffix=".tmp", dir=folder)
    try:  # the path has the old file or the new one, never a part
        with os.fdopen(handle, "wb") as out:
            _write_archive(obj, name, protocol, out)
            out.flush()
            os.fsync(out.fileno())
        mode = os.stat(path).st_mode & 0o777 if os.path.exists(path) else 0o666 & ~_umask()
        os.chmod(temporary, mode)
        os.replace(temporary, os.path.realpath(path))
    except BaseException:
        os.unlink(temporary)
        raise


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _write_archive(obj, name, protocol, out):
    text = io.BytesIO()
    pickler = _Pickler(text, min(protocol, 2))
    pickler.dump(obj)
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(f"{name}/data.pkl", text.getvalue())
        archive.writestr(f"{name}/byteorder", sys.byteorder)
        for storage in pickler.storages.values():
            archive.writestr(f"{name}/data/{storage.key}", memoryview(storage.bytes))
        archive.writestr(f"{name}/version", "3\n")


# --- reading ---------------------------------------------------------------------------------------------------------------


def _resolve(module, name):
    """The object of Strata that a name of PyTorch means."""
    from ._finder import _target

    if module == "torch.serialization" and name == "_get_layout":
        return lambda layout: layout.rpartition(".")[2]
    if module == "torch._tensor" and name.startswith("_rebuild"):
        module = "torch._utils"
    target = _target(module)
    import importlib

    found = importlib.import_module("strata" if module == "torch" else target) if module == "torch" or target else None
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is None and module == "torch":
        found = _C.ops.get(name)  # an op that layers call, without a public name
    if found is None:
        raise pickle.UnpicklingError(f"the file needs {module}.{name}, which is not in this version of Strata")
    return found


class RefusedPickle(RuntimeError, pickle.UnpicklingError):
    """A pickle asks for more than data: an UnpicklingError, as in PyTorch."""


class _Unpickler(pickle.Unpickler):
    def __init__(self, file, storage, allowed):
        super().__init__(file, encoding="utf-8")
        self._storage, self._allowed = storage, allowed

    def find_class(self, module, name):
        if self._allowed is not None and f"{module}.{name}" not in self._allowed:
            if not _is_plain(module, name):
                raise pickle.UnpicklingError(
                    f"its pickle asks for {module}.{name}, which is not allowed; add it with add_safe_globals(), or load with "
                    "weights_only=False where you trust the file"
                )
        elif self._allowed is not None and self._allowed[f"{module}.{name}"] is not None:
            return self._allowed[f"{module}.{name}"]
        if module == "torch" or module.startswith("torch."):
            return _resolve(module, name)
        return super().find_class(module, name)

    def persistent_load(self, ident):
        kind, storage_type, key, location, numel = ident
        if kind != "storage":
            raise pickle.UnpicklingError(f"unknown persistent id {kind!r}")
        return self._storage(storage_type, key, location, numel)


def _is_plain(module, name):
    """The names of plain checkpoints: data, and what rebuilds tensors from it."""
    if module == "torch._utils":
        return name in ("_rebuild_tensor_v2", "_rebuild_tensor_v3", "_rebuild_parameter")
    if (module, name) in (("collections", "OrderedDict"), ("torch.storage", "UntypedStorage")):
        return True
    if module in ("builtins", "__builtin__"):
        return name in ("set", "frozenset", "bytearray", "complex", "dict")
    if (module, name) in (("_codecs", "encode"), ("collections", "Counter"), ("collections", "defaultdict")):
        return True
    if module != "torch":
        return False
    is_type = name in ("Size", "device", "UntypedStorage") or name in _STORAGE_NAMES.values()
    return is_type or isinstance(getattr(_C, name, None), _C.dtype)


def is_archive(data):
    """Whether these first bytes are those of a zip file."""
    return data[:4] == b"PK\3\4"


def read(data, map_location=None, allowed=None, pickle_module=None):
    """The objects of an archive. allowed: full names that the pickle may use besides plain data; None: any, which runs code."""
    archive = zipfile.ZipFile(io.BytesIO(data))
    names = [n for n in archive.namelist() if n == "data.pkl" or n.endswith("/data.pkl")]
    if len(names) != 1:
        raise RuntimeError(f"the zip archive has {len(names)} members data.pkl, a checkpoint of torch.save has one")
    prefix, known = names[0][: -len("data.pkl")], {}

    def storage(kind, key, location, numel):
        if key not in known:
            known[key] = _placed(bytearray(archive.read(f"{prefix}data/{key}")), location, map_location)
        untyped = known[key]
        if kind is UntypedStorage or not isinstance(kind, type) or kind.dtype is None:
            return untyped
        if numel * kind.dtype.itemsize > untyped.nbytes():
            raise RuntimeError(f"storage {key} has {untyped.nbytes()} bytes, fewer than its {numel} elements need")
        return TypedStorage(dtype=kind.dtype, wrap_storage=untyped)

    return _Unpickler(io.BytesIO(archive.read(names[0])), storage, allowed).load()


def _placed(data, location, map_location):
    """The storage of these bytes where map_location puts it."""
    bytes_ = _C.from_numpy(data).clone() if data else _C.ops["empty"](0, dtype=_C.uint8)
    made = UntypedStorage._of(bytes_)
    if callable(map_location):
        return map_location(made, location) or made
    place = map_location.get(location) if isinstance(map_location, dict) else map_location
    return made if place is None or _C.device(str(place)).type == "cpu" else UntypedStorage._of(bytes_.to(str(place)))
