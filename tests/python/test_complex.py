"""complex64 and complex128: creation, promotion, printing, interchange, views, arithmetic and its special points against NumPy."""

import itertools
import pickle
import warnings

import numpy as np
import pytest
import strata

DTYPES = {strata.complex64: np.complex64, strata.complex128: np.complex128}
both = pytest.mark.parametrize("dtype", DTYPES, ids=str)


def random(rng, *shape, dtype=np.complex128):
    return np.asarray(rng.normal(size=shape) + 1j * rng.normal(size=shape), dtype=dtype)


# --- creation, promotion, printing -----------------------------------------------------------------------------------


@both
def test_creation(dtype):
    for make, want in (
        (strata.zeros(2, 3, dtype=dtype), np.zeros((2, 3))),
        (strata.ones(3, dtype=dtype), np.ones(3)),
        (strata.full((2,), 1 - 2j, dtype=dtype), np.full(2, 1 - 2j)),
        (strata.eye(3, dtype=dtype), np.eye(3)),
        (strata.tensor([1, 2.5, 3j], dtype=dtype), np.array([1, 2.5, 3j])),
        (strata.zeros(2, dtype=dtype).fill_(2j), np.full(2, 2j)),
        (strata.full_like(strata.ones(2, dtype=dtype), 1j), np.full(2, 1j)),
    ):
        assert make.dtype is dtype and make.is_complex() and not make.is_floating_point()
        assert (make.numpy() == want.astype(DTYPES[dtype])).all()


def test_the_default_dtype_determines_the_complex_one():
    assert strata.tensor([1j]).dtype is strata.complex64 and strata.full((1,), 1j).dtype is strata.complex64
    try:
        strata.set_default_dtype(strata.float64)
        assert strata.tensor([1j]).dtype is strata.complex128 and (strata.ones(1) * 1j).dtype is strata.complex128
    finally:
        strata.set_default_dtype(strata.float32)


@both
def test_random_numbers(dtype):
    strata.manual_seed(3)
    z = strata.randn(20000, dtype=dtype)
    assert abs(z.mean()).item() < 0.03 and abs((abs(z) ** 2).mean().item() - 1) < 0.03
    u = strata.rand(20000, dtype=dtype)
    for part in (u.real, u.imag):
        assert 0 <= part.min() and part.max() < 1 and abs(part.mean().item() - 0.5) < 0.02


# (dtype, times 1j, times a 0-dim complex128, times a complex64 tensor, zero-dimensional times 1j), by PyTorch
PROMOTED = [
    ("bool", "complex64", "complex128", "complex64", "complex64"),
    ("int64", "complex64", "complex128", "complex64", "complex64"),
    ("float32", "complex64", "complex64", "complex64", "complex64"),
    ("float64", "complex128", "complex128", "complex128", "complex128"),
    ("complex64", "complex64", "complex64", "complex64", "complex64"),
    ("complex128", "complex128", "complex128", "complex128", "complex128"),
]


@pytest.mark.parametrize("row", PROMOTED, ids=lambda row: row[0])
def test_promotion(row):
    name, number, zero_dim, tensor, alone = row
    x = strata.ones(2, dtype=getattr(strata, name))
    for got, want in (
        (x * 1j, number),
        (x * strata.tensor(1j, dtype=strata.complex128), zero_dim),
        (x * strata.ones(2, dtype=strata.complex64), tensor),
        (x[0] * 1j, alone),
        (1j + x, number),
    ):
        assert str(got.dtype) == f"strata.{want}"
    assert strata.result_type(x, 1j) is getattr(strata, number)


def test_promote_types():
    real = (strata.bool, strata.uint8, strata.int64, strata.float32)
    for t in real:
        assert strata.promote_types(t, strata.complex64) is strata.complex64
    assert strata.promote_types(strata.float64, strata.complex64) is strata.complex128
    assert strata.promote_types(strata.complex64, strata.complex128) is strata.complex128
    assert strata.complex64.to_real() is strata.float32 and strata.float64.to_complex() is strata.complex128
    assert strata.can_cast(strata.float64, strata.complex64) and not strata.can_cast(strata.complex64, strata.float64)
    assert strata.finfo(strata.complex64).bits == 32 and strata.cfloat is strata.complex64


