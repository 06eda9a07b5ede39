"""Decompositions of real and complex matrices: what they reconstruct, NumPy's values, gradients, errors."""

import numpy as np
import pytest
import records
import strata

DTYPES = [strata.float32, strata.float64, strata.complex64, strata.complex128]
SHAPES = [(1, 1), (3, 3), (2, 4, 4), (12, 12), (40, 40)]
BOTH = ["chosen", "reference"]  # the kernel that is chosen, which for large matrices may be LAPACK's; our own plain one


@pytest.fixture(params=BOTH)
def kernels(request):
    if request.param == "reference":
        with records.reference_kernels():
            yield
    else:
        yield


def tolerance(dtype, n):
    return n * (2e-6 if dtype in (strata.float32, strata.complex64) else 2e-14)


def draw(shape, dtype, seed=0):
    r = np.random.default_rng([seed, *shape])
    x = r.standard_normal(shape)
    if dtype.is_complex:
        x = x + 1j * r.standard_normal(shape)
    return strata.from_numpy(x).to(dtype)


def assert_near(got, want, dtype, n):
    got, want = np.asarray(got.resolve_conj().numpy()), np.asarray(want)
    assert got.shape == want.shape
    scale = max(1.0, float(np.abs(want).max(initial=0)))
    assert np.abs(got - want).max(initial=0) <= tolerance(dtype, n) * scale


def identity_like(q):
    return np.broadcast_to(np.eye(q.shape[-1]), (*q.shape[:-2], q.shape[-1], q.shape[-1]))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_factors_reconstruct_the_matrix(kernels, dtype, shape):
    n, a = shape[-1], draw(shape, dtype)
    host = a.numpy()
    p, l, u = strata.linalg.lu(a)
    assert_near(p @ l @ u, host, dtype, n)
    q, r = strata.linalg.qr(a)
    assert_near(q @ r, host, dtype, n)
    assert_near(q.mH @ q, identity_like(q), dtype, n)
    assert not np.imag(np.diagonal(r.numpy(), axis1=-2, axis2=-1)).any()
    positive = a @ a.mH + strata.eye(n, dtype=dtype)
    for upper in (False, True):
        c = strata.linalg.cholesky(positive, upper=upper)
        assert_near(c.mH @ c if upper else c @ c.mH, positive.numpy(), dtype, n)
    w, v = strata.linalg.eigh(a + a.mH)
    assert w.dtype == strata.real(a).dtype
    assert_near((v * w.unsqueeze(-2)) @ v.mH, (a + a.mH).numpy(), dtype, n)
    w, v = strata.linalg.eig(a)
    assert_near(a.to(w.dtype) @ v, (v * w.unsqueeze(-2)).numpy(), dtype, 4 * n)
    assert_near((v.abs() ** 2).sum(-2), np.ones(w.shape), dtype, n)
    u, h = strata.linalg.polar(a)
    assert_near(u @ h, host, dtype, n)
    assert_near(u.mH @ u, identity_like(u), dtype, n)
    root = strata.linalg.matrix_sqrth(positive)
    assert_near(root @ root, positive.numpy(), dtype, n)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (2, 4, 1), (30, 11), (11, 30)], ids=str)
@pytest.mark.parametrize("full", [False, True])
def test_svd_and_qr_of_rectangles(kernels, dtype, shape, full):
    a = draw(shape, dtype)
    u, s, vh = strata.linalg.svd(a, full_matrices=full)
    k = min(shape[-2:])
    assert_near((u[..., :k] * s.unsqueeze(-2)) @ vh[..., :k, :], a.numpy(), dtype, max(shape))
    assert_near(u.mH @ u, identity_like(u), dtype, max(shape))
    assert_near(vh @ vh.mH, identity_like(vh.mH), dtype, max(shape))
    assert_near(s, np.linalg.svd(a.numpy(), compute_uv=False), dtype, max(shape))
    assert_near(strata.linalg.svdvals(a), s.numpy(), dtype, max(shape))
    q, r = strata.linalg.qr(a, mode="complete" if full else "reduced")
    assert_near(q @ r, a.numpy(), dtype, max(shape))
    x = strata.linalg.pinv(a)
    assert_near(x, np.linalg.pinv(a.numpy()), dtype, 20 * max(shape))


