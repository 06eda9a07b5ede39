"""Numbers at the limits of their types: conversions, fills, bools of any byte, variances with large means, empty batches."""

import math

import numpy as np
import pytest
import strata
from records import reference_kernels
from strata.nn import functional as F

DEVICES = ["cpu", "vgpu"]
INTEGERS = {strata.uint8: (0, 255), strata.int8: (-128, 127), strata.int16: (-(2**15), 2**15 - 1)}
INTEGERS |= {strata.int32: (-(2**31), 2**31 - 1), strata.int64: (-(2**63), 2**63 - 1)}


# --- float8 ----------------------------------------------------------------------------------------------------------


def encoded(values, codes, decoded):
    """The code of the nearest finite number, the even one of two: from the sorted decoded codes."""
    order = np.argsort(decoded)
    decoded, codes = decoded[order], codes[order]
    at = np.clip(np.searchsorted(decoded, values), 1, len(decoded) - 1)
    low, high = decoded[at - 1], decoded[at]
    below = np.abs(values - low), np.abs(high - values)
    nearer_low = (below[0] < below[1]) | ((below[0] == below[1]) & (codes[at - 1] % 2 == 0))
    return np.where(nearer_low, low, high)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2"])
def test_every_bfloat16_encodes_as_float8(name, device):
    dtype = getattr(strata, name)
    bits = np.arange(2**16, dtype=np.uint32) << 16
    values = bits.view(np.float32)
    got = strata.tensor(values).to(device).to(strata.bfloat16).to(dtype).float().cpu().numpy().astype(np.float64)
    codes = np.arange(256, dtype=np.uint8)
    with np.errstate(invalid="ignore"):  # NaN codes
        decoded = strata.tensor(codes).view(dtype).float().numpy().astype(np.float64)
    finite = np.isfinite(decoded) & (codes < 128)  # magnitudes
    want = encoded(np.abs(values[~np.isnan(values)]).astype(np.float64), codes[finite], decoded[finite])
    if name == "float8_e5m2":  # halfway to the next power of two is too large; e4m3 has no infinity and saturates
        want = np.where(np.abs(values[~np.isnan(values)]) >= 61440, math.inf, want)
    assert np.array_equal(np.abs(got[~np.isnan(values)]), want)
    assert np.isnan(got[np.isnan(values)]).all()
    assert np.array_equal(np.signbit(got), np.signbit(values))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [strata.float64, strata.float32, strata.float16, strata.bfloat16], ids=str)
def test_float8_saturates_from_every_type(dtype, device):
    x = strata.tensor([6e4, -6e4, math.inf, -math.inf, math.nan, 464.0, 448.0], dtype=dtype, device=device)
    for t in (x, strata.stack([x, x], 1)[:, 0]):  # also element by element
        got = t.to(strata.float8_e4m3fn).float().cpu().tolist()
        assert got[:4] + got[5:] == [448, -448, 448, -448, 448, 448] and math.isnan(got[4])


# --- numbers that do not fit -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_numbers_that_do_not_fit_are_refused(dtype):
    low, high = INTEGERS[dtype]
    zeros, yes = strata.zeros(2, dtype=dtype), strata.tensor([True, False])
    at = strata.tensor([0])
    fills = [
        lambda v: strata.tensor(v, dtype=dtype),
        lambda v: strata.tensor([v], dtype=dtype),
        lambda v: strata.full((2,), v, dtype=dtype),
        lambda v: strata.full_like(zeros, v),
        lambda v: zeros.new_full((2,), v),
        lambda v: zeros.clone().fill_(v),
        lambda v: zeros.masked_fill(yes, v),
        lambda v: zeros.clone().masked_fill_(yes, v),
        lambda v: zeros.index_fill(0, at, v),
        lambda v: zeros.scatter(0, at, v),
        lambda v: strata.where(yes, v, zeros),
        lambda v: strata.constant_pad_nd(zeros, (1, 1), v),
        lambda v: zeros.clone().__setitem__(0, v),
    ]
    good = [low, high, 1.5, True]
    bad = [math.nan, math.inf, -math.inf, 1e30]
    if dtype != strata.int64:
        bad += [high + 1, high + 0.5, -high - 2]
    if low == 0:
        good += [-1, -high]  # wraps, as in PyTorch
        bad += [-high - 1]
    for fill in fills:
        for v in good:
            if isinstance(v, float) and fill is fills[10]:
                continue  # a float beside an integer tensor promotes
            fill(v)
        for v in bad:
            if isinstance(v, float) and fill is fills[10]:
                continue
            with pytest.raises(RuntimeError, match="without overflow"):
                fill(v)