PRINTED = [
    ("strata.tensor([1+2j, 3.5-1j])", "tensor([1.0000+2.j, 3.5000-1.j])"),
    ("strata.tensor(1j)", "tensor(0.+1.j)"),
    (
        "strata.tensor([[1+0j, -2.25j],[1e-5, 3]])",
        "tensor([[1.0000e+00+0.0000j, -0.0000e+00-2.2500j],\n        [1.0000e-05+0.0000j, 3.0000e+00+0.0000j]])",
    ),
    ("strata.zeros(2,dtype=strata.complex128)", "tensor([0.+0.j, 0.+0.j], dtype=strata.complex128)"),
    ("strata.tensor([complex('nan'), complex('inf'), 1+1j])", "tensor([nan+0.j, inf+0.j, 1.+1.j])"),
    ("strata.tensor([1e10+1j, 1+1e-10j])", "tensor([1.0000e+10+1.0000e+00j, 1.0000e+00+1.0000e-10j])"),
    ("strata.empty(0,dtype=strata.complex64)", "tensor([], dtype=strata.complex64)"),
    (
        "strata.arange(12).reshape(3,4)*(1+0.5j)",
        "tensor([[ 0.+0.0000j,  1.+0.5000j,  2.+1.0000j,  3.+1.5000j],\n"
        "        [ 4.+2.0000j,  5.+2.5000j,  6.+3.0000j,  7.+3.5000j],\n"
        "        [ 8.+4.0000j,  9.+4.5000j, 10.+5.0000j, 11.+5.5000j]])",
    ),
    (
        "strata.arange(2000)*1j",
        "tensor([0.+0.0000e+00j, 0.+1.0000e+00j, 0.+2.0000e+00j,  ..., 0.+1.9970e+03j,\n"
        "        0.+1.9980e+03j, 0.+1.9990e+03j])",
    ),
    ("strata.tensor([1+2j],requires_grad=True)*2", "tensor([2.+4.j], grad_fn=<MulBackward0>)"),
    ("strata.tensor([100+0.001j, -0.5-200j])", "tensor([100.0000+1.0000e-03j,  -0.5000-2.0000e+02j])"),
]


@pytest.mark.parametrize("code, text", PRINTED, ids=[p[0] for p in PRINTED])
def test_printing(code, text):
    assert repr(eval(code)) == text


# --- interchange -----------------------------------------------------------------------------------------------------


@both
def test_numpy_and_dlpack_share_memory(dtype):
    a = random(np.random.default_rng(0), 3, 4, dtype=DTYPES[dtype])
    t = strata.from_numpy(a)
    assert t.dtype is dtype and t.stride() == (4, 1)
    t[1, 2] = 5 - 1j
    assert a[1, 2] == 5 - 1j
    assert np.shares_memory(t.numpy(), a) and (t.t().numpy() == a.T).all()
    back = np.from_dlpack(t)
    assert back.dtype == a.dtype and np.shares_memory(back, a)
    assert (strata.from_dlpack(t) == t).all()
    assert strata.tensor(a).dtype is dtype and strata.tensor(a[0, 0], dtype=dtype).item() == a[0, 0]


@both
def test_numbers_and_lists(dtype):
    z = strata.tensor([[1 + 2j, 3], [4j, -5]], dtype=dtype)
    assert z.tolist() == [[1 + 2j, 3 + 0j], [4j, -5 + 0j]]
    assert z[0, 0].item() == 1 + 2j == complex(z[0, 0]) and isinstance(z[0, 1].item(), complex)
    assert float(z[0, 1]) == 3.0 and int(z[0, 1]) == 3 and bool(z[1, 0])
    with pytest.raises(RuntimeError, match="complex"):
        float(z[0, 0])


@both
def test_files(dtype, tmp_path):
    z = strata.randn(3, 4, dtype=dtype)
    assert strata.equal(pickle.loads(pickle.dumps(z)), z)
    strata.save({"z": z}, tmp_path / "z.pt")
    assert strata.equal(strata.load(tmp_path / "z.pt")["z"], z)
    from strata.safetensors import load_file, save_file

    if dtype is strata.complex64:
        save_file({"z": z}, tmp_path / "z.safetensors")
        assert strata.equal(load_file(tmp_path / "z.safetensors")["z"], z)
    else:
        with pytest.raises(TypeError, match="safetensors files cannot hold complex128"):
            save_file({"z": z}, tmp_path / "z.safetensors")


