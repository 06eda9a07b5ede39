"""torch.onnx: questions and marks of programs that could be exported. Exporting itself raises when it is called."""

from .._missing import missing

__all__ = ["is_in_onnx_export", "register_custom_op_symbolic", "unregister_custom_op_symbolic"]


def is_in_onnx_export():
    """False: nothing is exported."""
    return False


def register_custom_op_symbolic(symbolic_name, symbolic_fn, opset_version, custom_opsets=None):
    """Accepted: nothing is exported."""


def unregister_custom_op_symbolic(symbolic_name, opset_version):
    """Accepted: nothing is exported."""


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(f"module 'torch.onnx' has no attribute {name!r}")
    return missing(f"torch.onnx.{name}")
