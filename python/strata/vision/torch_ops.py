"""torch.ops.torchvision: the ops of torchvision's extension under its names and with its arguments.

They compute and differentiate by themselves. Shape rules and gradients that torchvision registers for them are accepted and
not needed.
"""

from .. import _C
from ..autograd import enable_grad, grad
from ..library._custom_op import BuiltInOp, publish

_ops = {name.removeprefix("vision.ops."): op for name, op in _C.ops.items() if name.startswith("vision.ops.")}


def nms(dets, scores, iou_threshold):
    """See vision.ops.nms."""
    return _ops["nms"](dets, scores, iou_threshold)


def roi_align(input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned):
    """See vision.ops.roi_align."""
    return _ops["roi_align"](input, rois, (pooled_height, pooled_width), spatial_scale, sampling_ratio, aligned)


def roi_pool(input, rois, spatial_scale, pooled_height, pooled_width):
    """(values, positions): see vision.ops.roi_pool."""
    return _ops["_roi_pool"](input, rois, (pooled_height, pooled_width), spatial_scale)


def ps_roi_align(input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio):
    """(values, channels): see vision.ops.ps_roi_align."""
    return _ops["_ps_roi_align"](input, rois, (pooled_height, pooled_width), spatial_scale, sampling_ratio)


def ps_roi_pool(input, rois, spatial_scale, pooled_height, pooled_width):
    """(values, channels): see vision.ops.ps_roi_pool."""
    return _ops["_ps_roi_pool"](input, rois, (pooled_height, pooled_width), spatial_scale)


def deform_conv2d(
    input,
    weight,
    offset,
    mask,
    bias,
    stride_h,
    stride_w,
    pad_h,
    pad_w,
    dilation_h,
    dilation_w,
    groups,
    offset_groups,
    use_mask,
):
    """See vision.ops.deform_conv2d. The numbers of groups follow from the shapes."""
    return _ops["deform_conv2d"](
        input,
        offset,
        weight,
        bias,
        (stride_h, stride_w),
        (pad_h, pad_w),
        (dilation_h, dilation_w),
        mask if use_mask else None,
    )


# --- gradients ----------------------------------------------------------------------------------------------------------


def _of_input(function, gradient, rois, sizes, *options):
    """The gradient of an op that is linear in its input, for an input of the given sizes."""
    with enable_grad():
        x = gradient.new_zeros(sizes, requires_grad=True)
        made = function(x, rois, *options)
    return grad(made[0] if isinstance(made, tuple) else made, x, gradient)[0]


def _roi_align_backward(grad, rois, spatial_scale, pooled_height, pooled_width, n, c, h, w, sampling_ratio, aligned):
    """The gradient of roi_align for its input."""
    return _of_input(
        roi_align, grad, rois, (n, c, h, w), spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned
    )


def _ps_roi_align_backward(
    grad, rois, channel_mapping, spatial_scale, pooled_height, pooled_width, sampling_ratio, n, c, h, w
):
    """The gradient of ps_roi_align for its input."""
    return _of_input(ps_roi_align, grad, rois, (n, c, h, w), spatial_scale, pooled_height, pooled_width, sampling_ratio)


def _ps_roi_pool_backward(grad, rois, channel_mapping, spatial_scale, pooled_height, pooled_width, n, c, h, w):
    """The gradient of ps_roi_pool for its input."""
    return _of_input(ps_roi_pool, grad, rois, (n, c, h, w), spatial_scale, pooled_height, pooled_width)


def _roi_pool_backward(grad, rois, argmax, spatial_scale, pooled_height, pooled_width, n, c, h, w):
    """The gradient of roi_pool for its input: each value's gradient at its position."""
    planes = grad.new_zeros((n, c, h * w + 1))  # the last position is for empty bins
    k = grad.size(0)
    image = rois[:, 0].long().view(k, 1, 1)
    channel = _C.ops["arange"](c, device=grad.device).view(1, c, 1)
    place = argmax.long().view(k, c, -1)
    place = place.masked_fill(place < 0, h * w)
    planes.index_put_((image, channel, place), grad.reshape(k, c, -1), accumulate=True)
    return planes[:, :, : h * w].reshape(n, c, h, w)


def _deform_conv2d_backward(gradient, input, weight, offset, mask, bias, *options):
    """The gradients of deform_conv2d for input, weight, offset, mask and bias."""
    use_mask = options[-1]
    given = [input, weight, offset, mask, bias]
    with enable_grad():
        leaves = [t.detach().requires_grad_() for t in given]
        made = deform_conv2d(*leaves, *options)
    wanted = [t for t in leaves if t is not leaves[3] or use_mask]
    found = iter(grad(made, wanted, gradient))
    return tuple(t.new_zeros(t.shape) if t is leaves[3] and not use_mask else next(found) for t in leaves)


# --- what is missing ------------------------------------------------------------------------------------------------------


def _cuda_version():
    """-1: these ops need no version of CUDA."""
    return -1


def _absent(name, why):
    def raises(*args, **kwargs):
        raise NotImplementedError(f"torch.ops.torchvision.{name} is not in this version of Strata: {why}")

    return raises


def add_ops():
    """Makes the ops available as strata.ops.torchvision.*"""
    functions = [nms, roi_align, roi_pool, ps_roi_align, ps_roi_pool, deform_conv2d, _cuda_version]
    functions += [_roi_align_backward, _roi_pool_backward, _ps_roi_align_backward, _ps_roi_pool_backward]
    functions += [_deform_conv2d_backward]
    for function in functions:
        publish(f"torchvision::{function.__name__}", BuiltInOp(f"torchvision::{function.__name__}", function))
    for name, why in {
        "qnms": "there are no quantized tensors",
        "qroi_align": "there are no quantized tensors",
        "box_iou_rotated": "only boxes parallel to the axes are supported",
    }.items():
        publish(f"torchvision::{name}", BuiltInOp(f"torchvision::{name}", _absent(name, why)))
