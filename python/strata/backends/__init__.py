"""Switches of back ends. TF32 is off unless set, for products as in PyTorch, for convolutions unlike it. Other switches are kept
for programs that set them; one that would have to change a kernel, and cannot, warns."""

import sys
import types
import warnings

from .. import _C
from .._no_effect import NoEffect

__all__ = ["cpu", "cuda", "cudnn", "mha", "mkl", "mkldnn", "mps", "openmp", "opt_einsum", "quantized"]


def _checked_bool(name, value):
    if not isinstance(value, bool):
        raise TypeError(f"backends.{name} must be a bool, found {type(value).__name__}")
    return value


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
        self._set(_checked_bool("allow_tf32", value))

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


def _keep_recurrent_in_float32(allow):
    if allow:
        _warn_no_effect("cudnn.rnn.fp32_precision = 'tf32'", "recurrent networks are computed in float32")


class _Cudnn(_Tf32):
    """Convolutions on GPUs, by cuDNN or Strata's own kernels. The TF32 switch is also `conv.fp32_precision`. With `benchmark`, all
    kernels that accept a convolution are timed at its first call with new shapes, and the fastest is used from then on (see
    strata.tune). `deterministic` is kept for programs that set it: each kernel is deterministic."""

    __slots__ = ("_deterministic",)
    rnn = _Tf32(lambda: False, _keep_recurrent_in_float32)

    def __init__(self, get, set):
        super().__init__(get, set)
        self._deterministic = False

    benchmark_limit = 10  # PyTorch's default; every kernel is tried

    @property
    def benchmark(self):
        return _C._benchmark_convolutions()

    @benchmark.setter
    def benchmark(self, value):
        _C._set_benchmark_convolutions(_checked_bool("cudnn.benchmark", value))

    @property
    def deterministic(self):
        return self._deterministic

    @deterministic.setter
    def deterministic(self, value):
        self._deterministic = _checked_bool("cudnn.deterministic", value)

    @property
    def enabled(self):
        """cuDNN is used where it is found; this cannot be changed."""
        return True

    @enabled.setter
    def enabled(self, value):
        if not value and self.is_available():
            warnings.warn("backends.cudnn.enabled = False has no effect: cuDNN is used where it is found", stacklevel=2)

    @staticmethod
    def version():
        """The version of the library that was found, as one number; None without it."""
        for library in _C._cuda_libraries():
            if library["name"] == "cudnn" and not library["why_not"]:
                parts = [int(p) for p in str(library["version"]).split(".")[:3]]
                return sum(p * f for p, f in zip(parts, (10000, 100, 1), strict=False))
        return None

    @staticmethod
    def is_acceptable(tensor):
        """Whether the tensor is on a GPU and in a type that cuDNN takes."""
        return tensor.is_cuda and tensor.is_floating_point()

    def flags(self, enabled=True, benchmark=False, benchmark_limit=10, deterministic=False, allow_tf32=True):
        """A with block with other settings."""
        return _Flags(self, benchmark=benchmark, deterministic=deterministic, allow_tf32=allow_tf32)

    def set_flags(self, _enabled=None, _benchmark=None, _benchmark_limit=None, _deterministic=None, _allow_tf32=None):
        """Sets what is given, and returns the settings before."""
        before = (True, self.benchmark, 10, self.deterministic, self.allow_tf32)
        given = dict(benchmark=_benchmark, deterministic=_deterministic, allow_tf32=_allow_tf32)
        for name, value in given.items():
            if value is not None:
                setattr(self, name, value)
        return before

    @staticmethod
    def is_available():
        return any(f["name"] == "cudnn" and not f["why_not"] for f in _C._cuda_libraries())

    @property
    def conv(self):
        return self


class _Flags:
    """Settings of an object inside a with block."""

    def __init__(self, target, **settings):
        self.target, self.settings = target, settings

    def __enter__(self):
        self.before = {name: getattr(self.target, name) for name in self.settings}
        for name, value in self.settings.items():
            setattr(self.target, name, value)

    def __exit__(self, *_):
        for name, value in self.before.items():
            setattr(self.target, name, value)


class _Products(_Tf32):
    """Products: the TF32 switch. The reduced-precision switches are kept and change nothing: sums are in float32."""

    __slots__ = (
        "allow_bf16_reduced_precision_reduction",
        "allow_fp16_accumulation",
        "allow_fp16_reduced_precision_reduction",
    )

    def __init__(self, get, set):
        super().__init__(get, set)
        self.allow_bf16_reduced_precision_reduction = self.allow_fp16_reduced_precision_reduction = False
        self.allow_fp16_accumulation = False


def _yes(*_):
    return True


def _no(*_):
    return False


def _cpu_capability():
    """The widest instructions of this machine's CPU that kernels use."""
    try:
        with open("/proc/cpuinfo") as f:
            flags = f.read()
    except OSError:
        return "DEFAULT"
    return "AVX512" if "avx512f" in flags else "AVX2" if "avx2" in flags else "DEFAULT"