def test_conversions():
    z = strata.tensor([1.5 + 2j, -3j])
    with pytest.warns(UserWarning, match="discards the imaginary part"):
        assert z.to(strata.float64).tolist() == [1.5, 0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert z.to(strata.bool).tolist() == [True, True] and z.to(strata.complex128).dtype is strata.complex128
        assert strata.tensor([2, 3]).to(strata.complex64).tolist() == [2 + 0j, 3 + 0j]
        assert strata.tensor([True]).to(strata.complex64).tolist() == [1 + 0j]


# --- views and movement ----------------------------------------------------------------------------------------------


@both
def test_parts_are_views_that_can_be_written(dtype):
    z = strata.randn(3, 4, dtype=dtype)
    a = z.numpy()
    assert (z.real.numpy() == a.real).all() and (z.imag.numpy() == a.imag).all()
    assert z.real.stride() == (8, 2) and z.imag.data_ptr() == z.data_ptr() + a.itemsize // 2
    z.real = 1.0
    z.imag[0] = 7
    z.imag.add_(1)
    assert (a.real == 1).all() and (a[0].imag == 8).all()
    pairs = strata.view_as_real(z.t())
    assert pairs.shape == (4, 3, 2) and (pairs.numpy()[..., 1] == a.T.imag).all()
    assert strata.equal(strata.view_as_complex(pairs), z.t())
    assert z.t().H.shape == (3, 4) and (z.mH.numpy() == a.conj().T).all()
    assert not z.is_conj() and z.resolve_conj() is z and strata.real(strata.ones(2)).dtype is strata.float32
    assert strata.isreal(strata.tensor([1 + 0j, 1j])).tolist() == [True, False]


@both
def test_movement(dtype):
    rng = np.random.default_rng(1)
    a = random(rng, 5, 7, 3, dtype=DTYPES[dtype])
    t = strata.from_numpy(a)
    index, mask = np.array([3, 0, 3]), rng.random((5, 7, 3)) < 0.5
    i, m = strata.from_numpy(index), strata.from_numpy(mask)
    for got, want in (
        (t.permute(2, 0, 1).contiguous(), a.transpose(2, 0, 1)),
        (strata.cat([t, t[:2]]), np.concatenate([a, a[:2]])),
        (t[i], a[index]),
        (t[m], a[mask]),
        (t.flip(1), a[:, ::-1]),
        (t.roll(2, 1), np.roll(a, 2, 1)),
        (strata.where(m, t, 1j), np.where(mask, a, np.array(1j, a.dtype))),
        (t.masked_fill(m, 2 - 1j), np.where(mask, np.array(2 - 1j, a.dtype), a)),
        (t.transpose(0, 2)[1:, ::2].clone(), a.transpose(2, 1, 0)[1:, ::2]),
        (strata.tril(t[..., 0]), np.tril(a[..., 0])),
        (strata.nn.functional.pad(t, (1, 2)), np.pad(a, ((0, 0), (0, 0), (1, 2)))),
        (t.repeat(2, 1, 1), np.tile(a, (2, 1, 1))),
        (strata.gather(t, 0, i.view(3, 1, 1).expand(3, 7, 3)), a[index]),
    ):
        assert got.dtype is dtype and (got.numpy() == want).all()
    b = a.copy()
    u = strata.from_numpy(b)
    u[i[:2]] = 3j
    a2 = a.copy()
    a2[index[:2]] = 3j
    u.index_put_((strata.tensor([0, 0]),), strata.ones(7, 3, dtype=dtype), accumulate=True)
    a2[0] += 2
    assert (b == a2).all()
    s = strata.zeros(4, dtype=dtype).scatter_add_(0, strata.tensor([1, 1, 3]), strata.tensor([1j, 2, 3], dtype=dtype))
    assert s.tolist() == [0, 2 + 1j, 0, 3]


@both
def test_bytes_are_viewed_as_other_dtypes(dtype):
    z = strata.randn(3, 4, dtype=dtype)
    parts = z.view(dtype.to_real())
    assert parts.shape == (3, 8) and (parts.numpy() == z.numpy().view(parts.numpy().dtype)).all()
    assert strata.equal(parts.view(dtype), z) and z.view(strata.uint8).shape == (3, 4 * z.itemsize)


# --- arithmetic ------------------------------------------------------------------------------------------------------

FUNCTIONS = {
    **{n: n for n in ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "sin", "cos", "tan")},
    **{n: n for n in ("sinh", "cosh", "tanh", "square", "reciprocal", "angle", "abs", "isnan", "isinf", "isfinite")},
    **{"a" + n: "arc" + n for n in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
    "neg": "negative",
    "conj": "conj",
    "positive": "positive",
}


@pytest.mark.parametrize("name", FUNCTIONS)
@both
def test_functions_agree_with_numpy(name, dtype):
    rng = np.random.default_rng(7)
    a = np.concatenate([random(rng, 500), 3 * random(rng, 500), 1e-3 * random(rng, 500)])
    got = getattr(strata, name)(strata.from_numpy(a.astype(DTYPES[dtype]))).numpy()
    want = getattr(np, FUNCTIONS[name])(a.astype(DTYPES[dtype]).astype(np.complex128))
    eps = 2e-6 if dtype is strata.complex64 else 2e-14
    np.testing.assert_allclose(got, want, rtol=eps, atol=eps)


@pytest.mark.parametrize("name", ["exp", "log", "sqrt", "sin", "cos", "sinh", "cosh", "tanh", "asin", "acos", "atan", "asinh", "acosh", "atanh"])  # fmt: skip
def test_special_points_agree_with_numpy(name):
    values = [0.0, -0.0, 1.0, -1.0, 2.0, np.inf, -np.inf, np.nan, 1e300, 1e-300]
    points = np.array([complex(x, y) for x, y in itertools.product(values, values)])
    got = getattr(strata, name)(strata.from_numpy(points)).numpy()
    with np.errstate(all="ignore"):
        want = getattr(np, FUNCTIONS[name])(points)
    for z, g, w in zip(points, got, want, strict=True):
        for a, b in ((g.real, w.real), (g.imag, w.imag)):
            if name == "acosh" and z.real == 0 and np.isnan(z.imag):
                continue  # NaN + i pi / 2 by the C standard, NaN + i NaN by NumPy
            same = (np.isnan(a) and np.isnan(b)) or np.isclose(a, b, rtol=1e-13, atol=0)
            # The sign of a zero or infinite part is not specified where the other is NaN.
            free = np.isnan(g.real) or np.isnan(g.imag)
            assert same or (free and abs(a) == abs(b)), f"{name}({z}) = {g}, expected {w}"
            if a == 0 and b == 0 and not free:
                assert np.signbit(a) == np.signbit(b), f"{name}({z}) = {g}, expected {w}"


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "pow"])
@pytest.mark.parametrize("shapes", [((37,), (37,)), ((5, 1), (3,)), ((), (4,)), ((0, 3), (3,))], ids=str)
@both
def test_binary_functions_agree_with_numpy(name, shapes, dtype):
    rng = np.random.default_rng(3)
    a, b = (random(rng, *s, dtype=DTYPES[dtype]) for s in shapes)
    name_there = {"sub": "subtract", "mul": "multiply", "div": "divide", "pow": "power"}.get(name, name)
    want = getattr(np, name_there)(a.astype(np.complex128), b.astype(np.complex128))
    got = getattr(strata, name)(strata.from_numpy(a), strata.from_numpy(b)).numpy()
    eps = 1e-5 if dtype is strata.complex64 else 1e-13
    np.testing.assert_allclose(got, want, rtol=eps, atol=eps)
    r = np.asarray(rng.normal(size=shapes[1]))
    mixed = getattr(strata, name)(strata.from_numpy(a), strata.from_numpy(r)).numpy()
    np.testing.assert_allclose(mixed, getattr(np, name_there)(a.astype(np.complex128), r), rtol=eps, atol=eps)


