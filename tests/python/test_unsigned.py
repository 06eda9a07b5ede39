"""uint16, uint32 and uint64 compared with NumPy: conversions, arithmetic, order, printing, files."""

import itertools

import numpy as np
import pytest
import strata

DEVICES = ["cpu", "vgpu"]
UNSIGNED = ["uint16", "uint32", "uint64"]
EDGES = [
    0,
    1,
    2,
    127,
    128,
    255,
    256,
    32767,
    32768,
    65535,
    65536,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**32,
    2**63 - 1,
    2**63,
    2**64 - 1,
]


def edges(name):
    top = np.iinfo(name).max
    return np.array([v for v in EDGES if v <= top], dtype=name)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", UNSIGNED)
def test_numpy_there_and_back(name, device):
    x = edges(name)
    t = strata.from_numpy(x.copy()).to(device)
    assert t.dtype == getattr(strata, name) and t.itemsize == x.itemsize
    assert t.tolist() == x.tolist()
    assert (t.cpu().numpy() == x).all()
    assert strata.from_dlpack(t.cpu()).tolist() == x.tolist()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", UNSIGNED)
@pytest.mark.parametrize(
    "other", ["bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64", "float32", "float64"]
)
def test_conversions_match_numpy(name, other, device):
    x = edges(name)
    t = strata.from_numpy(x.copy()).to(device)
    assert t.to(getattr(strata, other)).tolist() == x.astype(other).tolist()
    strided = t.repeat_interleave(2)[::2]
    assert strided.to(getattr(strata, other)).tolist() == x.astype(other).tolist()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", UNSIGNED)
def test_floats_become_unsigned(name, device):
    top = float(np.iinfo(name).max)
    values = [v for v in [0.0, 0.9, 1.5, 255.7, 65535.0, 4294967295.0, 2.0**63, 2.0**64 - 2048] if v <= top]
    t = strata.tensor(values, dtype=strata.float64, device=device)
    assert t.to(getattr(strata, name)).tolist() == [int(v) for v in values]


NUMPY = {
    "sub": "subtract", "mul": "multiply", "eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal",
    "gt": "greater", "ge": "greater_equal", "bitwise_left_shift": "left_shift", "bitwise_right_shift": "right_shift",
    "pow": "power",
}  # fmt: skip


def pairs(name):
    x = edges(name)
    return [np.array(v, dtype=name) for v in zip(*itertools.product(x, x), strict=True)]


def on(device, *arrays):
    return [strata.from_numpy(a.copy()).to(device) for a in arrays]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", UNSIGNED)
@pytest.mark.parametrize(
    "op",
    [
        "add", "sub", "mul", "maximum", "minimum", "fmax", "fmin", "bitwise_and", "bitwise_or", "bitwise_xor", "eq", "ne",
        "lt", "le", "gt", "ge", "floor_divide", "remainder", "fmod", "bitwise_left_shift", "bitwise_right_shift", "gcd",
        "lcm", "pow", "logical_and",
    ],
)  # fmt: skip
def test_arithmetic_matches_numpy(name, op, device):
    a, b = pairs(name)
    if op in ("floor_divide", "remainder", "fmod"):
        a, b = a[b != 0], b[b != 0]
    elif op.endswith("shift"):
        a, b = a[b < a.itemsize * 8], b[b < a.itemsize * 8]
    ours = getattr(strata, op)(*on(device, a, b))
    with np.errstate(over="ignore"):
        expected = getattr(np, NUMPY.get(op, op))(a, b)
    assert ours.tolist() == expected.tolist()
    assert ours.dtype == (strata.bool if expected.dtype == bool else getattr(strata, name))
    strided = getattr(strata, op)(*(t.repeat_interleave(3)[::3] for t in on(device, a, b)))
    assert strided.tolist() == expected.tolist()
    if ours.dtype != strata.bool and op not in ("maximum", "minimum", "fmax", "fmin"):
        first, second = on(device, a, b)
        assert getattr(first, op + "_")(second).tolist() == expected.tolist()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", UNSIGNED)
