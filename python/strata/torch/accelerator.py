"""torch.accelerator: the GPU of this process, if there is one."""

import strata

from .. import _C


def is_available():
    """Whether there is a CUDA device."""
    return strata.cuda.is_available()


def device_count():
    """The number of CUDA devices."""
    return strata.cuda.device_count()


def current_accelerator(check_available=False):
    """device('cuda') if there is one, else None."""
    return _C.device("cuda") if is_available() else None


def current_device_index():
    """The number of the current device."""
    return strata.cuda.current_device()


current_device_idx = current_device_index


def set_device_index(device):
    """Makes a device the current one."""
    strata.cuda.set_device(device)


set_device_idx = set_device_index


def synchronize(device=None):
    """Waits until the device's work is done."""
    if is_available():
        strata.cuda.synchronize(device)


def current_stream(device=None):
    """The current stream of a device."""
    return strata.cuda.current_stream(device)


def empty_cache():
    """Gives cached memory of the device back."""
    if is_available():
        strata.cuda.empty_cache()


def memory_allocated(device=None):
    """Bytes of live tensors on the device."""
    return strata.cuda.memory_allocated(device)


def max_memory_allocated(device=None):
    """The most bytes so far."""
    return strata.cuda.max_memory_allocated(device)
