"""Switches of back ends: TF32. Both are off unless set, for products as in PyTorch, for convolutions unlike it."""

import types

from .. import _C

__all__ = ["cuda", "cudnn"]


class _Tf32:
    """One TF32 switch under PyTorch's two names: allow_tf32, and fp32_precision, which is "tf32" or "ieee"."""

    __slots__ = ("_get", "_set")  # a misspelled switch is an error

    def __init__(self, get, set):
        self._get, self._set = get, set

    @property
    def allow_tf32(self):
        return self._get()

    @allow_tf32.setter
    def allow_tf32(self, value):
        if not isinstance(value, bool):
            raise TypeError(f"allow_tf32 must be a bool, found {type(value).__name__}")
        self._set(value)

    @property
    def fp32_precision(self):
        return "tf32" if self._get() else "ieee"

    @fp32_precision.setter
    def fp32_precision(self, value):
        if value not in ("tf32", "ieee", "none"):
            raise RuntimeError(f"fp32_precision: found {value!r}, expected 'tf32', 'ieee' or 'none'")
        self._set(value == "tf32")

    def __repr__(self):
        return f"allow_tf32={self.allow_tf32}"


class _Cudnn(_Tf32):
    """cuDNN: the TF32 switch of convolutions, also as `conv.fp32_precision`. `benchmark` and `deterministic` are kept for programs that set
    them: kernels are always deterministic, and strata.tune chooses among them by time."""

    __slots__ = ("benchmark", "deterministic")

    def __init__(self, get, set):
        super().__init__(get, set)
        self.benchmark = self.deterministic = False

    @property
    def enabled(self):
        """cuDNN is used where it is found; this cannot be changed."""
        return True

    @staticmethod
    def is_available():
        return any(f["name"] == "cudnn" and not f["why_not"] for f in _C._cuda_libraries())

    @property
    def conv(self):
        return self


cuda = types.SimpleNamespace(matmul=_Tf32(_C._allow_tf32_products, _C._set_allow_tf32_products))
cudnn = _Cudnn(_C._allow_tf32_convolutions, _C._set_allow_tf32_convolutions)