def test_functions_of_one_operand_match_numpy(name, device):
    x = edges(name)
    (t,) = on(device, x)
    for op in ("abs", "sign", "square", "bitwise_not", "floor", "trunc", "isnan", "logical_not", "signbit"):
        expected = getattr(np, op)(x)
        ours = getattr(strata, op)(t)
        assert ours.tolist() == expected.tolist() and str(ours.dtype) == f"strata.{expected.dtype}"
    assert (-t).tolist() == (np.zeros_like(x) - x).tolist() and t.relu().tolist() == x.tolist()
    assert t.clamp(2, 300).tolist() == np.clip(x, 2, 300).tolist()
    assert t.clamp(min=5).tolist() == np.maximum(x, x.dtype.type(5)).tolist()
    assert t.clamp(max=7).tolist() == np.minimum(x, x.dtype.type(7)).tolist() and t.clamp(min=-3).tolist() == x.tolist()
    assert strata.where(t > 3, t, t * 0).tolist() == np.where(x > 3, x, 0).tolist()
    assert t.masked_fill(t > 3, 9).tolist() == np.where(x > 3, 9, x).tolist()
    assert (t.double() / 2).tolist() == (x.astype(float) / 2).tolist()
    np.testing.assert_allclose((t / t.flip(0).clamp(min=1)).cpu(), x / np.maximum(x[::-1], 1), rtol=1e-6)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", UNSIGNED)
def test_numbers_as_operands(name, device):
    x = edges(name)
    (t,) = on(device, x)
    for n in (0, 1, 3, 255):
        k = x.dtype.type(n)
        assert (t + n).tolist() == (x + k).tolist() and (n - t).tolist() == (k - x).tolist()
        assert (t > n).tolist() == (x > n).tolist() and (t <= n).tolist() == (x <= n).tolist()
        assert (t % (n + 1)).tolist() == (x % (n + 1)).tolist() and (t // (n + 1)).tolist() == (x // (n + 1)).tolist()
    for n in (-1, -(2**40)):  # below every element
        assert not (t < n).any() and not (t <= n).any() and not (t == n).any()
        assert (t > n).all() and (t >= n).all() and (t != n).all()


@pytest.mark.parametrize("device", DEVICES)
def test_numbers_above_int64(device):
    x = edges("uint64")
    (t,) = on(device, x)
    top = 2**64 - 1
    assert (t == top).tolist() == (x == np.uint64(top)).tolist() and (t & top).tolist() == x.tolist()
    assert (top - t).tolist() == (np.uint64(top) - x).tolist() and (t + top).tolist() == (x + np.uint64(top)).tolist()
    assert (t // 2**63).tolist() == (x // np.uint64(2**63)).tolist() and (t < 2**63).tolist() == (
        x < np.uint64(2**63)
    ).tolist()
    t[0] = top
    t |= 2**63
    assert t.tolist() == [v | 2**63 for v in [top, *x[1:].tolist()]]
    assert strata.tensor([[0, top]], dtype=strata.uint64).tolist() == [[0, top]]
    for other in (strata.ones(2, dtype=strata.int64), strata.ones(2), strata.ones(2, dtype=strata.uint8)):
        with pytest.raises(RuntimeError, match="overflow"):
            other + 2**63
    with pytest.raises(RuntimeError, match="overflow"):
        t + 2**64
    with pytest.raises(RuntimeError, match="overflow"):
        strata.tensor([1, 2**63])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["uint16", "uint32"])
