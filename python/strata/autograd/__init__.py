"""Reverse-mode differentiation: modes, backward, grad, user-defined functions, gradient checks."""

from .. import _C
from . import modes as grad_mode
from .function import Function
from .modes import (
    detect_anomaly,
    enable_grad,
    inference_mode,
    no_grad,
    set_detect_anomaly,
    set_grad_enabled,
)

TYPE_CHECKING = False
if TYPE_CHECKING:  # for editors; at run time __getattr__ imports them when first used
    from . import forward_ad, functional, graph
    from .gradcheck import gradcheck, gradgradcheck

__all__ = [
    "Function",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "forward_ad",
    "functional",
    "grad",
    "grad_mode",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "inference_mode",
    "no_grad",
    "set_detect_anomaly",
    "set_grad_enabled",
]


def backward(tensors, grad_tensors=None, retain_graph=None, create_graph=False, inputs=None):
    """Adds the gradients of the tensors to the leaves' .grad."""
    if grad_tensors is None:
        count = 1 if isinstance(tensors, _C.Tensor) else len(tensors)
        grad_tensors = (None,) * count
    _C._backward(tensors, grad_tensors, bool(retain_graph) or create_graph, create_graph, inputs)


def grad(
    outputs,
    inputs,
    grad_outputs=None,
    retain_graph=None,
    create_graph=False,
    allow_unused=None,
    is_grads_batched=False,
    materialize_grads=False,
    only_inputs=True,
):
    """The gradients of the outputs with respect to the inputs, as a tuple."""
    if only_inputs is not True:
        raise ValueError("grad(only_inputs=False) was removed from PyTorch; use backward() to add to .grad")
    if is_grads_batched:
        options = dict(create_graph=create_graph, allow_unused=allow_unused, materialize_grads=materialize_grads)
        return _of_each(outputs, inputs, grad_outputs, retain_graph, options)
    outputs = (outputs,) if isinstance(outputs, _C.Tensor) else tuple(outputs)
    inputs = (inputs,) if isinstance(inputs, _C.Tensor) else tuple(inputs)
    if grad_outputs is None:
        grad_outputs = (None,) * len(outputs)
    elif isinstance(grad_outputs, _C.Tensor):
        grad_outputs = (grad_outputs,)
    unused = materialize_grads if allow_unused is None else allow_unused
    grads = _C._grad(outputs, inputs, grad_outputs, bool(retain_graph) or create_graph, create_graph, bool(unused))
    if materialize_grads:
        grads = tuple(i.new_zeros(i.shape) if g is None else g for g, i in zip(grads, inputs, strict=True))
    return grads


def _of_each(outputs, inputs, batches, retain_graph, options):
    """grad() for each slice of the gradients that are passed back, the results stacked."""
    if batches is None:
        raise RuntimeError("grad(is_grads_batched=True): expected grad_outputs with a batch as their first dimension")
    batches = (batches,) if isinstance(batches, _C.Tensor) else tuple(batches)
    count = next(b.shape[0] for b in batches if b is not None)
    rows = []
    for i in range(count):
        keep = bool(retain_graph) or i + 1 < count
        rows.append(grad(outputs, inputs, [None if b is None else b[i] for b in batches], keep, **options))
    if not rows:
        inputs = (inputs,) if isinstance(inputs, _C.Tensor) else inputs
        return tuple(x.new_zeros((0, *x.shape)) for x in inputs)
    return tuple(None if parts[0] is None else _C.ops["stack"](parts) for parts in zip(*rows, strict=True))


def __getattr__(name):  # imported when first used
    import importlib

    if name in ("forward_ad", "functional", "graph"):
        return importlib.import_module(f".{name}", __name__)
    if name in ("Variable", "variable", "profiler"):
        return getattr(importlib.import_module(".older_names", __name__), name)
    if name in ("gradcheck", "gradgradcheck"):
        home = importlib.import_module(".gradcheck", __name__)
        globals().update(gradcheck=home.gradcheck, gradgradcheck=home.gradgradcheck)
        return globals()[name]
    raise AttributeError(f"module 'strata.autograd' has no attribute {name!r}")
