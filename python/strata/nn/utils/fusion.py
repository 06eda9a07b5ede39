"""Batch norms in eval mode folded into the layer before them."""

import copy

from ... import _C
from ..parameter import Parameter

__all__ = ["fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"]
ops = _C.ops


def _scale_and_shift(bias, mean, var, eps, scale, shift):
    """The factor per output channel, and the bias after the norm."""
    bias = ops["zeros_like"](mean) if bias is None else bias
    scale = ops["ones_like"](mean) if scale is None else scale
    shift = ops["zeros_like"](mean) if shift is None else shift
    factor = scale * ops["rsqrt"](var + eps)
    return factor, (bias - mean) * factor + shift


def fuse_conv_bn_weights(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, transpose=False):
    """Weight and bias of a convolution with an eval-mode batch norm folded in."""
    factor, bias = _scale_and_shift(conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b)
    channels = [1, -1] if transpose else [-1, 1]
    weight = conv_w * factor.reshape(channels + [1] * (conv_w.dim() - 2))
    trained = (conv_w.requires_grad, conv_w.requires_grad if conv_b is None else conv_b.requires_grad)
    return (
        Parameter(weight.detach().to(conv_w.dtype), trained[0]),
        Parameter(bias.detach().to(conv_w.dtype if conv_b is None else conv_b.dtype), trained[1]),
    )


def fuse_linear_bn_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b):
    """Weight and bias of a linear layer with an eval-mode batch norm folded in."""
    return fuse_conv_bn_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b)


def _check_eval(layer, bn):
    if layer.training or bn.training:
        raise AssertionError("Fusion only for eval!")


def fuse_conv_bn_eval(conv, bn, transpose=False):
    """A copy of the convolution with the batch norm folded in; both must be in evaluation mode."""
    _check_eval(conv, bn)
    fused = copy.deepcopy(conv)
    fused.weight, fused.bias = fuse_conv_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias, transpose
    )
    return fused


def fuse_linear_bn_eval(linear, bn):
    """A copy of the linear layer with the batch norm folded in; both must be in evaluation mode."""
    _check_eval(linear, bn)
    fused = copy.deepcopy(linear)
    if linear.out_features != bn.num_features and bn.num_features != 1:
        raise AssertionError("To fuse, linear.out_features == bn.num_features or bn.num_features == 1")
    fused.weight, fused.bias = fuse_linear_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    )
    return fused
