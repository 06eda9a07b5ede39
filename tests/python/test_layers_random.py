"""Convolutions, norms and interpolation on random shapes and layouts, with many sizes of 1, compared with the plain kernels in float64."""

import random

import numpy as np
import pytest
import strata
from layouts import LAYOUTS, laid_out
from records import reference_kernels
from strata.nn import functional as F

DEVICES = ["cpu", "vgpu"]


def size(rng):
    return rng.choice([1, 1, 2, 3, 5, rng.randint(1, 8)])


def values(rng, *shape):
    return np.random.default_rng(rng.randrange(2**31)).integers(-4, 5, shape) / 2


def gradients(f, arrays, layouts, dtype, device, channels):
    """The result of f and the gradients of all its arguments, as NumPy arrays."""
    inputs = [
        laid_out(a, layout, c, dtype).to(device).requires_grad_()
        for a, layout, c in zip(arrays, layouts, channels, strict=True)
    ]
    y = f(*inputs)
    g = np.random.default_rng(3).integers(-3, 4, tuple(y.shape)) / 2
    layout = layouts[0] if y.dim() > 2 else "contiguous"
    y.backward(laid_out(g, layout, 1 if y.dim() > 2 else 0, dtype).to(device))
    return [y.detach().cpu().numpy()] + [t.grad.cpu().numpy() for t in inputs]


def compare(f, arrays, rng, device, what, channels=None):
    channels = channels or [1] * len(arrays)
    layouts = [rng.choice(LAYOUTS) for _ in arrays]
    got = gradients(f, arrays, layouts, strata.float32, device, channels)
    with reference_kernels():
        want = gradients(f, arrays, ["contiguous"] * len(arrays), strata.float64, "cpu", channels)
    for a, b in zip(got, want, strict=True):
        assert a.shape == b.shape, what
        scale = max(1.0, np.abs(b).max(initial=0))
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5 * scale, err_msg=f"{what} {layouts}")


def count(device):
    return range(120 if device == "cpu" else 25)


@pytest.mark.parametrize("device", DEVICES)
def test_convolutions(device):
    for seed in count(device):
        rng = random.Random(seed)
        dims, groups = rng.randint(1, 3), rng.choice([1, 1, 2])
        kernel = [rng.choice([1, 2, 3]) for _ in range(dims)]
        options = {
            "stride": [rng.randint(1, 2) for _ in range(dims)],
            "padding": [rng.randint(0, 2) for _ in range(dims)],
            "dilation": [rng.randint(1, 2) for _ in range(dims)],
            "groups": groups,
        }
        inputs, outputs = groups * rng.choice([1, 2, 3]), groups * rng.choice([1, 2, 16])
        image = [
            max(size(rng), d * (k - 1) + 1 - 2 * p)
            for k, p, d in zip(kernel, options["padding"], options["dilation"], strict=True)
        ]
        transposed = rng.random() < 0.3
        if transposed:
            image = [n + 2 * p for n, p in zip(image, options["padding"], strict=True)]
        weight = (inputs, outputs // groups, *kernel) if transposed else (outputs, inputs // groups, *kernel)
        arrays = [values(rng, rng.randint(1, 2), inputs, *image), values(rng, *weight), values(rng, outputs)]
        f = getattr(F, f"conv_transpose{dims}d" if transposed else f"conv{dims}d")
        compare(
            lambda x, w, b, f=f, o=options: f(x, w, b, **o),
            arrays,
            rng,
            device,
            f"{f} {[a.shape for a in arrays]} {options}",
        )


@pytest.mark.parametrize("device", DEVICES)
def test_norms(device):
    for seed in count(device):
        rng = random.Random(seed)
        n, c = rng.randint(1, 3), 2 * rng.randint(1, 3)
        image = [size(rng) for _ in range(rng.randint(0, 3))]
        x, w, b = values(rng, n, c, *image), values(rng, c), values(rng, c)
        running = values(rng, c), np.abs(values(rng, c)) + 0.5
        kind = rng.choice(["train", "eval", "instance", "group", "layer"])
        if kind == "train" and n * np.prod(image) == 1 or kind == "instance" and np.prod(image) == 1:
            continue
        if kind == "layer":
            w, b = values(rng, *x.shape[1:]), values(rng, *x.shape[1:])

        def norm(x, w, b, kind=kind, running=running):
            def given(a):
                return strata.tensor(a.tolist(), dtype=x.dtype, device=x.device)

            if kind == "train":
                return F.batch_norm(x, None, None, w, b, True)
            if kind == "eval":
                return F.batch_norm(x, given(running[0]), given(running[1]), w, b, False)
            if kind == "instance":
                return F.instance_norm(x, None, None, w, b)
            return F.group_norm(x, 2, w, b) if kind == "group" else F.layer_norm(x, w.shape, w, b)

        compare(norm, [x, w, b], rng, device, f"{kind} {x.shape}", [1, 0, 0])


@pytest.mark.parametrize("device", DEVICES)
def test_interpolation(device):
    modes = {
        1: ["nearest", "nearest-exact", "linear", "area"],
        2: ["nearest", "nearest-exact", "bilinear", "bicubic", "area"],
        3: ["nearest", "nearest-exact", "trilinear", "area"],
    }
    for seed in count(device):
        rng = random.Random(seed)
        dims = rng.randint(1, 3)
        mode, target = rng.choice(modes[dims]), [size(rng) for _ in range(dims)]
        corners = rng.random() < 0.5 if "linear" in mode or mode == "bicubic" else None
        x = values(rng, rng.randint(1, 2), rng.choice([1, 2, 5]), *(size(rng) for _ in range(dims)))
        compare(
            lambda x, t=target, m=mode, a=corners: F.interpolate(x, t, mode=m, align_corners=a),
            [x],
            rng,
            device,
            f"{mode} {corners} {x.shape} -> {target}",
        )
