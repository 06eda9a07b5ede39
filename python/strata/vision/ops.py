"""Ops on boxes and regions of images, under the names of torchvision.ops."""

from .. import _C
from ..nn import init
from ..nn.module import Module
from ..nn.parameter import Parameter

nms, box_iou, deform_conv2d = (_C.ops[f"vision.ops.{name}"] for name in ("nms", "box_iou", "deform_conv2d"))

__all__ = [
    "DeformConv2d",
    "RoIAlign",
    "RoIPool",
    "batched_nms",
    "box_area",
    "box_convert",
    "box_iou",
    "clip_boxes_to_image",
    "deform_conv2d",
    "nms",
    "ps_roi_align",
    "ps_roi_pool",
    "remove_small_boxes",
    "roi_align",
    "roi_pool",
]


def _rows(boxes):
    """Regions as one tensor [K, 5]; a list has the boxes [L, 4] of each image."""
    if isinstance(boxes, _C.Tensor):
        return boxes
    for i, b in enumerate(boxes):
        if not isinstance(b, _C.Tensor) or b.dim() != 2 or b.size(1) != 4:
            found = list(b.shape) if isinstance(b, _C.Tensor) else type(b).__name__
            raise ValueError(f"expected a list of boxes [L, 4], one tensor for each image; item {i} is {found}")
    numbered = [_C.ops["cat"]([b.new_full((len(b), 1), i), b], 1) for i, b in enumerate(boxes)]
    if not numbered:
        raise ValueError("expected boxes of at least one image, found an empty list")
    return _C.ops["cat"](numbered)


def roi_align(input, boxes, output_size, spatial_scale=1.0, sampling_ratio=-1, aligned=False):
    """Averages of interpolated samples in each bin of each region: [K, C, *output_size].

    boxes: a tensor of rows [image, x1, y1, x2, y2], or a list with the boxes [x1, y1, x2, y2] of each image.

    >>> image = strata.arange(16.0).reshape(1, 1, 4, 4)
    >>> strata.vision.ops.roi_align(image, [strata.tensor([[0.0, 0.0, 2.0, 2.0]])], 1, aligned=True).item()
    2.5
    """
    return _C.ops["vision.ops.roi_align"](input, _rows(boxes), output_size, spatial_scale, sampling_ratio, aligned)


def roi_pool(input, boxes, output_size, spatial_scale=1.0):
    """The largest pixel in each bin of each region."""
    return _C.ops["vision.ops._roi_pool"](input, _rows(boxes), output_size, spatial_scale)[0]


def ps_roi_align(input, boxes, output_size, spatial_scale=1.0, sampling_ratio=-1):
    """roi_align in which each bin has its own channels."""
    return _C.ops["vision.ops._ps_roi_align"](input, _rows(boxes), output_size, spatial_scale, sampling_ratio)[0]


def ps_roi_pool(input, boxes, output_size, spatial_scale=1.0):
    """Averages of the pixels in each bin of each region; each bin has its own channels."""
    return _C.ops["vision.ops._ps_roi_pool"](input, _rows(boxes), output_size, spatial_scale)[0]


def batched_nms(boxes, scores, idxs, iou_threshold):
    """nms() within each group of boxes that idxs numbers: boxes of different groups do not drop each other."""
    if boxes.numel() == 0:
        return _C.ops["empty"](0, dtype=_C.int64, device=boxes.device)
    apart = idxs.to(boxes) * (boxes.max() + 1)
    return nms(boxes + apart[:, None], scores, iou_threshold)


def box_area(boxes):
    """The areas of boxes [x1, y1, x2, y2]."""
    return (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])


def box_convert(boxes, in_fmt, out_fmt):
    """Boxes in another form: "xyxy" are corners, "xywh" a corner and sizes, "cxcywh" the center and sizes."""
    for form in (in_fmt, out_fmt):
        if form not in ("xyxy", "xywh", "cxcywh"):
            raise ValueError(f"box_convert: found format {form!r}, expected xyxy, xywh or cxcywh")
    a, b, c, d = boxes.unbind(-1)
    if in_fmt == "xywh":
        a, b, c, d = a, b, a + c, b + d
    elif in_fmt == "cxcywh":
        a, b, c, d = a - c / 2, b - d / 2, a + c / 2, b + d / 2
    if out_fmt == "xywh":
        a, b, c, d = a, b, c - a, d - b
    elif out_fmt == "cxcywh":
        a, b, c, d = (a + c) / 2, (b + d) / 2, c - a, d - b
    return _C.ops["stack"]([a, b, c, d], -1)


def clip_boxes_to_image(boxes, size):
    """Boxes limited to an image of size (height, width)."""
    height, width = size
    x, y = boxes[..., 0::2].clamp(0, width), boxes[..., 1::2].clamp(0, height)
    return _C.ops["stack"]([x, y], -1).reshape(boxes.shape)


def remove_small_boxes(boxes, min_size):
    """The indices of the boxes whose sides are at least min_size."""
    keep = (boxes[:, 2] - boxes[:, 0] >= min_size) & (boxes[:, 3] - boxes[:, 1] >= min_size)
    return keep.nonzero().squeeze(1)


class RoIAlign(Module):
    """See roi_align."""

    def __init__(self, output_size, spatial_scale, sampling_ratio, aligned=False):
        super().__init__()
        self.output_size, self.spatial_scale = output_size, spatial_scale
        self.sampling_ratio, self.aligned = sampling_ratio, aligned

    def forward(self, input, rois):
        return roi_align(input, rois, self.output_size, self.spatial_scale, self.sampling_ratio, self.aligned)


class RoIPool(Module):
    """See roi_pool."""

    def __init__(self, output_size, spatial_scale):
        super().__init__()
        self.output_size, self.spatial_scale = output_size, spatial_scale

    def forward(self, input, rois):
        return roi_pool(input, rois, self.output_size, self.spatial_scale)


class DeformConv2d(Module):
    """A convolution whose taps are moved by offsets: see deform_conv2d."""

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True):
        super().__init__()
        if in_channels % groups or out_channels % groups:
            raise ValueError(
                f"in_channels {in_channels} and out_channels {out_channels} must be divisible by groups {groups}"
            )
        kernel = (kernel_size, kernel_size) if isinstance(kernel_size, int) else tuple(kernel_size)
        self.in_channels, self.out_channels, self.kernel_size = in_channels, out_channels, kernel
        self.stride, self.padding, self.dilation, self.groups = stride, padding, dilation, groups
        self.weight = Parameter(_C.ops["empty"](out_channels, in_channels // groups, *kernel))
        self.bias = Parameter(_C.ops["empty"](out_channels)) if bias else None
        self.reset_parameters()

    def reset_parameters(self):
        """Uniform numbers, as in a convolution."""
        init.kaiming_uniform_(self.weight, a=5**0.5)
        if self.bias is not None:
            bound = self.weight[0].numel() ** -0.5
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input, offset, mask=None):
        return deform_conv2d(input, offset, self.weight, self.bias, self.stride, self.padding, self.dilation, mask)
