"""Pooling as plain loops over windows in float64, as references for random tests.

A window is a list of positions in the flattened image; a reference returns values, the gradient of the input and places."""

import itertools

import numpy as np


def pooled_size(n, k, stride, pad, dilation, ceil):
    room = n + 2 * pad - dilation * (k - 1) - 1
    size = (-(-room // stride) if ceil else room // stride) + 1
    if ceil and (size - 1) * stride >= n + pad:
        size -= 1  # no window begins in the padding on the right
    return size


def sliding(image, kernel, stride, padding, dilation, ceil):
    """Output sizes and, per output, the (start, stop, step) of its window along each dimension."""
    sizes = [pooled_size(*v, ceil) for v in zip(image, kernel, stride, padding, dilation, strict=True)]
    places = itertools.product(*map(range, sizes))
    spans = [
        [
            (o * s - p, o * s - p + d * (k - 1) + 1, d)
            for o, k, s, p, d in zip(at, kernel, stride, padding, dilation, strict=True)
        ]
        for at in places
    ]
    return sizes, spans


def adaptive(image, sizes):
    sizes = [n if s is None else s for n, s in zip(image, sizes, strict=True)]
    spans = [
        [(o * n // s, -(-(o + 1) * n // s), 1) for o, n, s in zip(at, image, sizes, strict=True)]
        for at in itertools.product(*map(range, sizes))
    ]
    return sizes, spans


def fractional(image, kernel, sizes, samples):
    """Windows at random positions: samples of [0, 1), one per dimension."""
    starts = []
    for n, k, out, u in zip(image, kernel, sizes, samples, strict=True):
        alpha = (n - k) / (out - 1) if out > 1 else 0
        starts.append([int((i + u) * alpha) - int(u * alpha) for i in range(out - 1)] + [n - k])
    spans = [[(s, s + k, 1) for s, k in zip(at, kernel, strict=True)] for at in itertools.product(*starts)]
    return sizes, spans


def inside(span, image):
    """Flat positions of a window's elements that are in the image."""
    along = [[i for i in range(*s) if 0 <= i < n] for s, n in zip(span, image, strict=True)]
    return [int(np.ravel_multi_index(at, image)) for at in itertools.product(*along)]


def run(x, sizes, spans, grad, choose):
    """x is [planes, *image]; `choose(plane, span, positions)` gives a value and the weight of each position."""
    image = x.shape[1:]
    flat, g = x.reshape(len(x), -1), grad.reshape(len(x), -1)
    y, dx = np.zeros((len(x), len(spans))), np.zeros_like(flat)
    for o, span in enumerate(spans):
        positions = inside(span, image)
        for c, plane in enumerate(flat):
            y[c, o], weights = choose(plane, span, positions)
            dx[c, positions] += g[c, o] * np.asarray(weights)
    return y.reshape(len(x), *sizes), dx.reshape(x.shape)


def largest(places):
    """The first of the largest; its positions are appended to `places`, output by output."""

    def choose(plane, _span, positions):
        best = positions[int(np.argmax(plane[positions]))]
        places.append(best)
        return plane[best], [float(p == best) for p in positions]

    return choose


def mean(image, padding, include_pad, divisor):
    def choose(plane, span, positions):
        padded = [min(stop, n + p) - start for (start, stop, _), n, p in zip(span, image, padding, strict=True)]
        by = divisor or (int(np.prod(padded)) if include_pad else len(positions))
        return plane[positions].sum() / by, [1 / by] * len(positions)

    return choose


def power(p):
    """The p-norm of positive values."""

    def choose(plane, _span, positions):
        v = plane[positions]
        total = (v**p).sum()
        return total ** (1 / p), v ** (p - 1) * total ** (1 / p - 1)

    return choose
