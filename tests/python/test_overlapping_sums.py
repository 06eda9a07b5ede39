"""Sums into memory that several elements share (gradients of unfold and as_strided), and repeated indices: on all threads."""

import numpy as np
import pytest
import strata


def unview_reference(g, size, stride, offset, n):
    out = np.zeros(n)
    at = np.full(g.shape, offset)
    for d, s in enumerate(stride):
        at = at + np.arange(size[d]).reshape([-1 if k == d else 1 for k in range(g.ndim)]) * s
    np.add.at(out, at.ravel(), g.ravel())
    return out


def threads_agree(f):
    results = []
    before = strata.get_num_threads()
    try:
        for threads in (1, 2, 5):
            strata.set_num_threads(threads)
            results.append(f())
    finally:
        strata.set_num_threads(before)
    for other in results[1:]:
        np.testing.assert_array_equal(results[0], other)
    return results[0]


# Sizes and strides in which: one dimension is separate, at the front or inside; none is; all elements share one place;
# rows are clipped at the ends of a thread's memory; dimensions repeat (stride 0).
GEOMETRIES = [
    ([40, 997, 7], [4000, 4, 1]),
    ([3000, 64, 3], [128, 1, 64]),
    ([60000, 5], [1, 1]),
    ([9000, 11], [3, 1]),
    ([11, 9000], [1, 3]),
    ([700, 30, 9], [5, 2, 3]),
    ([300, 300], [0, 0]),
    ([40000, 3], [2, 0]),
    ([3, 50000], [0, 1]),
    ([2, 2, 20000], [1, 1, 2]),
    ([17, 5000], [4999, 1]),
    ([1, 40000, 1, 2], [7, 1, 3, 1]),
]


@pytest.mark.parametrize("size, stride", GEOMETRIES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_overlapping_sums(size, stride, dtype):
    rng = np.random.default_rng(len(size) * sum(size))
    offset = 3
    n = offset + sum((s - 1) * t for s, t in zip(size, stride, strict=True)) + 2
    g = rng.integers(-8, 9, size).astype(np.float64)
    t = strata.tensor(g.tolist()).to(getattr(strata, dtype))
    x = strata.zeros(n, dtype=t.dtype, requires_grad=True)

    def gradient():
        (image,) = strata.autograd.grad(x.as_strided(size, stride, offset), x, t)
        return image.to(strata.float64).numpy()

    image = threads_agree(gradient)
    expected = unview_reference(g, size, stride, offset, n)
    if dtype == "bfloat16":
        expected = strata.tensor(expected).to(strata.bfloat16).to(strata.float64).numpy()
    np.testing.assert_array_equal(image, expected)


@pytest.mark.parametrize("seed", range(12))
def test_gradient_of_unfold(seed):
    rng = np.random.default_rng(100 + seed)
    shape = [int(n) for n in rng.integers(1, 60, 3)]
    d = int(rng.integers(0, 3))
    shape[d] = int(rng.integers(50, 900))
    size, step = int(rng.integers(1, 12)), int(rng.integers(1, 12))
    x = strata.randn(*shape, dtype=strata.float64, requires_grad=True)
    y = x.unfold(d, size, step)
    g = rng.standard_normal(y.shape)
    if seed % 2:
        upstream = strata.tensor(np.ascontiguousarray(g.T)).permute(*reversed(range(g.ndim)))
    else:
        upstream = strata.tensor(g)

    def gradient():
        x.grad = None
        x.unfold(d, size, step).backward(upstream)
        return x.grad.numpy()

    expected = np.zeros(shape)
    for w in range(y.shape[d]):
        at = [slice(None)] * 3
        at[d] = slice(w * step, w * step + size)
        expected[tuple(at)] += np.moveaxis(np.take(g, w, axis=d), -1, d)
    np.testing.assert_allclose(threads_agree(gradient), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("n", [0, 1, 5, 4096, 4097, 100_003])
@pytest.mark.parametrize("dtype", ["int64", "int32"])
def test_repeated_indices(n, dtype):
    rng = np.random.default_rng(n)
    for counts in (rng.integers(0, 4, n), np.ones(n, int), (rng.random(n) < 0.001) * rng.integers(0, 3000, n)):
        repeats = strata.tensor(counts.tolist(), dtype=getattr(strata, dtype))
        at = threads_agree(lambda r=repeats: strata.repeat_interleave(r).numpy())
        np.testing.assert_array_equal(at, np.repeat(np.arange(n), counts))
        assert strata.repeat_interleave(repeats, output_size=int(counts.sum())).shape == (counts.sum(),)
        with pytest.raises(RuntimeError, match="does not match required size"):
            strata.repeat_interleave(repeats, output_size=int(counts.sum()) + 1)
    every_second = strata.tensor(np.repeat(rng.integers(0, 3, n), 2).tolist(), dtype=strata.int64)[::2]
    np.testing.assert_array_equal(
        strata.repeat_interleave(every_second).numpy(), np.repeat(np.arange(n), every_second.numpy())
    )


@pytest.mark.parametrize("at", [0, 5000, 99_999])
def test_repeats_of_no_use(at):
    counts = np.ones(100_000, np.int64)
    counts[at] = -1
    with pytest.raises(RuntimeError, match="can not be negative, got -1"):
        strata.repeat_interleave(strata.tensor(counts))
    counts[at] = 2**62
    counts[50_000] = 2**62
    counts[50_001] = 2**62
    with pytest.raises(RuntimeError, match="does not fit into 64 bits"):
        strata.repeat_interleave(strata.tensor(counts))
