"""The CPU as a device: the names of torch.cpu."""

from . import amp

__all__ = ["amp", "current_device", "device_count", "is_available", "synchronize"]


def is_available():
    """True: there is always a CPU."""
    return True


def device_count():
    """1: all cores are one device."""
    return 1


def current_device():
    """Its name."""
    return "cpu"


def synchronize(device=None):
    """Does nothing: ops on the CPU are done when they return."""
