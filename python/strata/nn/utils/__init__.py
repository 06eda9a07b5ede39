"""Network utilities: gradient clipping, parameters as one vector, sequences of different lengths."""

import builtins
import copy
import importlib

from ... import _C
from ...autograd import no_grad
from ..parameter import Parameter
from . import rnn
from .fusion import fuse_conv_bn_eval, fuse_conv_bn_weights, fuse_linear_bn_eval, fuse_linear_bn_weights

TYPE_CHECKING = False
if TYPE_CHECKING:  # for editors; at run time __getattr__ imports them when first used
    from . import parametrizations, parametrize
    from ._weight_hooks import remove_spectral_norm, remove_weight_norm, spectral_norm, weight_norm

__all__ = [
    "clip_grad_norm_",
    "clip_grad_value_",
    "clip_grads_with_norm_",
    "fuse_conv_bn_eval",
    "fuse_conv_bn_weights",
    "fuse_linear_bn_eval",
    "fuse_linear_bn_weights",
    "get_total_norm",
    "parameters_to_vector",
    "parametrizations",
    "parametrize",
    "remove_spectral_norm",
    "remove_weight_norm",
    "rnn",
    "skip_init",
    "spectral_norm",
    "vector_to_parameters",
    "weight_norm",
]
_OLDER = ("remove_spectral_norm", "remove_weight_norm", "spectral_norm", "weight_norm")


def __getattr__(name):  # these build on modules, which build on this file
    if name in ("parametrizations", "parametrize", "prune"):
        return importlib.import_module(f".{name}", __name__)
    if name in _OLDER:
        return getattr(importlib.import_module("._weight_hooks", __name__), name)
    raise AttributeError(f"module 'strata.nn.utils' has no attribute {name!r}")


def _listed(tensors):
    return [tensors] if isinstance(tensors, _C.Tensor) else list(tensors)


def _grads(parameters):
    return [p.grad for p in _listed(parameters) if p.grad is not None]


def get_total_norm(tensors, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """The norm of all elements of all tensors, as if they were one vector."""
    tensors = [t.coalesce().values() if t.is_sparse else t for t in _listed(tensors)]
    if not tensors:
        return _C.tensor(0.0)
    tensors = [t.abs() if t.is_complex() else t for t in tensors]
    return _C.ops["_total_norm"](tensors, float(norm_type), error_if_nonfinite)


def clip_grads_with_norm_(parameters, max_norm, total_norm, foreach=None):
    """Scales the gradients in place so that a total norm above max_norm becomes max_norm."""
    grads = [g._values() if g.is_sparse else g for g in _grads(parameters)]
    grads = [_C.ops["view_as_real"](g.detach()) if g.is_complex() else g for g in grads]
    if grads:
        _C.ops["_clip_grads_with_norm_"](grads, float(max_norm), total_norm)


def clip_grad_norm_(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """Scales the gradients of the parameters in place to a total norm of at most max_norm; returns the norm before."""
    parameters = _listed(parameters)
    total = get_total_norm(_grads(parameters), norm_type, error_if_nonfinite)
    clip_grads_with_norm_(parameters, max_norm, total)
    return total


def clip_grad_value_(parameters, clip_value, foreach=None):
    """Limits each element of the gradients to [-clip_value, clip_value], in place."""
    clip_value = builtins.float(clip_value)
    with no_grad():
        for g in _grads(parameters):
            g.clamp_(min=-clip_value, max=clip_value)


def parameters_to_vector(parameters):
    """Concatenates the parameters to one vector."""
    return _C.ops["cat"]([p.reshape(-1) for p in parameters])


def vector_to_parameters(vec, parameters):
    """Makes the parameters views of a vector."""
    if not isinstance(vec, _C.Tensor):
        raise TypeError(f"expected strata.Tensor, but got: {type(vec).__name__}")
    at = 0
    for p in parameters:
        p.data = vec[at : at + p.numel()].view_as(p).data
        at += p.numel()


def skip_init(module_cls, *args, **kwargs):
    """module_cls(*args, **kwargs), whose parameters the caller is about to set."""
    return module_cls(*args, **kwargs)  # drawing initial values is cheaper than avoiding it
