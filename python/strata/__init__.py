"""Strata: a deep-learning stack you can see through. The names are PyTorch's: `import strata as torch` works."""

from . import _C
from ._C import (
    Generator,
    OutOfMemoryError,
    Size,
    Tensor,
    as_tensor,
    asarray,
    autocast_decrement_nesting,
    autocast_increment_nesting,
    bfloat16,
    clear_autocast_cache,
    complex64,
    complex128,
    default_generator,
    device,
    dtype,
    empty_cache,
    float8_e4m3fn,
    float8_e5m2,
    float16,
    float32,
    float64,
    from_numpy,
    get_autocast_dtype,
    get_default_dtype,
    get_float32_matmul_precision,
    get_num_threads,
    int8,
    int16,
    int32,
    int64,
    is_autocast_cache_enabled,
    is_grad_enabled,
    is_inference_mode_enabled,
    manual_seed,
    memory_stats,
    promote_types,
    reset_peak_memory_stats,
    set_autocast_cache_enabled,
    set_autocast_dtype,
    set_default_dtype,
    set_memory_limit,
    set_num_threads,
    set_workspace_limit,
    tensor,
    uint8,
    uint16,
    uint32,
    uint64,
)
from ._C import __version__ as __version__
from ._C import bool as bool

float = float32
double, half, short, int, long = float64, float16, int16, int32, int64
cfloat, cdouble = complex64, complex128
inf, nan, pi, e, newaxis = _C.inf, _C.nan, 3.141592653589793, 2.718281828459045, None
strided, jagged, sparse_coo = "strided", "jagged", "sparse_coo"
sparse_csr, sparse_csc, sparse_bsr, sparse_bsc = "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc"
contiguous_format, preserve_format, channels_last, channels_last_3d = (
    "contiguous_format",
    "preserve_format",
    "channels_last",
    "channels_last_3d",
)

# Every op of the registry that has no namespace of its own.
globals().update({name: op for name, op in _C.ops.items() if "." not in name and not op.internal})

from . import _functions as _functions  # noqa: E402
from . import _overrides as _overrides  # noqa: E402
from . import _variants  # noqa: E402

globals().update(_variants.FUNCTIONS)
from . import _tensor as _tensor  # noqa: E402
from . import _torch_methods as _torch_methods  # noqa: E402
from . import (  # noqa: E402
    amp,
    autograd,
    backends,
    cpu,
    cuda,
    linalg,
    nn,
    random,
    safetensors,
    serialization,
    special,
    testing,
    utils,
    vgpu,
)
from ._autocast_state import (  # noqa: E402
    get_autocast_cpu_dtype,
    get_autocast_gpu_dtype,
    is_autocast_cpu_enabled,
    is_autocast_enabled,
    set_autocast_cpu_dtype,
    set_autocast_cpu_enabled,
    set_autocast_enabled,
    set_autocast_gpu_dtype,
    set_float32_matmul_precision,
)
from ._compile import compile  # noqa: E402
from ._control_flow import cond, scan, while_loop  # noqa: E402
from ._functions import *  # noqa: E402
from ._journey import explain, explain_layers  # noqa: E402
from ._machine import device_load, devices, doctor, dtype_table  # noqa: E402
from .amp import autocast  # noqa: E402
from .autograd import enable_grad, inference_mode, no_grad, set_grad_enabled  # noqa: E402
from .random import get_rng_state, initial_seed, seed, set_rng_state  # noqa: E402
from .serialization import load, save  # noqa: E402
from .tracing import tracing  # noqa: E402
from .tune import tune  # noqa: E402

_LATER = (
    "array_api",
    "distributions",
    "export",
    "fft",
    "func",
    "fx",
    "gemm",
    "library",
    "masked",
    "multiprocessing",
    "nested",
    "onnx",
    "onnxruntime",
    "ops",
    "optim",
    "profiler",
    "sparse",
    "vision",
)  # imported on first use, so that importing strata stays fast
__all__ = [name for name in [*globals(), *_LATER] if not name.startswith("_")]


def __getattr__(name):
    if name in _LATER:
        import importlib

        return importlib.import_module(f".{name}", __name__)
    if name.startswith("__") and name != "__config__":
        raise AttributeError(f"module 'strata' has no attribute {name!r}")
    from .torch._more import find  # PyTorch's less common names

    return find(name)


def __dir__():
    return sorted({*globals(), *_LATER})
