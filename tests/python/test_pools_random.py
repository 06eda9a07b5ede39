"""Every pool on random shapes, layouts and options, compared with plain loops over windows: values, indices, gradients."""

import random

import numpy as np
import pool_references as reference
import pytest
import strata
from layouts import LAYOUTS, laid_out
from strata.nn import functional as F

DEVICES = ["cpu", "vgpu"]


def each(rng, dims, low, high):
    """One number for all dimensions, or one for each."""
    return [rng.randint(low, high)] * dims if rng.random() < 0.5 else [rng.randint(low, high) for _ in range(dims)]


class Case:
    """An input in some layout, a gradient, and what a pool and its reference give."""

    def __init__(self, seed, device, positive=False, smallest=1):
        self.rng = rng = random.Random(seed)
        self.dims = rng.randint(1, 3)
        self.image = tuple(rng.choice([1, 1, 2, 3, 5, 7, rng.randint(1, 9)]) for _ in range(self.dims))
        self.image = tuple(max(n, smallest) for n in self.image)
        self.lead = (rng.randint(1, 3), rng.choice([1, 2, 5])) if rng.random() < 0.7 else (rng.choice([1, 2, 5]),)
        shape = self.lead + self.image
        numbers = np.random.default_rng(seed)
        ties = rng.random() < 0.4
        self.values = numbers.integers(-2, 3, shape) if ties else numbers.permutation(np.prod(shape)).reshape(shape)
        self.values = np.abs(self.values) + 1.0 if positive else self.values.astype("float64")
        self.layout, self.device = rng.choice(LAYOUTS), device
        x = laid_out(self.values, self.layout, len(self.lead) - 1)
        self.x = (x if device == "cpu" else x.to(device)).requires_grad_()
        self.what = f"{shape} {self.layout}"

    def compare(self, pool, sizes, spans, choose, places=None, tolerance=0.0):
        y = pool(self.x)
        y, found = y if isinstance(y, tuple) else (y, None)
        assert tuple(y.shape) == self.lead + tuple(sizes), self.what
        g = np.random.default_rng(1).integers(-3, 4, tuple(y.shape)).astype("float64")
        planes = self.values.reshape(-1, *self.image)
        want, want_grad = reference.run(planes, sizes, spans, g.reshape(len(planes), *sizes), choose)
        # A layout of its own for the gradient that arrives.
        layout = self.rng.choice(LAYOUTS)
        y.backward(laid_out(g, layout, len(self.lead) - 1).to(self.device))
        scale = tolerance * max(1.0, np.abs(want).max(initial=0), np.abs(want_grad).max(initial=0))
        np.testing.assert_allclose(
            y.detach().cpu().numpy().reshape(want.shape), want, rtol=tolerance, atol=scale, err_msg=self.what
        )
        np.testing.assert_allclose(
            self.x.grad.cpu().numpy().reshape(want_grad.shape), want_grad, rtol=tolerance, atol=scale, err_msg=self.what
        )
        if found is not None:
            order = np.asarray(places).reshape(len(spans), len(planes)).T
            assert np.array_equal(found.cpu().numpy().reshape(order.shape), order), self.what