@pytest.mark.parametrize("dtype", [*INTEGERS, strata.bool, strata.float16], ids=str)
def test_random_integers_stay_in_range(dtype):
    low, high = INTEGERS.get(dtype, (0, 1) if dtype == strata.bool else (-65504, 65504))
    if dtype != strata.int64:
        assert strata.randint(low, high + 1, (3,), dtype=dtype).dtype == dtype
        for a, b in ((low, high + 2), (low - 1, high)):
            with pytest.raises(RuntimeError, match="out of bounds"):
                strata.randint(a, b, (3,), dtype=dtype)
            with pytest.raises(RuntimeError, match="out of bounds"):
                strata.zeros(3, dtype=dtype).random_(a, b)


def test_large_numbers_become_infinite_or_are_refused():
    assert strata.tensor(1e300).item() == math.inf and strata.full((1,), 1e6, dtype=strata.float16).item() == math.inf
    for f in (
        lambda: strata.full((1,), 1e300),
        lambda: strata.zeros(1).masked_fill(strata.tensor([True]), 1e300),
        lambda: strata.zeros(1, dtype=strata.float16).masked_fill(strata.tensor([True]), 1e6),
        lambda: strata.full((1,), 1e6, dtype=strata.float8_e4m3fn),
    ):
        with pytest.raises(RuntimeError, match="without overflow"):
            f()
    assert strata.full((1,), math.inf, dtype=strata.float16).item() == math.inf


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_fills_refuse_a_tensor_whose_value_does_not_fit(dtype):
    low, high = INTEGERS[dtype]
    mask, index = strata.tensor([True, False]), strata.tensor([0])
    fills = (
        lambda v: strata.zeros(2, dtype=dtype).masked_fill(mask, v),
        lambda v: strata.zeros(2, dtype=dtype).masked_fill_(mask, v),
        lambda v: strata.zeros(2, dtype=dtype).index_fill(0, index, v),
        lambda v: strata.zeros(2, dtype=dtype).index_fill_(0, index, v),
    )
    bad = [math.nan, math.inf, 1e30] + ([] if dtype == strata.int64 else [high + 1])
    for fill in fills:
        assert fill(strata.tensor(high)).tolist() == [high, 0]
        assert fill(strata.tensor(2.5)).tolist() == [2, 0]
        for v in bad:
            with pytest.raises(RuntimeError, match="without overflow"):
                fill(strata.tensor(v))