def test_numbers_as_operands():
    a = random(np.random.default_rng(5), 6)
    t = strata.from_numpy(a)
    for got, want in (
        (t + 1j, a + 1j),
        (2 * t, 2 * a),
        (1j / t, 1j / a),
        (t**2, a**2),
        (t**-3, a**-3.0),
        (2**t, 2**a),
        (t - (1 - 1j), a - (1 - 1j)),
        (strata.add(t, t, alpha=2j), a + 2j * a),
        (strata.addcmul(t, t, t, value=1j), a + 1j * a * a),
        (strata.addcdiv(t, t, t + 1), a + a / (a + 1)),
        (strata.lerp(t, t + 1, 0.25), a + 0.25),
        (strata.polar(abs(t), t.angle()), a),
        (strata.complex(t.real, t.imag), a),
        (strata.sgn(t), a / abs(a)),
        (t.sigmoid(), 1 / (1 + np.exp(-a))),
        (t.rsqrt(), 1 / np.sqrt(a)),
    ):
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-13)
    t += 1j
    t *= 2
    np.testing.assert_allclose(t.numpy(), a)
    assert ((t == t) & ~(t != t)).all() and strata.allclose(t, t + 1e-9) and not strata.equal(t, t + 1)
    out = strata.empty(6, dtype=strata.complex128)
    strata.mul(t, t, out=out)
    np.testing.assert_allclose(out.numpy(), a * a)


