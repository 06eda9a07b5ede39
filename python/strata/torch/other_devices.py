"""torch.xpu, torch.mps and torch.mtia: devices that Strata does not have. What programs ask first is answered."""

from ._missing import missing


def is_available():
    """False: there is no such device."""
    return False


is_initialized = is_bf16_supported = is_available


def device_count():
    """0: there is no such device."""
    return 0


def manual_seed(seed):
    """Nothing to seed."""


manual_seed_all = manual_seed


def empty_cache():
    """Nothing to free."""


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(f"module 'torch.xpu' has no attribute {name!r}")
    return missing(f"torch.xpu.{name}")
