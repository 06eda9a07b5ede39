"""torch.onnx.symbolic_helper: the decorators of functions that describe ops for an export, which never runs."""

from .._missing import missing


def parse_args(*arg_descriptors):
    """A decorator without effect."""
    return lambda function: function


def quantized_args(*arg_q_descriptors, **options):
    """A decorator without effect."""
    return lambda function: function


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(f"module 'torch.onnx.symbolic_helper' has no attribute {name!r}")
    return missing(f"torch.onnx.symbolic_helper.{name}")