# --- bools -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", DEVICES)
def test_every_byte_but_zero_is_true(device):
    raw = strata.tensor([0, 1, 2, 128, 255, 0, 4], dtype=strata.uint8).to(device)
    b, clean = raw.view(strata.bool), (raw != 0)
    for f in (
        lambda t: t.sum(),
        lambda t: t.float(),
        lambda t: t.to(strata.uint8),
        lambda t: t.to(strata.int64),
        lambda t: t.to(strata.float16),
        lambda t: t == True,  # noqa: E712
        lambda t: t.logical_not(),
        lambda t: t ^ True,
        lambda t: t & t,
        lambda t: t.cumsum(0),
        lambda t: t.nonzero(),
        lambda t: t.all(),
        lambda t: t.any(),
        lambda t: t.sort()[0].to(strata.uint8),
        lambda t: t.sort()[1],
        lambda t: t.unique().to(strata.uint8),
        lambda t: t + t,
        lambda t: t * 3,
        lambda t: t.amax().to(strata.uint8),
        lambda t: t.float().mean(),
        lambda t: strata.where(t, 1.0, 2.0),
        lambda t: strata.arange(7, device=device)[t],
        lambda t: strata.zeros(7, device=device).masked_fill(t, 5),
        lambda t: strata.zeros(7, dtype=strata.bool, device=device).scatter(0, strata.arange(7, device=device), t) + 0,
        lambda t: strata.zeros(1, dtype=strata.bool, device=device).index_put(
            (strata.zeros(7, dtype=strata.int64, device=device),), t, accumulate=True
        ),
        lambda t: t.reshape(7, 1).expand(7, 2).sum(1),
        lambda t: strata.stack([t, t], 1)[:, 0].sum(),
    ):
        got, want = f(b), f(clean)
        assert got.dtype == want.dtype and got.cpu().tolist() == want.cpu().tolist()
    assert b.tolist() == clean.tolist() and str(b) == str(clean)
    assert [bool(v) for v in b] == clean.tolist() and b[4].item() is True
    assert b.view(strata.uint8).tolist() == raw.tolist()  # the bytes themselves stay


@pytest.mark.parametrize("device", DEVICES)
def test_bool_fills_are_true_for_every_number_but_zero(device):
    zeros, yes = strata.zeros(2, dtype=strata.bool, device=device), strata.tensor([True, False], device=device)
    for number in (0.5, -0.25, 2, 256, math.nan, 0.0, 0):
        for v in (number, strata.tensor(number, device=device)):
            assert zeros.masked_fill(yes, v).tolist() == [bool(number), False]
            assert zeros.clone().masked_fill_(yes, v).tolist() == [bool(number), False]
        assert strata.full((1,), number, dtype=strata.bool, device=device).item() is bool(number)


@pytest.mark.parametrize("device", DEVICES)
def test_all_and_any_of_bytes_are_0_or_1(device):
    for values in ([], [3], [3, 0], [255, 2]):
        t = strata.tensor(values, dtype=strata.uint8, device=device)
        for got, want in ((strata.all(t), all(values)), (strata.any(t), any(values))):
            assert got.dtype == strata.uint8 and got.item() == int(want)
    assert strata.all(strata.ones(0, 2, dtype=strata.uint8, device=device), 0).tolist() == [1, 1]


# --- dtypes of results -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [strata.uint8, strata.int8, strata.int32], ids=str)
def test_products_of_small_integers_keep_their_dtype(dtype):
    a = strata.ones(2, 2, dtype=dtype)
    assert strata.einsum("ij,jk->ik", a, a).dtype == dtype
    assert strata.einsum("i,i->", a[0], a[0]).dtype == dtype
    assert strata.einsum("ij,ij->i", a, a).dtype == dtype
    assert strata.einsum("ij->i", a).dtype == strata.int64  # a sum
    assert strata.einsum("ij,j->", a, a[0]).item() == 4
    for x, y, dims in ((a, a, 1), (a, a, 0), (a, a, 2), (strata.ones(2, 1, dtype=dtype), a, 1)):
        got = strata.tensordot(x, y, dims=dims)
        assert got.dtype == dtype
        assert got.tolist() == strata.tensordot(x.double(), y.double(), dims=dims).tolist()
    got = strata.tensordot(strata.ones(3, 1, 2, 1, dtype=dtype), strata.ones(1, 2, dtype=dtype), dims=1)
    assert got.shape == (3, 1, 2, 2) and got.dtype == dtype


# --- variances beside large means ------------------------------------------------------------------------------------


def strided(x):
    return strata.stack([x, x * 0], -1)[..., 0]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("reference", [False, True], ids=["fast", "reference"])
