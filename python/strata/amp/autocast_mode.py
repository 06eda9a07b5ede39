"""autocast as a context manager and decorator, and its state. Dispatch casts the arguments: src/dispatch/autocast.cpp."""

import functools
import warnings

from .. import _C
from ..autograd.modes import _Mode

__all__ = ["autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]

_DTYPES = (_C.bfloat16, _C.float16)


def _checked_type(device_type):
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
    return device_type


def is_autocast_available(device_type):
    """Whether autocast exists for a device type: "cpu", "cuda" and "vgpu"."""
    return _C._is_autocast_available(device_type)


def _missing_device():
    """Whether there is no GPU, so that autocast for "cuda" has no effect."""
    from .. import cuda

    return not cuda.is_available()


class autocast(_Mode):
    """Runs products and convolutions in a 16-bit dtype, and ops that need the range of float32 in float32.

    The lists of ops are PyTorch's for the device type; `vgpu` has those of `cuda`. The state belongs to the thread.
    `cache_enabled`: casts of parameters are kept until the outermost scope ends.
    """

    def __init__(self, device_type, dtype=None, enabled=True, cache_enabled=None):
        self.device = _checked_type(device_type)
        if not is_autocast_available(device_type):
            raise RuntimeError(f"User specified an unsupported autocast device_type '{device_type}'")
        self.fast_dtype = _C.get_autocast_dtype(device_type) if dtype is None else dtype
        if not isinstance(self.fast_dtype, _C.dtype):
            raise TypeError(f"autocast: dtype must be a strata.dtype, got {type(self.fast_dtype).__name__}")
        self._cache_enabled = _C.is_autocast_cache_enabled() if cache_enabled is None else bool(cache_enabled)
        self._enabled = bool(enabled)
        if enabled and device_type == "cuda" and _missing_device():
            warnings.warn("CUDA is not available. Disabling autocast.", stacklevel=2)
            self._enabled = False
        elif enabled and not any(self.fast_dtype is known for known in _DTYPES):
            name = device_type.upper()
            warnings.warn(
                f"In {name} autocast, but the target dtype is not supported. Disabling autocast.\n"
                f"{name} Autocast only supports dtypes of {', '.join(map(str, _DTYPES))} currently.",
                stacklevel=2,
            )
            self._enabled = False
        self._before = []  # a stack: one object may be entered several times

    def __enter__(self):
        self._before.append(
            (
                _C._is_autocast_enabled(self.device),
                _C.get_autocast_dtype(self.device),
                _C.is_autocast_cache_enabled(),
            )
        )
        _C._set_autocast_enabled(self.device, self._enabled)
        if self.fast_dtype.is_floating_point:
            _C.set_autocast_dtype(self.device, self.fast_dtype)
        _C.set_autocast_cache_enabled(self._cache_enabled)
        _C.autocast_increment_nesting()
        return self

    def __exit__(self, *_):
        enabled, dtype, cache = self._before.pop()
        if _C.autocast_decrement_nesting() == 0:
            _C.clear_autocast_cache()
        _C._set_autocast_enabled(self.device, enabled)
        _C.set_autocast_dtype(self.device, dtype)
        _C.set_autocast_cache_enabled(cache)
        return False

    def __call__(self, function):
        if not callable(function):
            raise TypeError(
                f"autocast()(func) requires a callable, but got {type(function).__name__}. Did you mean to use autocast "
                "as a context manager: with strata.autocast(device_type):"
            )
        return super().__call__(function)

    def _again(self):
        fresh = object.__new__(autocast)  # each call and each thread has its own stack
        fresh.__dict__.update(self.__dict__, _before=[])
        return fresh


def cast_floating(value, device_type, dtype):
    """The value with every floating tensor of the device type inside converted; float64 is kept."""
    if isinstance(value, _C.Tensor):
        eligible = value.is_floating_point() and value.device.type == device_type and value.dtype is not _C.float64
        return value.to(dtype) if eligible else value
    if isinstance(value, dict):
        return {cast_floating(k, device_type, dtype): cast_floating(v, device_type, dtype) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(cast_floating(v, device_type, dtype) for v in value)
    return value


def custom_fwd(fwd=None, *, device_type, cast_inputs=None):
    """For `forward` of an autograd Function: remembers the autocast state for custom_bwd.

    With cast_inputs, floating tensors are converted to that dtype and autocast is off inside, if it is on outside.
    """
    _checked_type(device_type)
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def wrapped(ctx, *args, **kwargs):
        enabled = _C._is_autocast_enabled(device_type)
        ctx._dtype = _C.get_autocast_dtype(device_type)
        ctx._fwd_used_autocast = enabled and cast_inputs is None
        if not enabled or cast_inputs is None:
            return fwd(ctx, *args, **kwargs)
        with autocast(device_type, enabled=False):
            return fwd(
                ctx, *cast_floating(args, device_type, cast_inputs), **cast_floating(kwargs, device_type, cast_inputs)
            )

    return wrapped


def custom_bwd(bwd=None, *, device_type):
    """For `backward` of an autograd Function: runs it with the autocast state of its forward (see custom_fwd)."""
    _checked_type(device_type)
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def wrapped(ctx, *args, **kwargs):
        with autocast(device_type, dtype=ctx._dtype, enabled=ctx._fwd_used_autocast):
            return bwd(ctx, *args, **kwargs)

    return wrapped