def options(case, dilated):
    rng, dims = case.rng, case.dims
    kernel = each(rng, dims, 1, 3)
    stride, padding = each(rng, dims, 1, 3), [rng.randint(0, k // 2) for k in kernel]
    dilation = each(rng, dims, 1, 2) if dilated else [1] * dims
    ceil = rng.random() < 0.4
    fits = all(n + 2 * p >= d * (k - 1) + 1 for n, k, p, d in zip(case.image, kernel, padding, dilation, strict=True))
    return (kernel, stride, padding, dilation, ceil) if fits else None


def count(device):
    return range(220 if device == "cpu" else 40)


@pytest.mark.parametrize("device", DEVICES)
def test_max_pools(device):
    for seed in count(device):
        case = Case(seed, device)
        if (o := options(case, True)) is None:
            continue
        kernel, stride, padding, dilation, ceil = o
        sizes, spans = reference.sliding(case.image, kernel, stride, padding, dilation, ceil)
        if not all(reference.inside(span, case.image) for span in spans):
            continue  # a dilated window that has all its elements in the padding
        indices, places = case.rng.random() < 0.4, []
        case.what += f" {o}"
        pool = getattr(F, f"max_pool{case.dims}d")
        case.compare(
            lambda x, f=pool, o=o, i=indices: f(x, o[0], o[1], o[2], o[3], ceil_mode=o[4], return_indices=i),
            sizes,
            spans,
            reference.largest(places),
            places,
        )


@pytest.mark.parametrize("device", DEVICES)
def test_average_pools(device):
    for seed in count(device):
        case = Case(seed, device)
        if (o := options(case, False)) is None:
            continue
        kernel, stride, padding, dilation, ceil = o
        include = case.rng.random() < 0.5
        divisor = case.rng.choice([None, None, 3]) if case.dims > 1 else None
        extra = {"divisor_override": divisor} if case.dims > 1 else {}
        case.what += f" {o} {include} {divisor}"
        pool = getattr(F, f"avg_pool{case.dims}d")
        case.compare(
            lambda x, f=pool, o=o, i=include, e=extra: f(x, o[0], o[1], o[2], o[4], i, **e),
            *reference.sliding(case.image, kernel, stride, padding, dilation, ceil),
            reference.mean(case.image, padding, include, divisor),
            tolerance=3e-7,
        )


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", ["max", "avg"])
def test_adaptive_pools(kind, device):
    for seed in count(device):
        case = Case(seed, device)
        sizes = each(case.rng, case.dims, 1, 4)
        case.what += f" {sizes}"
        places = []
        pool = getattr(F, f"adaptive_{kind}_pool{case.dims}d")
        indices = kind == "max" and case.rng.random() < 0.5
        case.compare(
            lambda x, f=pool, s=sizes, e=(True,) if indices else (): f(x, s if len(s) > 1 else s[0], *e),
            *reference.adaptive(case.image, sizes),
            reference.largest(places) if kind == "max" else reference.mean(case.image, [0] * case.dims, False, None),
            places,
            tolerance=0 if kind == "max" else 3e-7,
        )


@pytest.mark.parametrize("device", DEVICES)
def test_power_pools(device):
    for seed in count(device):
        case = Case(seed, device, positive=True)
        kernel, stride = each(case.rng, case.dims, 1, 3), each(case.rng, case.dims, 1, 3)
        if any(k > n for k, n in zip(kernel, case.image, strict=True)):
            continue
        p = case.rng.choice([1.0, 2.0, 3.0])
        case.what += f" {kernel} {stride} {p}"
        pool = getattr(F, f"lp_pool{case.dims}d")
        case.compare(
            lambda x, f=pool, p=p, k=kernel, s=stride: f(x, p, k if len(k) > 1 else k[0], s if len(s) > 1 else s[0]),
            *reference.sliding(case.image, kernel, stride, [0] * case.dims, [1] * case.dims, False),
            reference.power(p),
            tolerance=3e-6,
        )


@pytest.mark.parametrize("device", DEVICES)
def test_fractional_pools(device):
    for seed in count(device):
        case = Case(seed, device, smallest=3)
        if case.dims == 1:
            continue
        kernel = each(case.rng, case.dims, 1, 2)
        sizes = [case.rng.randint(1, n - k + 1) for n, k in zip(case.image, kernel, strict=True)]
        batch = case.lead if len(case.lead) == 2 else (1, *case.lead)
        u = np.random.default_rng(seed).random((*batch, case.dims))
        u[...] = u[0, 0]  # one set of places, so that one reference serves all planes
        samples = strata.tensor(u.tolist(), dtype=strata.float32)
        ordered = [float(v) for v in samples[0, 0].tolist()]
        ordered = ordered[::-1] if case.dims == 2 else ordered  # PyTorch's order: width, height; time, height, width
        places = []
        case.what += f" {kernel} {sizes} {ordered}"
        pool = getattr(F, f"fractional_max_pool{case.dims}d")
        case.compare(
            lambda x, f=pool, k=kernel, s=sizes, u=samples: f(
                x, k, output_size=s, return_indices=True, _random_samples=u.to(x.device)
            ),
            *reference.fractional(case.image, kernel, sizes, ordered),
            reference.largest(places),
            places,
        )