class _Quantized:
    """The engine of quantized layers, kept for programs that name one: the kernels are Strata's own."""

    __slots__ = ("_engine",)
    supported_engines = ("x86", "fbgemm", "onednn", "qnnpack")

    def __init__(self):
        self._engine = "x86"

    @property
    def engine(self):
        return self._engine

    @engine.setter
    def engine(self, value):
        if value not in self.supported_engines:
            raise RuntimeError(f"quantized engine {value!r} is not supported; expected one of {self.supported_engines}")
        self._engine = value


class _Switches(types.SimpleNamespace):
    """Functions and switches of a back end; what PyTorch has besides them can be named, and raises when it is called."""

    def __getattr__(self, name):
        from ..torch._missing import missing
        from ..torch._names import ABSENT

        full = f"torch.backends.{self._back_end}"
        if name == "_back_end" or name not in ABSENT.get(full, "").split():
            raise AttributeError(f"module '{full}' has no attribute {name!r}")
        return missing(f"{full}.{name}")


def _warn_no_effect(what, why):
    warnings.warn(f"backends.{what} has no effect: {why}", stacklevel=3)


class _Onednn:
    """oneDNN: used where it is faster."""

    __slots__ = ("deterministic",)

    def __init__(self):
        self.deterministic = False

    is_available = staticmethod(_yes)

    @property
    def enabled(self):
        """oneDNN is used where it is faster; this cannot be changed."""
        return True

    @enabled.setter
    def enabled(self, value):
        if not value:
            _warn_no_effect("mkldnn.enabled = False", "oneDNN is used where it is faster")

    def flags(self, enabled=True, deterministic=False, allow_tf32=True, **_):
        """A with block with other settings."""
        return _Flags(self, enabled=enabled, deterministic=deterministic)

    def set_flags(self, _enabled=None, _deterministic=None, *_):
        """Sets what is given, and returns the settings before."""
        before = (True, self.deterministic)
        self.enabled = _enabled is not False
        self.deterministic = self.deterministic if _deterministic is None else _deterministic
        return before


class _Attention:
    """The switches of attention's kernels, kept for programs that set them: kernels are chosen by the shapes."""

    def __init__(self):
        self.on = dict(flash=True, mem_efficient=True, math=True, cudnn=False)

    def setter(self, name):
        def enable(enabled):
            if not enabled and self.on[name]:
                _warn_no_effect(f"cuda.enable_{name}_sdp(False)", "kernels are chosen by the shapes")
            self.on[name] = bool(enabled)

        return enable

    def getter(self, name):
        return lambda: self.on[name]


class _Cuda(_Switches):
    """GPUs. `deterministic` is True unless set: results have the same bits each time. Without it, values that are written or
    added to one place (`index_put`, `scatter`, `scatter_add`, `index_add`) are taken in any order, which is faster."""

    @property
    def deterministic(self):
        return _C._is_deterministic()

    @deterministic.setter
    def deterministic(self, value):
        _C._set_deterministic(_checked_bool("cuda.deterministic", value))


class _Mha:
    """Multi-head attention: whether TransformerEncoder may leave out rows of padding."""

    __slots__ = ("_fastpath",)

    def __init__(self):
        self._fastpath = True

    def get_fastpath_enabled(self):
        """Whether rows of padding may be left out."""
        return self._fastpath

    def set_fastpath_enabled(self, value):
        """Sets whether rows of padding may be left out."""
        if not isinstance(value, bool):
            raise TypeError(f"set_fastpath_enabled: expected a bool, found {type(value).__name__}")
        self._fastpath = value


def _accepted(*_):
    """A setting without effect: the result is the same."""


_attention = _Attention()
cuda = _Cuda(
    _back_end="cuda",
    matmul=_Products(_C._allow_tf32_products, _C._set_allow_tf32_products),
    is_built=_yes,
    sdp_kernel=NoEffect,  # kernels are chosen by the shapes; `explain` tells which
    preferred_linalg_library=_accepted,
    preferred_blas_library=_accepted,
    allow_fp16_bf16_reduction_math_sdp=_accepted,
    fp16_bf16_reduction_math_sdp_allowed=_no,  # sums are in float32
    is_flash_attention_available=_yes,  # Strata's own fused kernels
    **{f"enable_{name}_sdp": _attention.setter(name) for name in _attention.on},
    **{f"{name}_sdp_enabled": _attention.getter(name) for name in _attention.on},
)
mha = _Mha()
quantized = _Quantized()
mps = _Switches(_back_end="mps", is_available=_no, is_built=_no, is_macos_or_newer=_no, is_macos13_or_newer=_no)
mkldnn = _Onednn()
mkl = _Switches(_back_end="mkl", is_available=_no)
openmp = types.SimpleNamespace(is_available=_no)  # the pool of threads is Strata's own
opt_einsum = types.SimpleNamespace(is_available=_yes, enabled=True, strategy="auto")
cpu = types.SimpleNamespace(get_cpu_capability=_cpu_capability)
cudnn = _Cudnn(_C._allow_tf32_convolutions, _C._set_allow_tf32_convolutions)

for _name in __all__:  # so that `import strata.backends.cudnn` works
    sys.modules[f"{__name__}.{_name}"] = globals()[_name]
