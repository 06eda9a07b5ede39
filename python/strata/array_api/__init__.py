"""The Python array API standard, version 2024.12: the namespace that `Tensor.__array_namespace__()` returns.

Libraries that are written for the standard (SciPy, scikit-learn) call these functions with tensors. Their signatures
and their promotion of dtypes are those of the standard: all arrays count, also zero-dimensional ones.
"""

from .. import _C
from .._C import __version__ as __version__
from .._C import bool as bool
from .._C import (
    complex64,
    complex128,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from . import fft, linalg
from ._creation import *
from ._dtypes import *
from ._elementwise import *
from ._info import __array_namespace_info__
from ._manipulation import *
from ._reductions import *
from ._searching import *
from .linalg import matmul, matrix_transpose, tensordot, vecdot

__array_api_version__ = "2024.12"

e, inf, nan, newaxis, pi = 2.718281828459045, _C.inf, _C.nan, None, 3.141592653589793

__all__ = [name for name in globals() if not name.startswith("_")] + [
    "__array_api_version__",
    "__array_namespace_info__",
]