@pytest.mark.parametrize("offset, spread", [(1e6, 100.0), (1e6, 1.0), (-3e4, 0.5), (1e20, 1e15), (0, 1e-25)])
def test_variance_with_a_large_mean(offset, spread, reference, device):
    rng = np.random.default_rng(0)
    for shape, dim in (
        ((100, 4), 0),
        ((4, 100), 1),
        ((3000,), 0),
        ((50, 33, 3), (0, 2)),
        ((40, 600), 0),
        ((7, 9), None),
    ):
        values = (rng.standard_normal(shape) * spread + offset).astype(np.float32)
        wide = values.astype(np.float64)
        for layout in (lambda x: x, strided, lambda x: x.T.contiguous().T if x.dim() == 2 else x):
            x = layout(strata.tensor(values).to(device))
            for mode in [reference_kernels()] if reference else [strata.enable_grad()]:
                with mode:
                    var, mean = strata.var_mean(x, dim)
                    std = strata.std(x, dim)
            axis = tuple(range(wide.ndim)) if dim is None else dim
            np.testing.assert_allclose(mean.cpu().numpy(), wide.mean(axis), rtol=2e-7, atol=1e-6 * spread)
            np.testing.assert_allclose(std.cpu().numpy(), wide.std(axis, ddof=1), rtol=1.3e-6)
            if 1e-36 < spread**2 < 1e30:
                np.testing.assert_allclose(var.cpu().numpy(), wide.var(axis, ddof=1), rtol=1.3e-6)


@pytest.mark.parametrize("device", DEVICES)
def test_variance_of_equal_values_is_zero(device):
    for value in (0.1, 1e-3, 12345.678, 3e38, 1e-42):
        for shape, dim in (((33, 5), 0), ((5, 1000), 1), ((77,), 0)):
            x = strata.full(shape, value, device=device)
            var, mean = strata.var_mean(x, dim)
            assert (strata.std(x, dim) == 0).all() and (var == 0).all()
            assert (mean == x.flatten()[0]).all()


