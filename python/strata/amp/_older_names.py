"""The classes behind strata.cuda.amp and strata.cpu.amp: PyTorch's older names, which warn."""

import warnings

from .. import _C
from . import autocast_mode, grad_scaler


def _warn(kind, name):
    warnings.warn(
        f"`strata.{kind}.amp.{name}(args...)` is deprecated. Please use `strata.amp.{name}('{kind}', args...)` instead.",
        FutureWarning,
        stacklevel=3,
    )


def classes_for(kind):
    """autocast and GradScaler with the device type fixed."""
    default = _C.float16 if kind == "cuda" else _C.bfloat16

    class autocast(autocast_mode.autocast):
        __doc__ = f"strata.amp.autocast({kind!r}, ...)."

        def __init__(self, enabled=True, dtype=default, cache_enabled=True):
            _warn(kind, "autocast")
            super().__init__(kind, dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)

    class GradScaler(grad_scaler.GradScaler):
        __doc__ = f"strata.amp.GradScaler({kind!r}, ...)."

        def __init__(
            self, init_scale=65536.0, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000, enabled=True
        ):
            _warn(kind, "GradScaler")
            super().__init__(kind, init_scale, growth_factor, backoff_factor, growth_interval, enabled)

    return autocast, GradScaler
