"""What the namespace can do, for `__array_namespace_info__()`."""

from .. import _C, cuda
from ._dtypes import KINDS


class Info:
    """The answers of `__array_namespace_info__()`."""

    def capabilities(self):
        """Boolean indexing and shapes that depend on values are supported; tensors have at most 64 dimensions."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 10}

    def default_device(self):
        """The device of new tensors."""
        return _C.device(_C._get_default_device())

    def default_dtypes(self, *, device=None):
        """The dtypes of new tensors of each kind."""
        real = _C.get_default_dtype()
        return {
            "real floating": real,
            "complex floating": real.to_complex(),
            "integral": _C.int64,
            "indexing": _C.int64,
        }

    def dtypes(self, *, device=None, kind=None):
        """The dtypes of the standard by name, all of them or those of a kind or of a tuple of kinds."""
        kinds = ("bool", "numeric") if kind is None else (kind,) if isinstance(kind, str) else kind
        for k in kinds:
            if k not in KINDS:
                raise ValueError(f"dtypes: unknown kind {k!r}; expected one of {', '.join(map(repr, KINDS))}")
        return {name: getattr(_C, name) for k in kinds for name in KINDS[k]}

    def devices(self):
        """The CPU and the CUDA devices of this machine."""
        return [_C.device("cpu")] + [_C.device("cuda", i) for i in range(cuda.device_count())]


def __array_namespace_info__():
    """The devices, dtypes and capabilities of this namespace."""
    return Info()