@pytest.mark.parametrize("device", DEVICES)
def test_norms_keep_their_digits_beside_a_large_mean(device):
    rng = np.random.default_rng(1)
    values = (rng.standard_normal((6, 4, 5, 9)) + 3e4).astype(np.float32)
    wide = values.astype(np.float64)

    def normalized(axis, shape):
        x = wide.reshape(shape)
        return ((x - x.mean(axis, keepdims=True)) / np.sqrt(x.var(axis, keepdims=True) + 1e-5)).reshape(wide.shape)

    x = strata.tensor(values).to(device)
    running = strata.zeros(4, device=device), strata.zeros(4, device=device)
    pairs = [
        (F.batch_norm(x, *running, training=True, momentum=1.0), normalized((0, 2, 3), wide.shape)),
        (F.instance_norm(x), normalized((2, 3), wide.shape)),
        (F.group_norm(x, 2), normalized(2, (6, 2, 90))),
        (F.layer_norm(x, [4, 5, 9]), normalized(1, (6, 180))),
        (F.layer_norm(x, [9]), normalized(3, wide.shape)),
    ]
    for got, want in pairs:
        np.testing.assert_allclose(got.cpu().numpy(), want, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(running[0].cpu().numpy(), wide.mean((0, 2, 3)), rtol=2e-7)
    np.testing.assert_allclose(running[1].cpu().numpy(), wide.var((0, 2, 3), ddof=0) * 270 / 269, rtol=1.3e-6)


# --- empty batches ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("shape", [(0, 3), (0, 3, 4), (2, 3, 0)], ids=str)
def test_empty_batches_leave_running_statistics(shape, device):
    for training in (True, False):
        for norm in (F.batch_norm, F.instance_norm):
            if norm is F.instance_norm and len(shape) == 2:
                continue
            mean, var = strata.full((3,), 7.0, device=device), strata.full((3,), 5.0, device=device)
            x = strata.ones(shape, device=device, requires_grad=True)
            w, b = (strata.ones(3, device=device, requires_grad=True) for _ in range(2))
            y = norm(x, mean, var, w, b, training)
            y.sum().backward()
            assert y.shape == x.shape == x.grad.shape
            assert mean.tolist() == [7.0] * 3 and var.tolist() == [5.0] * 3
            assert w.grad.tolist() == [0.0] * 3 and b.grad.tolist() == [0.0] * 3
    with pytest.raises(RuntimeError, match="at least one element"):
        strata.native_batch_norm(strata.ones(shape, device=device), None, None, None, None, True, 0.1, 1e-5)


# --- printing --------------------------------------------------------------------------------------------------------


def test_a_summary_without_edge_items_shows_the_shape():
    strata.set_printoptions(edgeitems=0, threshold=0)
    try:
        assert str(strata.arange(5.0)) == "tensor([...], size=(5,))"
        assert str(strata.ones(2, 2, dtype=strata.int32)) == "tensor([...], size=(2, 2), dtype=strata.int32)"
        assert str(strata.tensor(3.0)) == "tensor(3., size=())"
        assert str(strata.ones(2, 0)) == "tensor([], size=(2, 0))"
    finally:
        strata.set_printoptions(profile="default")


def test_losses_of_two_dtypes():
    def loss(name, input, target):
        x, y = strata.rand(2, 3).to(input), strata.rand(2, 3).to(target)
        return getattr(F, name)(x, y).dtype

    a, b, c = strata.float16, strata.float32, strata.float64
    for name in ("mse_loss", "l1_loss", "smooth_l1_loss", "kl_div", "poisson_nll_loss"):
        assert [loss(name, a, b), loss(name, b, a), loss(name, b, c), loss(name, c, b)] == [b, b, c, c], name
    for name in ("huber_loss", "soft_margin_loss", "hinge_embedding_loss"):  # the input's
        assert [loss(name, a, b), loss(name, b, a), loss(name, b, c), loss(name, c, b)] == [a, b, b, c], name
    name = "binary_cross_entropy_with_logits"  # the target's
    assert [loss(name, a, b), loss(name, b, a), loss(name, b, c), loss(name, c, b)] == [b, a, c, b]
    assert loss("multilabel_soft_margin_loss", a, strata.uint8) == a


@pytest.mark.parametrize("batch, m, k, n", [(3, 16, 9000, 16), (2, 5, 3000, 7), (4, 33, 1500, 20)])
@pytest.mark.parametrize("swapped", [(False, False), (True, False), (False, True), (True, True)])
def test_long_sums_of_several_matrices(batch, m, k, n, swapped):
    """With every order of the factors' elements, repeatedly: a wrong partition among threads shows at random."""
    rng = np.random.default_rng(k)
    a, b = rng.standard_normal((batch, m, k)).astype("f4"), rng.standard_normal((batch, k, n)).astype("f4")
    want = a.astype("f8") @ b.astype("f8")
    x, y = strata.tensor(a), strata.tensor(b)
    x = x.mT.contiguous().mT if swapped[0] else x
    y = y.mT.contiguous().mT if swapped[1] else y
    for _ in range(3):
        np.testing.assert_allclose(strata.bmm(x, y).numpy(), want, rtol=0, atol=2e-6 * k**0.5 * 10)


@pytest.mark.parametrize("device", DEVICES)
def test_products_of_integers_wrap(device):
    rng = np.random.default_rng(5)
    a, b, c = (rng.integers(-(2**63), 2**63 - 1, s) for s in ((3, 4), (4, 2), (3, 2)))
    x, y, z = (strata.tensor(v.tolist(), device=device) for v in (a, b, c))
    expected = c.view(np.uint64) * np.uint64(2) + a.view(np.uint64) @ b.view(np.uint64) * np.uint64(3)
    assert strata.addmm(z, x, y, beta=2, alpha=3).tolist() == expected.view(np.int64).tolist()


def test_convolutions_of_integers_wrap():
    x = strata.tensor([[[2**62, 2**62, 5]]])
    assert F.conv1d(x, strata.tensor([[[2, 3]]])).tolist() == [[[2**62, -(2**63) + 15]]]
