"""PyTorch's functions for the state of autocast, with the older names for one device type, and the TF32 switch."""

import builtins
import warnings

from . import _C


def _deprecated(old, new):
    warnings.warn(f"strata.{old} is deprecated. Please use strata.{new} instead.", DeprecationWarning, stacklevel=3)


def _flag(function, value):
    if not isinstance(value, builtins.bool):
        raise TypeError(f"{function}(): argument 'enabled' must be bool, not {type(value).__name__}")
    return value


def is_autocast_enabled(device_type="cuda"):
    """Whether autocast is on for a device type in this thread."""
    if device_type in ("mps", "xpu", "mtia", "hpu", "privateuseone"):  # devices of PyTorch that are not here
        return False
    return _C._is_autocast_enabled(device_type)


def set_autocast_enabled(device_type, enabled=None):
    """set_autocast_enabled(device_type, enabled); with one argument, for "cuda"."""
    if enabled is None and not isinstance(device_type, str):
        device_type, enabled = "cuda", device_type
    _C._set_autocast_enabled(device_type, _flag("set_autocast_enabled", enabled))


def get_autocast_gpu_dtype():
    """The dtype of autocast on "cuda"."""
    _deprecated("get_autocast_gpu_dtype()", "get_autocast_dtype('cuda')")
    return _C.get_autocast_dtype("cuda")


def set_autocast_gpu_dtype(dtype):
    """Sets the dtype of autocast on "cuda"."""
    _deprecated("set_autocast_gpu_dtype(dtype)", "set_autocast_dtype('cuda', dtype)")
    _C.set_autocast_dtype("cuda", dtype)


def is_autocast_cpu_enabled():
    """Whether autocast is on for the CPU."""
    _deprecated("is_autocast_cpu_enabled()", "is_autocast_enabled('cpu')")
    return _C._is_autocast_enabled("cpu")


def set_autocast_cpu_enabled(enabled):
    """Switches autocast for the CPU."""
    _deprecated("set_autocast_cpu_enabled(enabled)", "set_autocast_enabled('cpu', enabled)")
    _C._set_autocast_enabled("cpu", _flag("set_autocast_cpu_enabled", enabled))


def get_autocast_cpu_dtype():
    """The dtype of autocast on the CPU."""
    _deprecated("get_autocast_cpu_dtype()", "get_autocast_dtype('cpu')")
    return _C.get_autocast_dtype("cpu")


def set_autocast_cpu_dtype(dtype):
    """Sets the dtype of autocast on the CPU."""
    _deprecated("set_autocast_cpu_dtype(dtype)", "set_autocast_dtype('cpu', dtype)")
    _C.set_autocast_dtype("cpu", dtype)


def is_any_autocast_enabled():
    """Whether autocast is on for any device type in this thread."""
    return builtins.any(_C._is_autocast_enabled(kind) for kind in ("cpu", "cuda", "vgpu"))


def set_float32_matmul_precision(precision):
    """Whether float32 products on GPUs may use TF32: "highest" no, "high" and "medium" yes."""
    if not isinstance(precision, builtins.str):
        raise TypeError(f"set_float32_matmul_precision: expected a str, got {type(precision).__name__}")
    if precision not in ("highest", "high", "medium"):
        warnings.warn(
            f"{precision} is not one of 'highest', 'high', or 'medium'; the current set_float32_matmul_precision call "
            "has no effect.",
            stacklevel=2,
        )
        return
    _C._set_float32_matmul_precision(precision)
