"""Ops on boxes and regions against plain loops over their definitions, on the CPU and a device."""

import math
import os

import numpy as np
import pytest
import strata
from strata.autograd import gradcheck, gradgradcheck
from strata.vision import ops

DEVICES = ["cpu", os.environ.get("STRATA_TEST_DEVICE", "vgpu")]


def random_boxes(rng, n, size=30.0):
    corner = rng.uniform(0, size, (n, 2))
    return np.concatenate([corner, corner + rng.uniform(1, size / 2, (n, 2))], 1)


def iou(a, b):
    w = max(0.0, min(a[2], b[2]) - max(a[0], b[0]))
    h = max(0.0, min(a[3], b[3]) - max(a[1], b[1]))
    union = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - w * h
    return w * h / union


def greedy(boxes, scores, threshold):
    kept = []
    for i in np.argsort(-scores, kind="stable"):
        if all(iou(boxes[i], boxes[j]) <= threshold for j in kept):
            kept.append(int(i))
    return kept


@pytest.mark.parametrize("device", DEVICES)
def test_nms_keeps_what_a_greedy_loop_keeps(device):
    rng = np.random.default_rng(0)
    for n, threshold in [(0, 0.5), (1, 0.5), (60, 0.1), (60, 0.4), (60, 0.9)]:
        boxes, scores = random_boxes(rng, n), rng.uniform(size=n)
        scores[: n // 3] = 0.5  # equal scores keep their order
        got = ops.nms(strata.tensor(boxes).to(device), strata.tensor(scores).to(device), threshold)
        assert got.device.type == device and got.dtype is strata.int64
        assert got.tolist() == greedy(boxes, scores, threshold)


@pytest.mark.parametrize("device", DEVICES)
def test_a_chain_of_boxes_that_drop_each_other(device):
    boxes = strata.tensor([[float(i), 0.0, i + 4.0, 1.0] for i in range(40)]).to(device)
    scores = strata.arange(40.0, 0.0, -1.0).to(device)
    assert ops.nms(boxes, scores, 0.5).tolist() == list(range(0, 40, 2))  # a neighbour overlaps by 3 / 5


def test_box_functions():
    rng = np.random.default_rng(1)
    a, b = random_boxes(rng, 5), random_boxes(rng, 3)
    want = [[iou(x, y) for y in b] for x in a]
    np.testing.assert_allclose(ops.box_iou(strata.tensor(a), strata.tensor(b)).numpy(), want, rtol=1e-12)
    boxes = strata.tensor(a)
    for form in ("xyxy", "xywh", "cxcywh"):
        there = ops.box_convert(boxes, "xyxy", form)
        np.testing.assert_allclose(ops.box_convert(there, form, "xyxy").numpy(), a)
    np.testing.assert_allclose(ops.box_area(boxes).numpy(), (a[:, 2] - a[:, 0]) * (a[:, 3] - a[:, 1]))
    np.testing.assert_allclose(ops.clip_boxes_to_image(boxes, (20, 10)).numpy(), np.clip(a, 0, [10, 20, 10, 20]))
    assert ops.remove_small_boxes(strata.tensor([[0.0, 0, 5, 5], [0, 0, 1, 9]]), 2).tolist() == [0]
    same = strata.tensor([[0.0, 0, 4, 4], [0, 0, 4, 4], [0, 0, 4, 4]])
    assert ops.batched_nms(same, strata.tensor([1.0, 3.0, 2.0]), strata.tensor([0, 0, 1]), 0.5).tolist() == [1, 2]
    with pytest.raises(ValueError, match="expected xyxy, xywh or cxcywh"):
        ops.box_convert(boxes, "xyxy", "x")


# --- regions ---------------------------------------------------------------------------------------------------------


def interpolate(image, y, x):
    """A bilinear sample of [C, H, W] with the border rule of roi_align."""
    c, h, w = image.shape
    if y < -1 or y > h or x < -1 or x > w:
        return np.zeros(c)
    y, x = max(y, 0.0), max(x, 0.0)
    y0, x0 = min(int(y), h - 1), min(int(x), w - 1)
    y1, x1 = min(y0 + 1, h - 1), min(x0 + 1, w - 1)
    fy, fx = (y - y0 if y1 > y0 else 0.0), (x - x0 if x1 > x0 else 0.0)
    top = image[:, y0, x0] * (1 - fx) + image[:, y0, x1] * fx
    bottom = image[:, y1, x0] * (1 - fx) + image[:, y1, x1] * fx
    return top * (1 - fy) + bottom * fy


def align_loop(image, rois, size, scale, ratio, offset, at_least_one, channel=lambda c, i, j: c, channels=None):
    ph, pw = size
    out = np.zeros((len(rois), channels or image.shape[1], ph, pw))
    for k, (n, *box) in enumerate(rois):
        x1, y1, x2, y2 = (v * scale - offset for v in box)
        h, w = y2 - y1, x2 - x1
        if at_least_one:
            h, w = max(h, 1.0), max(w, 1.0)
        gy = ratio if ratio > 0 else max(0, math.ceil(h / ph))
        gx = ratio if ratio > 0 else max(0, math.ceil(w / pw))
        for i in range(ph):
            for j in range(pw):
                total = np.zeros(image.shape[1])
                for a in range(gy):
                    for b in range(gx):
                        y = y1 + i * h / ph + (a + 0.5) * h / ph / gy
                        x = x1 + j * w / pw + (b + 0.5) * w / pw / gx
                        total += interpolate(image[int(n)], y, x)
                for c in range(out.shape[1]):
                    out[k, c, i, j] = total[channel(c, i, j)] / max(gy * gx, 1)
    return out


def inputs(rng, channels=3, k=5):
    image = rng.normal(size=(2, channels, 9, 11))
    rois = np.concatenate([rng.integers(0, 2, (k, 1)), random_boxes(rng, k, 18.0) - 3], 1)
    return image, rois


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("ratio, aligned", [(-1, False), (-1, True), (2, False), (3, True)])
def test_roi_align(device, ratio, aligned):
    image, rois = inputs(np.random.default_rng(2))
    want = align_loop(image, rois, (3, 2), 0.6, ratio, 0.5 if aligned else 0.0, not aligned)
    x, r = strata.tensor(image).to(device), strata.tensor(rois).to(device)
    np.testing.assert_allclose(ops.roi_align(x, r, (3, 2), 0.6, ratio, aligned).cpu().numpy(), want, atol=1e-12)
    low = ops.roi_align(x.to(strata.float32), r.to(strata.float32), (3, 2), 0.6, ratio, aligned)
    np.testing.assert_allclose(low.cpu().numpy(), want, atol=1e-4)
    per_image = [r[r[:, 0] == n][:, 1:] for n in (0, 1)]
    order = strata.cat([(r[:, 0] == n).nonzero().flatten() for n in (0, 1)])
    listed = ops.roi_align(x, per_image, (3, 2), 0.6, ratio, aligned)
    np.testing.assert_allclose(listed.cpu().numpy(), want[order.cpu().numpy()], atol=1e-12)


@pytest.mark.parametrize("device", DEVICES)
def test_position_sensitive_regions(device):
    image, rois = inputs(np.random.default_rng(3), channels=12)
    x, r = strata.tensor(image).to(device), strata.tensor(rois).to(device)
    want = align_loop(image, rois, (2, 3), 0.6, 2, 0.5, False, lambda c, i, j: c * 6 + i * 3 + j, 2)
    np.testing.assert_allclose(ops.ps_roi_align(x, r, (2, 3), 0.6, 2).cpu().numpy(), want, atol=1e-12)
    want = np.zeros((len(rois), 2, 2, 3))
    for k, i, j in np.ndindex(len(rois), 2, 3):
        x1, y1, x2, y2 = (math.copysign(math.floor(abs(v * 0.6) + 0.5), v) for v in rois[k, 1:])
        h, w = max(y2 - y1, 1) / 2, max(x2 - x1, 1) / 3
        ys = [int(min(max(v + y1, 0), 8)) for v in (math.floor(i * h), math.ceil((i + 1) * h))]
        xs = [int(min(max(v + x1, 0), 10)) for v in (math.floor(j * w), math.ceil((j + 1) * w))]
        for c in range(2):
            part = image[int(rois[k, 0]), c * 6 + i * 3 + j, ys[0] : ys[1], xs[0] : xs[1]]
            want[k, c, i, j] = part.mean() if part.size else 0
    np.testing.assert_allclose(ops.ps_roi_pool(x, r, (2, 3), 0.6).cpu().numpy(), want, atol=1e-12)


@pytest.mark.parametrize("device", DEVICES)
def test_roi_pool(device):
    image, rois = inputs(np.random.default_rng(4))
    rois[0, 1:] = [-40, -40, -30, -30]  # outside: empty bins
    want, places = np.zeros((len(rois), 3, 3, 2)), np.full((len(rois), 3, 3, 2), -1)
    for k, c, i, j in np.ndindex(want.shape):
        x1, y1, x2, y2 = (math.copysign(math.floor(abs(v * 0.6) + 0.5), v) for v in rois[k, 1:])
        h, w = max(y2 - y1 + 1, 1) / 3, max(x2 - x1 + 1, 1) / 2
        ys = [int(min(max(v + y1, 0), 9)) for v in (math.floor(i * h), math.ceil((i + 1) * h))]
        xs = [int(min(max(v + x1, 0), 11)) for v in (math.floor(j * w), math.ceil((j + 1) * w))]
        part = image[int(rois[k, 0]), c, ys[0] : ys[1], xs[0] : xs[1]]
        if part.size:
            y, x = np.unravel_index(part.argmax(), part.shape)
            want[k, c, i, j], places[k, c, i, j] = part.max(), (ys[0] + y) * 11 + xs[0] + x
    x, r = strata.tensor(image).to(device), strata.tensor(rois).to(device)
    np.testing.assert_allclose(ops.roi_pool(x, r, (3, 2), 0.6).cpu().numpy(), want)
    both = strata.ops.torchvision.roi_pool(x, r, 0.6, 3, 2)
    assert both[1].dtype is strata.int32
    np.testing.assert_array_equal(both[1].cpu().numpy(), places)


def test_no_regions_and_bad_ones():
    x = strata.randn(1, 2, 4, 4, requires_grad=True)
    none = ops.roi_align(x, strata.zeros(0, 5), 2)
    assert none.shape == (0, 2, 2, 2)
    none.sum().backward()
    assert x.grad.abs().sum() == 0 and ops.roi_pool(x, [strata.zeros(0, 4)], 2).shape == (0, 2, 2, 2)
    assert ops.roi_align(x.to("meta"), strata.zeros(3, 5, device="meta"), (2, 3)).shape == (3, 2, 2, 3)
    with pytest.raises(IndexError, match="out of range"):
        ops.roi_align(x, strata.tensor([[7.0, 0, 0, 2, 2]]), 2)
    with pytest.raises(ValueError, match="item 1 is"):
        ops.roi_align(x, [strata.zeros(1, 4), strata.zeros(1, 5)], 2)
    with pytest.raises(NotImplementedError, match="depends on the values"):
        ops.nms(strata.zeros(3, 4, device="meta"), strata.zeros(3, device="meta"), 0.5)


# --- deformable convolution -------------------------------------------------------------------------------------------


def deform_loop(image, offset, weight, stride, padding, dilation, mask):
    n, c, h, w = image.shape
    o, per, kh, kw = weight.shape
    oh, ow = offset.shape[2:]
    groups, og = c // per, offset.shape[1] // (2 * kh * kw)
    out = np.zeros((n, o, oh, ow))

    def at(b, ch, y, x):
        total, y0, x0 = 0.0, math.floor(y), math.floor(x)
        for yy, wy in ((y0, 1 - (y - y0)), (y0 + 1, y - y0)):
            for xx, wx in ((x0, 1 - (x - x0)), (x0 + 1, x - x0)):
                if 0 <= yy < h and 0 <= xx < w:
                    total += wy * wx * image[b, ch, yy, xx]
        return total

    for b, k, i, j in np.ndindex(out.shape):
        for ch, u, v in np.ndindex(per, kh, kw):
            channel = k // (o // groups) * per + ch
            tap = channel // (c // og) * kh * kw + u * kw + v
            y = i * stride - padding + u * dilation + offset[b, 2 * tap, i, j]
            x = j * stride - padding + v * dilation + offset[b, 2 * tap + 1, i, j]
            out[b, k, i, j] += weight[k, ch, u, v] * at(b, channel, y, x) * (1 if mask is None else mask[b, tap, i, j])
    return out


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("stride, padding, dilation, masked", [(1, 1, 1, False), (2, 0, 1, True), (1, 2, 2, True)])
def test_deform_conv2d(device, stride, padding, dilation, masked):
    rng = np.random.default_rng(5)
    image, weight = rng.normal(size=(2, 4, 6, 7)), rng.normal(size=(6, 2, 3, 3))
    oh, ow = ((s + 2 * padding - dilation * 2 - 1) // stride + 1 for s in (6, 7))
    offset = rng.normal(size=(2, 36, oh, ow)) * 2
    mask = rng.uniform(size=(2, 18, oh, ow)) if masked else None
    want = deform_loop(image, offset, weight, stride, padding, dilation, mask) + np.arange(6.0).reshape(6, 1, 1)
    x, o, w = (strata.tensor(t).to(device) for t in (image, offset, weight))
    bias = strata.arange(6.0, dtype=strata.float64).to(device)
    m = None if mask is None else strata.tensor(mask).to(device)
    got = ops.deform_conv2d(x, o, w, bias, stride, padding, dilation, m)
    np.testing.assert_allclose(got.cpu().numpy(), want, atol=1e-10)


def test_gradients():
    rng = np.random.default_rng(6)
    image, rois = inputs(rng, k=3)
    x = strata.tensor(image[:, :2, :5, :5], requires_grad=True)
    r = strata.tensor(rois)
    for call in (
        lambda x: ops.roi_align(x, r, 2, 0.4, 2),
        lambda x: ops.roi_align(x, r, (1, 2), 0.4, -1, True),
        lambda x: ops.ps_roi_align(x, r, (1, 2), 0.4),
        lambda x: ops.ps_roi_pool(x, r, (2, 1), 0.4),
        lambda x: ops.roi_pool(x, r, 2, 0.4),
    ):
        assert gradcheck(call, (x,)) and gradgradcheck(call, (x,))
    offset = strata.tensor(rng.normal(size=(2, 8, 4, 4)), requires_grad=True)
    weight = strata.tensor(rng.normal(size=(2, 2, 2, 2)), requires_grad=True)
    mask = strata.tensor(rng.uniform(size=(2, 4, 4, 4)), requires_grad=True)
    assert gradcheck(lambda *t: ops.deform_conv2d(t[0], t[1], t[2], mask=t[3]), (x, offset, weight, mask))


def test_modules():
    x = strata.randn(1, 4, 8, 8)
    boxes = [strata.tensor([[0.0, 0.0, 6.0, 6.0]])]
    assert ops.RoIAlign(3, 1.0, 2)(x, boxes).shape == (1, 4, 3, 3)
    assert ops.RoIPool((3, 2), 1.0)(x, boxes).shape == (1, 4, 3, 2)
    conv = ops.DeformConv2d(4, 6, 3, padding=1, groups=2)
    plain = strata.nn.functional.conv2d(x, conv.weight, conv.bias, padding=1, groups=2)
    strata.testing.assert_close(conv(x, strata.zeros(1, 18, 8, 8)), plain, rtol=1e-4, atol=1e-5)


# --- torch.ops.torchvision -----------------------------------------------------------------------------------------------


def test_the_gradients_of_torchvisions_extension():
    rng = np.random.default_rng(7)
    image, rois = inputs(rng, channels=6)
    x, r = strata.tensor(image, requires_grad=True), strata.tensor(rois)
    space = strata.ops.torchvision
    sizes = (2, 6, 9, 11)
    for forward, backward in (
        (
            lambda: space.roi_align(x, r, 0.6, 2, 3, 2, True),
            lambda g, _: space._roi_align_backward(g, r, 0.6, 2, 3, *sizes, 2, True),
        ),
        (
            lambda: space.ps_roi_align(x, r, 0.6, 2, 3, 2),
            lambda g, c: space._ps_roi_align_backward(g, r, c, 0.6, 2, 3, 2, *sizes),
        ),
        (
            lambda: space.ps_roi_pool(x, r, 0.6, 2, 3),
            lambda g, c: space._ps_roi_pool_backward(g, r, c, 0.6, 2, 3, *sizes),
        ),
        (lambda: space.roi_pool(x, r, 0.6, 2, 3), lambda g, c: space._roi_pool_backward(g, r, c, 0.6, 2, 3, *sizes)),
    ):
        made = forward()
        out, extra = made if isinstance(made, tuple) else (made, None)
        g = strata.randn(out.shape, dtype=strata.float64)
        (want,) = strata.autograd.grad(out, x, g)
        np.testing.assert_allclose(backward(g, extra).numpy(), want.numpy(), atol=1e-12)
    weight = strata.randn(2, 6, 3, 3, dtype=strata.float64, requires_grad=True)
    offset = strata.randn(2, 18, 7, 9, dtype=strata.float64, requires_grad=True)
    bias, mask = strata.zeros(2, dtype=strata.float64, requires_grad=True), strata.zeros(2, 1, dtype=strata.float64)
    options = (1, 1, 0, 0, 1, 1, 1, 1, False)
    out = space.deform_conv2d(x, weight, offset, mask, bias, *options)
    g = strata.randn(out.shape, dtype=strata.float64)
    want = strata.autograd.grad(out, (x, weight, offset, bias), g)
    got = space._deform_conv2d_backward(g, x, weight, offset, mask, bias, *options)
    for a, b in zip(want, (got[0], got[1], got[2], got[4]), strict=True):
        np.testing.assert_allclose(b.numpy(), a.numpy(), atol=1e-10)
    assert got[3].shape == mask.shape


def test_a_package_may_register_rules_for_built_in_ops(tmp_path):
    library = strata.library.Library("torchvision", "IMPL", "Meta")
    op = strata.ops.torchvision.nms
    assert op.default is op and op.overloads() == ["default"] and strata.ops.torchvision._cuda_version() == -1
    library.impl(op, len)
    library.impl("nms", len, "AutocastCPU")
    assert strata.library.register_fake("torchvision::nms")(len) is len
    strata.library.register_autograd("torchvision::roi_align", len, setup_context=len)
    assert op(strata.zeros(1, 4), strata.zeros(1), 0.5).tolist() == [0]
    with pytest.raises(NotImplementedError, match="no quantized tensors"):
        strata.ops.torchvision.qnms()
    (tmp_path / "torchvision").mkdir()
    for name in ("_C.so", "image.so"):
        (tmp_path / "torchvision" / name).write_bytes(b"not a library")
    strata.ops.load_library(str(tmp_path / "torchvision" / "_C.so"))  # built for PyTorch, and not needed
    with pytest.raises(OSError):
        strata.ops.load_library(str(tmp_path / "torchvision" / "image.so"))