def test_infinite_summands_stay_infinite():
    z = strata.tensor([complex("inf"), complex(0, float("inf"))])
    assert (z + 1j).tolist() == [complex(float("inf"), 1), complex(0, float("inf"))]


# --- sums, products, linear algebra ----------------------------------------------------------------------------------


@both
def test_reductions_agree_with_numpy(dtype):
    a = random(np.random.default_rng(2), 4, 5, 6, dtype=DTYPES[dtype])
    t, w = strata.from_numpy(a), a.astype(np.complex128)
    eps = 1e-5 if dtype is strata.complex64 else 1e-13
    for got, want in (
        (t.sum(), w.sum()),
        (t.sum((0, 2), keepdim=True), w.sum((0, 2), keepdims=True)),
        (t.mean(1), w.mean(1)),
        (t.prod(1), w.prod(1)),
        (t.cumsum(2), w.cumsum(2)),
        (t.cumprod(0), w.cumprod(0)),
        (t.var(1), w.var(1, ddof=1)),
        (t.std(), w.std(ddof=1)),
        (t.norm(), np.linalg.norm(w)),
        (strata.linalg.vector_norm(t, 3, 1), (abs(w) ** 3).sum(1) ** (1 / 3)),
        (strata.linalg.matrix_norm(t, "nuc"), np.linalg.norm(w, "nuc", (1, 2))),
        (t.any(0), w.any(0)),
        (t.all(), w.all()),
        (t.sum(0)[:0].prod(0), w.sum(0)[:0].prod(0)),
    ):
        np.testing.assert_allclose(got.numpy(), want, rtol=eps, atol=eps * 10)
    assert t.norm().dtype is dtype.to_real() and strata.count_nonzero(t).item() == 120


@both
def test_products_agree_with_numpy(dtype):
    rng = np.random.default_rng(4)
    a, b, v = (random(rng, *s, dtype=DTYPES[dtype]) for s in ((3, 4, 5), (3, 5, 2), (5,)))
    x, y, u = map(strata.from_numpy, (a, b, v))
    eps = 1e-5 if dtype is strata.complex64 else 1e-13
    for got, want in (
        (x @ y, a @ b),
        (x[0] @ y[0], a[0] @ b[0]),
        (x @ u, a @ v),
        (u @ y, v @ b),
        (strata.dot(u, u), v @ v),
        (strata.vdot(u, u), np.vdot(v, v)),
        (strata.outer(u, u), np.outer(v, v)),
        (strata.inner(x, u), np.inner(a, v)),
        (strata.einsum("bij,bjk->ik", x, y), np.einsum("bij,bjk->ik", a, b)),
        (strata.tensordot(x, y, ([0, 2], [0, 1])), np.tensordot(a, b, ([0, 2], [0, 1]))),
        (strata.baddbmm(x @ y, x, y, beta=0.5, alpha=2), 2.5 * (a @ b)),
        (strata.addmm(x[0] @ y[0], x[0], y[0], alpha=1j), (1 + 1j) * (a[0] @ b[0])),
        (strata.kron(x[0], y[0]), np.kron(a[0], b[0])),
        (strata.linalg.matrix_power(x[:, :, :4], 3), np.linalg.matrix_power(a[:, :, :4], 3)),
        (x[:, :0] @ y, a[:, :0] @ b),
        (x[..., :0] @ y[:, :0], a[..., :0] @ b[:, :0]),
    ):
        assert got.dtype is dtype
        np.testing.assert_allclose(got.numpy(), want, rtol=eps, atol=eps * 10)
    with pytest.raises(RuntimeError, match="same dtype"):
        x @ y.real
    with pytest.raises(RuntimeError, match="inner sizes 5 and 2"):
        x @ y.mT