@pytest.mark.parametrize("dtype", [strata.complex64, strata.complex128], ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_values_of_complex_matrices(kernels, dtype, shape):
    n, a = shape[-1], draw(shape, dtype)
    host = a.numpy().astype(np.complex128)
    sign, log = np.linalg.slogdet(host)
    got = strata.linalg.slogdet(a)
    assert_near(got[0], sign, dtype, 40 * n)
    assert_near(got[1], log, dtype, 40 * n)
    if n < 20:
        assert_near(strata.linalg.det(a), np.linalg.det(host), dtype, 10 * n)
        assert_near(strata.logdet(a).exp(), np.linalg.det(host), dtype, 10 * n)
        assert_near(strata.linalg.matrix_exp(a).abs().log1p(), np.log1p(np.abs(exponential(host))), dtype, 100 * n)
    b = draw((*shape[:-1], 2), dtype, 1)
    assert_near(strata.linalg.solve(a, b), np.linalg.solve(host, b.numpy()), dtype, 1000 * n)
    assert_near(strata.linalg.inv(a), np.linalg.inv(host), dtype, 1000 * n)
    assert_near(strata.linalg.cond(a).log(), np.log(np.linalg.cond(host)), dtype, 1000 * n)
    assert strata.linalg.matrix_rank(a).tolist() == np.linalg.matrix_rank(host).tolist()
    factor, pivots = strata.linalg.lu_factor(a)
    for adjoint in (False, True):
        for left in (False, True):
            m = a.mH if adjoint else a
            side = b if left else b.mT
            x = strata.linalg.lu_solve(factor, pivots, side, adjoint=adjoint, left=left)
            assert_near(m @ x if left else x @ m, side.numpy(), dtype, 1000 * n)
    lower = a.tril(-1) / n + strata.eye(n, dtype=dtype)
    assert_near(lower @ lower.mH @ strata.cholesky_solve(b, lower), b.numpy(), dtype, 20 * n)
    compact, tau = strata.geqrf(a)
    q, _ = strata.linalg.qr(a)
    assert_near(strata.linalg.householder_product(compact, tau), q.numpy(), dtype, 4 * n)
    assert_near(strata.ormqr(compact, tau, b, transpose=True), (q.mH @ b).numpy(), dtype, 4 * n)
    assert_near(strata.ormqr(compact, tau, b.mH, left=False), (b.mH @ q).numpy(), dtype, 4 * n)


def exponential(a):
    w, v = np.linalg.eig(a)
    return (v * np.exp(w)[..., None, :]) @ np.linalg.inv(v)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("hermitian", [False, True])
@pytest.mark.parametrize("n", [1, 2, 5, 17])
def test_ldl_solves_indefinite_systems(dtype, hermitian, n):
    a = draw((3, n, n), dtype)
    a = a + (a.mH if hermitian else a.mT)
    a[:, range(n), range(n)] = 0 if n > 1 else 1  # needs blocks of two rows
    factor, pivots, info = strata.linalg.ldl_factor_ex(a, hermitian=hermitian)
    assert info.tolist() == [0, 0, 0] and pivots.dtype == strata.int32 and not factor.triu(1).any()
    b = draw((3, n, 2), dtype, 1)
    x = strata.linalg.ldl_solve(factor, pivots, b, hermitian=hermitian)
    assert_near(a @ x, b.numpy(), dtype, 300 * n)


def test_ldl_of_a_singular_matrix():
    assert strata.linalg.ldl_factor_ex(strata.zeros(2, 2))[2].item() == 1
    with pytest.raises(RuntimeError, match="D\\[1,1\\] is zero"):
        strata.linalg.ldl_factor(strata.zeros(2, 2))
    with pytest.raises(NotImplementedError):
        strata.linalg.ldl_factor(strata.eye(2, requires_grad=True))[0].sum().backward()


@pytest.mark.parametrize(
    "name", ["det", "slogdet", "lu", "qr", "eigh", "svd", "cholesky", "eig", "polar", "matrix_sqrth"]
)
@pytest.mark.parametrize("shape", [(0, 0), (0, 3, 3), (2, 0, 0)], ids=str)
def test_empty_matrices(name, shape):
    for dtype in DTYPES:
        outs = getattr(strata.linalg, name)(strata.zeros(shape, dtype=dtype))
        for out in outs if isinstance(outs, tuple) else [outs]:
            assert out.shape[: len(shape) - 2] == shape[:-2]
    assert strata.linalg.det(strata.zeros(2, 0, 0, dtype=strata.complex64)).tolist() == [1, 1]


@pytest.mark.parametrize("dtype", [strata.float64, strata.complex128], ids=str)
def test_strided_matrices(dtype):
    wide = draw((6, 8, 3), dtype)
    a = wide[::2, 1:4].mT  # [3, 3, 3]
    assert not a.is_contiguous()
    for f in (strata.linalg.det, strata.linalg.inv, strata.linalg.svdvals, strata.linalg.eigvals):
        assert np.array_equal(f(a).numpy(), f(a.contiguous()).numpy())


def phase_free(f):
    """Products of vectors and their conjugates, which do not depend on the phase."""

    def g(a):
        outs = f(a)
        return tuple(o.abs() for o in outs)

    return g


CASES = {
    "det": strata.linalg.det,
    "slogdet": strata.linalg.slogdet,
    "logdet": strata.logdet,
    "inv": strata.linalg.inv,
    "lu": lambda a: strata.linalg.lu(a)[1:],
    "qr": strata.linalg.qr,
    "qr of a wide one": lambda a: strata.linalg.qr(a[:2]),
    "cholesky": lambda a: strata.linalg.cholesky(a @ a.mH + strata.eye(3, dtype=a.dtype)),
    "upper cholesky": lambda a: strata.linalg.cholesky(a @ a.mH + strata.eye(3, dtype=a.dtype), upper=True),
    "cholesky_inverse": lambda a: strata.cholesky_inverse(a.tril()),
    "eigh": phase_free(lambda a: strata.linalg.eigh(a + a.mH)),
    "eigvalsh": lambda a: strata.linalg.eigvalsh(a + a.mH),
    "eig": phase_free(strata.linalg.eig),
    "eigvals": strata.linalg.eigvals,
    "svd": phase_free(strata.linalg.svd),
    "svd, relative phase": lambda a: (lambda u, s, vh: u @ vh)(*strata.linalg.svd(a[:2], full_matrices=False)),
    "tall svd, relative phase": lambda a: (lambda u, s, vh: u @ vh)(*strata.linalg.svd(a[:, :2], full_matrices=False)),
    "svdvals": strata.linalg.svdvals,
    "pinv": lambda a: strata.linalg.pinv(a[:2]),
    "lstsq": lambda a: strata.linalg.lstsq(a[:, :2], a[:, 2:]).solution,
    "matrix_exp": strata.linalg.matrix_exp,
    "polar": strata.linalg.polar,
    "tall polar": lambda a: strata.linalg.polar(a[:, :2]),
    "matrix_sqrth": lambda a: strata.linalg.matrix_sqrth(a @ a.mH + strata.eye(3, dtype=a.dtype)),
    "cond": lambda a: strata.linalg.cond(a),
}


@pytest.mark.parametrize("dtype", [strata.float64, strata.complex128], ids=str)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_gradients(case, dtype):
    a = (draw((3, 3), dtype, 5) + 2 * strata.eye(3, dtype=dtype)).requires_grad_()
    if case == "logdet" and not dtype.is_complex:
        a = (a.detach() @ a.detach().mT).requires_grad_()
    assert strata.autograd.gradcheck(CASES[case], (a,))
    if case != "cond":
        assert strata.autograd.gradgradcheck(CASES[case], (a,), atol=1e-4)


@pytest.mark.parametrize("name,values", [("eigh", 1), ("svd", 0), ("eig", 1)])
def test_a_loss_that_depends_on_a_phase_raises(name, values):
    a = draw((3, 3), strata.complex128)
    a = (a + a.mH if name == "eigh" else a).requires_grad_()
    with pytest.raises(RuntimeError, match="ill-defined"):
        (getattr(strata.linalg, name)(a)[values] * (1 + 2j) * a.detach()).imag.sum().backward()


@pytest.mark.parametrize("dtype", [strata.float32, strata.float64], ids=str)
@pytest.mark.parametrize("n", [2, 3, 4, 9, 33])
def test_complex_eigenvalues_of_real_matrices_are_exact_pairs(kernels, dtype, n):
    w = strata.linalg.eigvals(draw((n, n), dtype, 3)).numpy()
    ours = sorted(w.tolist(), key=lambda z: (z.real, z.imag))
    assert ours == sorted(w.conj().tolist(), key=lambda z: (z.real, z.imag))
    want = sorted(
        np.linalg.eigvals(draw((n, n), dtype, 3).numpy().astype(np.float64)).tolist(),
        key=lambda z: (round(z.real, 3), z.imag),
    )
    ours = sorted(w.tolist(), key=lambda z: (round(z.real, 3), z.imag))
    assert np.abs(np.array(ours) - want).max() < tolerance(dtype, 30 * n)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_eigenvalues_of_special_matrices(kernels, dtype):
    defective = strata.eye(4, dtype=dtype) + strata.ones(4, 4, dtype=dtype).triu(1)
    w, v = strata.linalg.eig(defective)
    assert np.isfinite(v.numpy()).all()
    assert np.abs(w.numpy() - 1).max() < (0.1 if dtype in (strata.float32, strata.complex64) else 1e-3)
    assert strata.linalg.eigvals(strata.zeros(3, 3, dtype=dtype)).tolist() == [0, 0, 0]
    rotation = strata.tensor([[0.0, -1.0], [1.0, 0.0]]).to(dtype)
    turned = np.array(sorted(strata.linalg.eigvals(rotation).tolist(), key=lambda z: z.imag))
    assert np.abs(turned - [-1j, 1j]).max() < tolerance(dtype, 1)
    badly_scaled = strata.tensor([[1.0, 1e6], [1e-6, 1.0]]).to(dtype)
    got = sorted(strata.linalg.eigvals(badly_scaled).real.tolist())
    assert abs(got[0]) < 1e-5 and abs(got[1] - 2) < 1e-5
    permutation = strata.eye(5, dtype=dtype)[[1, 2, 3, 4, 0]]  # shifts by the last element alone do not converge
    assert np.abs(np.abs(strata.linalg.eigvals(permutation).numpy()) - 1).max() < 1e-5
    with pytest.raises(RuntimeError, match="infs or NaNs"):
        strata.linalg.eig(strata.full((2, 2), float("nan"), dtype=dtype))


@pytest.mark.parametrize("dtype", [strata.complex64, strata.complex128], ids=str)
def test_singular_complex_matrices(kernels, dtype):
    singular = strata.tensor([[1 + 1j, 2], [2 + 2j, 4]]).to(dtype)
    assert abs(strata.linalg.det(singular).item()) < 1e-5
    zero = strata.zeros(2, 2, dtype=dtype)
    with pytest.raises(RuntimeError, match="singular"):
        strata.linalg.inv(zero)
    with pytest.raises(RuntimeError, match="singular"):
        strata.linalg.solve(zero, zero)
    with pytest.raises(RuntimeError, match="not positive-definite"):
        strata.linalg.cholesky(-strata.eye(2, dtype=dtype))
    assert strata.linalg.matrix_rank(singular).item() == 1
    assert strata.linalg.slogdet(zero)[1].item() == -np.inf
    a = singular.clone().requires_grad_()
    strata.linalg.det(a).abs().backward()
    assert np.isfinite(a.grad.numpy()).all()


@pytest.mark.parametrize("name", ["lu", "qr", "eigh", "svd", "cholesky", "eig", "det", "polar"])
def test_on_the_virtual_gpu(name):
    a = draw((2, 3, 3), strata.complex64)
    a = a @ a.mH + strata.eye(3, dtype=a.dtype)
    function = getattr(strata.linalg, name)
    want, got = function(a), function(a.to("vgpu"))
    for w, g in zip(want if isinstance(want, tuple) else [want], got if isinstance(got, tuple) else [got], strict=True):
        assert g.device.type == "vgpu" and np.array_equal(g.cpu().numpy(), w.numpy())


def test_adjoint_conjugates():
    a = draw((2, 3), strata.complex64)
    assert np.array_equal(strata.adjoint(a).numpy(), a.numpy().conj().T)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "true_divide", "floor_divide"])
