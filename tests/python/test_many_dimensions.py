"""Tensors of up to 64 dimensions, beside NumPy."""

import numpy as np
import pytest
import strata

DEVICES = ["cpu", "vgpu"]
SHAPE = [2 if d % 4 == 0 else 1 for d in range(40)]  # 10 dimensions of size 2 among those of size 1
RANDOM = np.random.default_rng(64)


def values(shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def check(got, want):
    assert got.shape == want.shape
    np.testing.assert_allclose(got.detach().cpu().numpy(), want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("device", DEVICES)
def test_shape_and_views(device):
    a = values(SHAPE)
    x = strata.tensor(a, device=device)
    assert x.dim() == 40 and x.stride() == tuple(s // 4 for s in a.strides) and x.is_contiguous()
    order = RANDOM.permutation(40).tolist()
    check(x.permute(order), a.transpose(order))
    check(x.permute(order).contiguous(), a.transpose(order))
    check(x.squeeze(), a.squeeze())
    check(x[(0,) * 30], a[(0,) * 30])
    check(x[(None,) * 24], a[(None,) * 24])  # 64 in all
    check(x[..., :1].clone(), a[..., :1])
    check(x.transpose(0, 36).flatten(), a.swapaxes(0, 36).flatten())
    check(x.reshape([1] * 54 + [2] * 10), a.reshape([1] * 54 + [2] * 10))
    check(x.flip([0, 36]), np.flip(a, [0, 36]))
    check(x.roll([1, 1], [0, 39]), np.roll(a, [1, 1], [0, 39]))
    y = x.detach()
    y.unsqueeze_(0)
    assert y.dim() == 41
    for op in (
        lambda t: t[(None,) * 25],
        lambda t: t.reshape([1] * 55 + [2] * 10),
        lambda t: strata.stack([t[(None,) * 24]]),
    ):
        with pytest.raises(RuntimeError, match="at most 64 dimensions"):
            op(x)


@pytest.mark.parametrize("device", DEVICES)
def test_arithmetic_and_gradients(device):
    a, b = values(SHAPE), values([2] + [1] * 3 + SHAPE[4:])
    x, y = strata.tensor(a, device=device, requires_grad=True), strata.tensor(b, device=device)
    check(x + y, a + b)
    check(strata.where(x > 0, x, y), np.where(a > 0, a, b))
    check(x.double(), a.astype(np.float64))
    ((x * y).exp().sum() + (x.permute(list(range(39, -1, -1))) * 2).sum()).backward()
    check(x.grad, np.exp(a * b) * b + 2)


@pytest.mark.parametrize("device", DEVICES)
def test_reductions(device):
    a = values(SHAPE)
    x = strata.tensor(a, device=device)
    for dims in ([0], [36], [39], [0, 8, 36], list(range(0, 40, 2)), list(range(40))):
        for keepdim in (False, True):
            check(x.sum(dims, keepdim), a.sum(tuple(dims), keepdims=keepdim))
            check(x.amax(dims, keepdim), a.max(tuple(dims), keepdims=keepdim))
            check(x.var(dims, correction=0, keepdim=keepdim), a.var(tuple(dims), keepdims=keepdim))
    check(x.argmax(36), a.argmax(36))
    check(x.cumsum(32), a.cumsum(32))
    check(strata.softmax(x, 36).sum(36), np.ones(SHAPE[:36] + SHAPE[37:], np.float32))
    with pytest.raises(IndexError, match="out of range"):
        x.sum(40)
    with pytest.raises(RuntimeError, match="multiple times"):
        x.sum([36, -4])


@pytest.mark.parametrize("device", DEVICES)
def test_strided_dimensions_that_cannot_be_merged(device):
    a = values([2] * 14)
    order = [d for pair in zip(range(7), range(7, 14), strict=True) for d in pair]
    x = strata.tensor(a, device=device)
    check(x.permute(order).contiguous(), a.transpose(order))
    check(x + x.permute(order), a + a.transpose(order))
    check(x.permute(order).sum(), a.sum())
    z = x.to(strata.complex64)
    check((z * z.permute(order)).real, a * a.transpose(order))


def test_what_takes_fewer_dimensions_says_so():
    alternate = list(range(0, 22, 2))
    x = strata.zeros([2] * 22)
    check(x.sum(alternate), np.zeros([2] * 11, np.float32))
    assert x.nonzero().shape == (0, 22)
    x = x.to("vgpu")
    with pytest.raises(NotImplementedError, match="at most 10 dimensions that cannot be merged, got 11"):
        x.sum(alternate)
    with pytest.raises(NotImplementedError, match="nonzero: device kernels take at most 10 dimensions, got 22"):
        x[(1,) * 21].nonzero(), (x + 1).nonzero()


@pytest.mark.parametrize("device", DEVICES)
def test_products_of_many_batch_dimensions(device):
    a = strata.zeros([2] * 10 + [3, 3], device=device)
    b = a.permute([5, 0, 6, 1, 7, 2, 8, 3, 9, 4, 10, 11])
    with pytest.raises(NotImplementedError, match="at most 8 batch dimensions that cannot be merged"):
        a @ b
    check(a.flatten(0, 9) @ b.flatten(0, 9), np.zeros([2**10, 3, 3], np.float32))
    check(a @ a, np.zeros([2] * 10 + [3, 3], np.float32))


def test_files_and_arrays(tmp_path):
    a = values(SHAPE)
    x = strata.tensor(a)
    for name in ("x.pt", "x.safetensors"):
        strata.save({"x": x}, tmp_path / name)
        check(strata.load(tmp_path / name)["x"], a)
    check(strata.from_dlpack(x), a)
    check(strata.from_numpy(a), a)
    assert x.numpy().shape == a.shape
    assert strata.tensor(a.tolist()).shape == a.shape
    assert eval(f"strata.{x}", {"strata": strata}).shape == a.shape