@both
def test_systems_agree_with_numpy(dtype):
    rng = np.random.default_rng(6)
    a, b = (
        random(rng, 2, 4, 4, dtype=DTYPES[dtype]) + 4 * np.eye(4, dtype=DTYPES[dtype]),
        random(rng, 2, 4, 3, dtype=DTYPES[dtype]),
    )
    x, y = strata.from_numpy(a), strata.from_numpy(b)
    h = a + a.conj().swapaxes(1, 2)
    eps = 2e-4 if dtype is strata.complex64 else 1e-12
    for got, want in (
        (strata.linalg.inv(x), np.linalg.inv(a)),
        (strata.linalg.solve(x, y), np.linalg.solve(a, b)),
        (strata.linalg.svdvals(y), np.linalg.svd(b, compute_uv=False)),
        (strata.linalg.eigvalsh(strata.from_numpy(h)), np.linalg.eigvalsh(h)),
        (strata.linalg.eigvalsh(strata.from_numpy(h), UPLO="U"), np.linalg.eigvalsh(h)),
    ):
        np.testing.assert_allclose(got.numpy(), want, rtol=eps, atol=eps)
    with pytest.raises(RuntimeError, match="singular"):
        strata.linalg.inv(strata.zeros(3, 3, dtype=dtype))


def test_convolution_agrees_with_direct_summation():
    rng = np.random.default_rng(8)
    a, w, bias = random(rng, 2, 3, 9), random(rng, 4, 3, 3), random(rng, 4)
    want = np.stack([np.einsum("bcl,ocl->bo", a[:, :, i : i + 3], w) for i in range(7)], -1) + bias[:, None]
    got = strata.nn.functional.conv1d(*map(strata.from_numpy, (a, w, bias)))
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-12)


# --- what has no complex meaning -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        lambda z: z < 1,
        lambda z: z.max(),
        lambda z: z.floor(),
        lambda z: z.sort(),
        lambda z: z // 2,
        lambda z: z % 2,
        lambda z: z.clamp(0),
        lambda z: strata.relu(z),
        lambda z: z.argmax(),
        lambda z: z.cummax(0),
        lambda z: strata.softmax(z, 0),
        lambda z: strata.nn.functional.mse_loss(z, z),
        lambda z: strata.maximum(z, z),
        lambda z: strata.topk(z, 1),
        lambda z: z.median(),
        lambda z: strata.div(z, z, rounding_mode="floor"),
        lambda z: strata.arange(3, dtype=strata.complex64),
        lambda z: strata.ones(3).sum(dtype=strata.complex64),
        lambda z: strata.scatter_reduce(z, 0, strata.tensor([0]), z[:1], "prod"),
    ],
)  # fmt: skip
def test_ops_without_a_complex_meaning_raise(call):
    with pytest.raises((NotImplementedError, TypeError, RuntimeError), match="complex"):
        call(strata.tensor([1 + 1j, 2j]))


def test_complex_numbers_do_not_fit_into_real_tensors():
    x = strata.ones(2)
    for call in (
        lambda: x.fill_(1j),
        lambda: x.add_(1j),
        lambda: strata.full((2,), 1j, dtype=strata.float32),
        lambda: x.masked_fill_(strata.tensor([True, False]), 1j),
        lambda: x.__setitem__(0, 1j),
        lambda: strata.add(x, x, alpha=1j),
        lambda: strata.mul(x, 1j, out=strata.empty(2)),
    ):
        with pytest.raises(RuntimeError):
            call()
    with pytest.raises(TypeError):
        strata.tensor([1j], dtype=strata.float32)
    with pytest.raises(TypeError, match="non-complex"):
        _ = x.imag
    assert x.tolist() == [1, 1]