def test_two_plain_numbers_make_a_tensor(name):
    got = getattr(strata, name)(7, 2)
    want = {"add": 9, "sub": 5, "mul": 14, "div": 3.5, "true_divide": 3.5, "floor_divide": 3}[name]
    assert isinstance(got, strata.Tensor) and got.shape == () and got.item() == want
    assert got.dtype == (strata.float32 if "div" in name and "floor" not in name else strata.int64)


def test_hash_tensor_is_the_exclusive_or_of_the_bits():
    for x in (draw((4, 5), strata.float32), draw((7,), strata.float64), strata.arange(-3, 12).reshape(3, 5)):
        wide = x.numpy().astype(np.float64 if x.is_floating_point() else np.int64).view(np.uint64)
        assert strata.hash_tensor(x).numpy() == np.bitwise_xor.reduce(wide, None)
        for dim in range(x.dim()):
            assert np.array_equal(strata.hash_tensor(x, dim).numpy(), np.bitwise_xor.reduce(wide, dim))


@pytest.mark.parametrize("dtype", [strata.float64, strata.complex128], ids=str)
def test_covariance_with_weights(dtype):
    a = draw((3, 6), dtype).requires_grad_()
    frequencies, importance = strata.tensor([1, 2, 3, 1, 2, 1]), draw((6,), strata.float64).abs().requires_grad_()
    want = np.cov(a.detach().numpy(), fweights=frequencies.numpy(), aweights=importance.detach().numpy())
    assert_near(strata.cov(a, fweights=frequencies, aweights=importance).detach(), want, dtype, 10)
    assert_near(strata.corrcoef(a).detach(), np.corrcoef(a.detach().numpy()), dtype, 10)

    def weighted(x, w):
        return strata.cov(x, fweights=frequencies, aweights=w)

    assert strata.autograd.gradcheck(weighted, (a, importance))