def test_reductions_sorts_and_indices(name, device):
    x = edges(name)[::-1].copy()
    t = strata.from_numpy(x).to(device)
    assert t.sum().item() == int(x.astype(object).sum()) and t.sum().dtype == strata.int64
    assert t.max().item() == x.max() and t.argmin().item() == x.argmin()
    assert t.sort().values.tolist() == sorted(x.tolist())
    assert t.sort(descending=True).values.tolist() == sorted(x.tolist(), reverse=True)
    assert t.topk(2).values.tolist() == sorted(x.tolist())[-1:-3:-1]
    assert t[1:3].tolist() == x[1:3].tolist() and t[t > 200].tolist() == x[x > 200].tolist()
    assert t.unique().tolist() == sorted(set(x.tolist()))
    assert (t // 3).tolist() == (x // 3).tolist() and (t % 7).tolist() == (x % 7).tolist()
    assert t.float().mean().item() == pytest.approx(float(x.astype(np.float32).mean()))


@pytest.mark.parametrize(
    "a, b, common",
    [
        ("uint16", "bool", "uint16"), ("uint16", "uint8", "uint16"), ("uint32", "uint16", "uint32"),
        ("uint64", "uint32", "uint64"), ("uint16", "int8", "int32"), ("uint16", "int16", "int32"),
        ("uint16", "int32", "int32"), ("uint32", "int8", "int64"), ("uint32", "int32", "int64"),
        ("uint32", "int64", "int64"), ("uint16", "float16", "float16"), ("uint64", "float32", "float32"),
        ("uint8", "int8", "int16"),
    ],
)  # fmt: skip
def test_promotion(a, b, common):
    for x, y in ((a, b), (b, a)):
        assert strata.promote_types(getattr(strata, x), getattr(strata, y)) == getattr(strata, common)
    x, y = strata.ones(2, dtype=getattr(strata, a)), strata.ones(2, dtype=getattr(strata, b))
    assert (x + y).dtype == getattr(strata, common)
    assert (strata.ones(2, dtype=getattr(strata, a)).to(getattr(strata, common)).tolist()) == [1] * 2


def test_uint64_has_no_common_type_with_signed_ones():
    with pytest.raises(RuntimeError, match="uint64 and int64 have no common type"):
        strata.promote_types(strata.uint64, strata.int64)


@pytest.mark.parametrize("device", DEVICES)
def test_uint64_is_stored_and_moved(device):
    x = np.array([[2**64 - 1, 2**63], [5, 0]], dtype=np.uint64)
    (t,) = on(device, x)
    assert t[0, 0].item() == 2**64 - 1 and int(t[0, 0]) == 2**64 - 1 and bool(t[0, 1]) and not bool(t[1, 1])
    assert float(t[0, 1]) == 2.0**63
    assert "18446744073709551615" in repr(t)
    assert t.t().contiguous().tolist() == x.T.tolist()
    assert strata.cat([t, t]).tolist() == np.concatenate([x, x]).tolist()
    assert t.sort().values.tolist() == np.sort(x).tolist()


def shuffled(shape, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 2**64, shape, dtype=np.uint64)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("shape", [(1,), (7,), (5, 6), (3, 1, 40), (2, 300)])
def test_uint64_reductions_match_numpy(shape, device):
    x = shuffled(shape)
    (t,) = on(device, x)
    transposed = on(device, x.T)[0].permute(*range(len(shape))[::-1])  # the same elements, another memory order
    for u in (t, transposed):
        assert u.sum(dtype=strata.uint64).item() == x.sum() and u.prod(dtype=strata.uint64).item() == x.prod()
        assert u.sum().dtype == strata.int64 and u.sum().item() == x.sum().astype(np.int64)
        assert u.max().item() == x.max() and u.min().item() == x.min()
        assert u.argmax().item() == x.argmax() and u.argmin().item() == x.argmin()
        for axis in range(len(shape)):
            for keepdim in (False, True):
                assert u.amax(axis, keepdim).tolist() == x.max(axis, keepdims=keepdim).tolist()
                assert u.amin(axis, keepdim).tolist() == x.min(axis, keepdims=keepdim).tolist()
            largest, smallest = u.max(axis), u.min(axis)
            assert largest.values.tolist() == x.max(axis).tolist() and largest.values.dtype == strata.uint64
            assert largest.indices.tolist() == x.argmax(axis).tolist()
            assert smallest.values.tolist() == x.min(axis).tolist()
            assert smallest.indices.tolist() == x.argmin(axis).tolist()
            assert u.sum(axis, dtype=strata.uint64).tolist() == x.sum(axis).tolist()
            assert u.cumsum(axis, dtype=strata.uint64).tolist() == x.cumsum(axis).tolist()
            assert u.cumprod(axis, dtype=strata.uint64).tolist() == x.cumprod(axis).tolist()
            assert u.cummax(axis).values.tolist() == np.maximum.accumulate(x, axis).tolist()
            assert u.cummin(axis).values.tolist() == np.minimum.accumulate(x, axis).tolist()
        assert [v.item() for v in u.aminmax()] == [x.min(), x.max()]
        assert u.any().item() and u.all().item() == x.all() and u.count_nonzero().item() == np.count_nonzero(x)
    assert t.tolist() == x.tolist()  # arguments are not changed


@pytest.mark.parametrize("device", DEVICES)
def test_uint64_out_and_empty(device):
    x = shuffled((4, 3))
    (t,) = on(device, x)
    out = strata.zeros(3, dtype=strata.uint64, device=device)
    assert strata.amax(t, 0, out=out).tolist() == out.tolist() == x.max(0).tolist()
    assert strata.empty(0, 3, dtype=strata.uint64, device=device).amax(1).tolist() == []
    with pytest.raises(IndexError, match="non-zero size"):
        strata.empty(0, 3, dtype=strata.uint64, device=device).amax(0)
    assert strata.amax(t.to("meta"), 0).shape == (3,)


@pytest.mark.parametrize("device", DEVICES)
def test_uint64_searches_and_products(device):
    line, wanted = np.sort(shuffled(20)), np.concatenate([shuffled(9, 1), np.sort(shuffled(20))[4:7]])
    a, b = on(device, line, wanted)
    for right, side in ((False, "left"), (True, "right")):
        expected = np.searchsorted(line, wanted, side).tolist()
        assert strata.searchsorted(a, b, right=right).tolist() == expected
        assert strata.bucketize(b, a, right=right).tolist() == expected
    assert strata.searchsorted(a, 5).item() == np.searchsorted(line, np.uint64(5))
    assert strata.isin(b, a).tolist() == np.isin(wanted, line).tolist()
    assert strata.unique(strata.cat([b, b])).tolist() == np.unique(wanted).tolist()
    x, y = shuffled((3, 4)), shuffled((4, 5), 1)
    m, n = on(device, x, y)
    assert (m @ n).tolist() == (x @ y).tolist() and (m @ n[:, 0]).tolist() == (x @ y[:, 0]).tolist()
    assert strata.dot(m[0], n[:, 0]).item() == (x[0] @ y[:, 0]) and m.T.matmul(m).tolist() == (x.T @ x).tolist()
    assert strata.bmm(m[None], n[None]).tolist() == (x @ y)[None].tolist()


@pytest.mark.parametrize("device", DEVICES)
def test_ops_that_do_not_compute_uint64_refuse_it(device):
    (t,) = on(device, shuffled((4, 4)))
    for refused in (
        lambda: strata.nn.functional.hardtanh(t),
        lambda: t.topk(2),
        lambda: t.median(),
        lambda: strata.nn.functional.max_pool2d(t[None], 2),
    ):
        with pytest.raises(NotImplementedError, match="uint64"):
            refused()


@pytest.mark.parametrize("name", UNSIGNED)
def test_files_keep_them(name, tmp_path):
    t = strata.from_numpy(edges(name).copy())
    for file in ("a.safetensors", "a.pt"):
        strata.save({"x": t}, tmp_path / file)
        back = strata.load(tmp_path / file)["x"]
        assert back.dtype == t.dtype and back.tolist() == t.tolist()


@pytest.mark.parametrize("name", UNSIGNED)
def test_limits_and_creation(name):
    dtype = getattr(strata, name)
    info = strata.iinfo(dtype)
    assert (info.min, info.max, info.bits) == (0, np.iinfo(name).max, np.iinfo(name).bits)
    assert not dtype.is_signed and not dtype.is_floating_point
    assert strata.zeros(2, dtype=dtype).tolist() == [0, 0] and strata.full((2,), 7, dtype=dtype).tolist() == [7, 7]
    assert strata.tensor([1, 2], dtype=dtype).tolist() == [1, 2]
    with pytest.raises(RuntimeError, match="overflow"):
        strata.tensor([info.max + 1], dtype=dtype)
    assert strata.arange(5, dtype=dtype).tolist() == [0, 1, 2, 3, 4]
    if name != "uint64":  # the bounds of randint are int64
        assert 0 <= strata.randint(0, info.max, (100,), dtype=dtype).min().item()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", UNSIGNED)
def test_empty_and_scalar(name, device):
    dtype = getattr(strata, name)
    assert strata.empty(0, 3, dtype=dtype, device=device).tolist() == []
    assert strata.tensor(3, dtype=dtype, device=device).item() == 3
    assert strata.zeros(0, dtype=dtype, device=device).float().sum().item() == 0
