"""CUDA devices: there are none in this version. Programs ask is_available() and go on with the CPU."""

__all__ = ["device_count", "is_available"]


def is_available():
    """False: this version has the CPU back end only."""
    return False


def device_count():
    """0: this version has the CPU back end only."""
    return 0
