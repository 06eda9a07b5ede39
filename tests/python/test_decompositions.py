"""Decompositions and solvers of float32 matrices, which are computed in float32, beside NumPy in float64."""

import numpy as np
import pytest
import strata

SIZES = [1, 2, 5, 16, 17, 33, 64, 114, 150, 230]  # on both sides of blocks and of the sizes from which LAPACK is used
RTOL, EPS = 1.3e-6, np.finfo(np.float32).eps
L = strata.linalg


def general(n, seed=0, columns=None):
    return np.random.default_rng(seed + n).standard_normal((2, n, columns or n)).astype(np.float32)


def dominant(n, seed=0):
    """Matrices with a small condition number: errors of results are then those of the arithmetic."""
    return general(n, seed) + (2 * np.sqrt(n) + 1).astype(np.float32) * np.eye(n, dtype=np.float32)


def positive(n):
    a = dominant(n).astype(np.float64)
    return (a @ a.swapaxes(-1, -2)).astype(np.float32)


def close(got, want, rtol=RTOL):
    """Within rtol of the largest element."""
    got = np.asarray(got.numpy() if isinstance(got, strata.Tensor) else got, dtype=np.float64)
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=0, atol=rtol * max(np.abs(want).max(initial=0), 1e-300))


@pytest.mark.parametrize("n", SIZES)
def test_lu_and_solvers(n):
    a = dominant(n)
    x, wide = strata.tensor(a), a.astype(np.float64)
    b = general(n, 1, 3)
    P, lower, upper = L.lu(x)
    close(P.double() @ lower.double() @ upper.double(), wide)
    assert np.abs(lower.numpy()).max() <= 1 and (np.triu(lower.numpy(), 1) == 0).all()
    close(L.inv(x), np.linalg.inv(wide))
    close(L.solve(x, strata.tensor(b)), np.linalg.solve(wide, b.astype(np.float64)))
    sign, logarithm = np.linalg.slogdet(wide)
    got = L.slogdet(x)
    close(got.sign, sign)
    close(got.logabsdet, logarithm)
    scaled = a / np.exp(logarithm / n).astype(np.float32)[:, None, None]  # the determinant is about 1
    np.testing.assert_allclose(
        L.det(strata.tensor(scaled)).double().numpy(), np.linalg.det(scaled.astype(np.float64)), rtol=n * EPS
    )
    for upper in (False, True):
        part = np.triu(a) if upper else np.tril(a)
        want = np.linalg.solve(part.astype(np.float64), b.astype(np.float64))
        close(L.solve_triangular(x, strata.tensor(b), upper=upper), want)
        turned = L.solve_triangular(x.mT, strata.tensor(b), upper=not upper)
        close(turned, np.linalg.solve(part.swapaxes(-1, -2).astype(np.float64), b.astype(np.float64)))


@pytest.mark.parametrize("m, n", [(1, 3), (7, 40), (40, 7), (130, 33), (33, 130), (200, 17)])
def test_lu_of_matrices_that_are_not_square(m, n):
    a = general(m, n, n)
    P, lower, upper = L.lu(strata.tensor(a))
    close(P.double() @ lower.double() @ upper.double(), a.astype(np.float64))
    lu, pivots = L.lu_factor(strata.tensor(a).double())
    again, same = L.lu_factor(strata.tensor(a))
    assert strata.equal(pivots, same)
    np.testing.assert_allclose(again.numpy(), lu.numpy(), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("n", SIZES)
def test_cholesky(n):
    a = positive(n)
    x, want = strata.tensor(a), np.linalg.cholesky(a.astype(np.float64))
    close(L.cholesky(x), want)
    close(L.cholesky(x, upper=True), want.swapaxes(-1, -2))
    close(strata.cholesky_inverse(L.cholesky(x)), np.linalg.inv(a.astype(np.float64)), 4 * RTOL)
    # Only the named triangle is read.
    noise = np.triu(np.full_like(a, 99.0), 1)
    assert strata.equal(L.cholesky(strata.tensor(np.tril(a) + noise)), L.cholesky(x))


@pytest.mark.parametrize("n", [3, 20, 70])
def test_a_minor_that_is_not_positive_definite(n):
    a = positive(n)
    a[1, n // 2, n // 2] = -1
    factor, info = L.cholesky_ex(strata.tensor(a))
    assert info.tolist() == [0, n // 2 + 1]
    assert (np.triu(factor.numpy(), 1) == 0).all()


@pytest.mark.parametrize("m, n", [(n, n) for n in SIZES] + [(140, 30), (30, 140), (300, 200)])
def test_qr(m, n):
    a = general(m, n, n)
    Q, R = L.qr(strata.tensor(a))
    close(Q.double() @ R.double(), a.astype(np.float64), 2 * RTOL)
    k = min(m, n)
    np.testing.assert_allclose((Q.mT.double() @ Q.double()).numpy(), np.eye(k)[None].repeat(2, 0), atol=4e-6)
    assert (np.tril(R.numpy(), -1) == 0).all()


@pytest.mark.parametrize("n", SIZES)
def test_symmetric_eigenvalues(n):
    a = positive(n)
    a = (a + a.swapaxes(-1, -2)) / 2 - np.float32(n) * np.eye(n, dtype=np.float32)
    want = np.linalg.eigvalsh(a.astype(np.float64))
    w, V = L.eigh(strata.tensor(a))
    close(w, want, 2 * RTOL)
    close(L.eigvalsh(strata.tensor(a)), want, 2 * RTOL)
    close(L.eigvalsh(strata.tensor(np.triu(a)), "U"), want, 2 * RTOL)
    close((V.double() * w.double().unsqueeze(-2)) @ V.mT.double(), a.astype(np.float64), 4 * RTOL)
    np.testing.assert_allclose((V.mT.double() @ V.double()).numpy(), np.eye(n)[None].repeat(2, 0), atol=4e-6)


@pytest.mark.parametrize("m, n", [(n, n) for n in SIZES] + [(140, 30), (30, 140), (260, 250)])
def test_singular_values(m, n):
    a = general(m, n, n)
    want = np.linalg.svd(a.astype(np.float64), compute_uv=False)
    U, S, Vh = L.svd(strata.tensor(a), full_matrices=False)
    close(S, want)
    close(L.svdvals(strata.tensor(a)), want)
    close((U.double() * S.double().unsqueeze(-2)) @ Vh.double(), a.astype(np.float64), 4 * RTOL)
    k = min(m, n)
    for orthonormal in (U.mT.double() @ U.double(), Vh.double() @ Vh.mT.double()):
        np.testing.assert_allclose(orthonormal.numpy(), np.eye(k)[None].repeat(2, 0), atol=4e-6)


@pytest.mark.parametrize("values", ["zero", "one row", "equal", "graded"])
@pytest.mark.parametrize("n", [3, 20, 120])
def test_spectra_of_special_matrices(values, n):
    a = {
        "zero": np.zeros((n, n)),
        "one row": np.outer(np.eye(n)[0], np.arange(n)),
        "equal": 3 * np.eye(n),
        "graded": np.diag(10.0 ** -np.linspace(0, 30, n)),
    }[values].astype(np.float32)
    close(L.svdvals(strata.tensor(a)), np.linalg.svd(a.astype(np.float64), compute_uv=False))
    close(L.svd(strata.tensor(a))[1], np.linalg.svd(a.astype(np.float64), compute_uv=False))
    s = (a + a.T) / 2
    close(L.eigvalsh(strata.tensor(s)), np.linalg.eigvalsh(s.astype(np.float64)))
    close(L.eigh(strata.tensor(s))[0], np.linalg.eigvalsh(s.astype(np.float64)))


@pytest.mark.parametrize("scale", [1e-30, 1e-18, 1e18, 1e30])
@pytest.mark.parametrize("n", [4, 30, 120])
def test_squares_neither_overflow_nor_vanish(scale, n):
    a = dominant(n) * np.float32(scale) / np.float32(n)
    wide, x = a.astype(np.float64), strata.tensor(a)
    close(L.svdvals(x), np.linalg.svd(wide, compute_uv=False))
    close(L.svd(x)[1], np.linalg.svd(wide, compute_uv=False))
    s = strata.tensor((a + a.swapaxes(-1, -2)) / 2)
    close(L.eigvalsh(s), np.linalg.eigvalsh(s.double().numpy()), 2 * RTOL)
    close(L.eigh(s)[0], np.linalg.eigvalsh(s.double().numpy()), 2 * RTOL)
    Q, R = L.qr(x)
    close(Q.double() @ R.double(), wide, 2 * RTOL)
    P, lower, upper = L.lu(x)
    close(P.double() @ lower.double() @ upper.double(), wide)


def test_rows_of_zeros_and_numbers_that_are_not_numbers():
    a = dominant(40)
    a[0, :, 20] = 0
    assert L.lu_factor_ex(strata.tensor(a)).info.tolist() == [21, 0]
    assert L.det(strata.tensor(a))[0].item() == 0
    a[0, 3, 5] = np.nan
    assert strata.isnan(L.det(strata.tensor(a))[0]).item()
    pivots = L.lu_factor_ex(strata.tensor(a)).pivots
    assert pivots.min().item() >= 1 and pivots.max().item() <= 40


@pytest.mark.parametrize("name", ["lu_factor", "inv", "qr", "eigh", "eigvalsh", "svd", "svdvals", "cholesky"])
def test_the_thread_count_does_not_change_a_bit(name):
    a = strata.tensor(np.stack([positive(150)[0], positive(150)[1], dominant(150)[0] + dominant(150)[0].T]))
    if name == "cholesky":
        a = a[:2]
    before = strata.get_num_threads()
    try:
        results = []
        for threads in (1, 2, 3):
            strata.set_num_threads(threads)
            result = getattr(L, name)(a)
            results.append([result] if isinstance(result, strata.Tensor) else list(result))
    finally:
        strata.set_num_threads(before)
    for other in results[1:]:
        assert all(strata.equal(x, y) for x, y in zip(results[0], other, strict=True))


@pytest.mark.parametrize("name", ["eigvalsh", "svdvals"])
def test_values_alone_are_those_with_a_gradient(name):
    """Vectors are computed only for a gradient; the values agree."""
    a = strata.tensor(positive(20)).double()
    a = (a + a.mT) / 2
    alone = getattr(L, name)(a)
    with_vectors = getattr(L, name)(a.clone().requires_grad_())
    np.testing.assert_allclose(alone.numpy(), with_vectors.detach().numpy(), rtol=1e-12)
    x = a[:, :5, :5].clone().requires_grad_()
    assert strata.autograd.gradcheck(lambda t: getattr(L, name)((t + t.mT) / 2), (x,))


def product_of_reflectors(a, tau):
    q = np.eye(a.shape[0])
    for k, t in enumerate(tau):
        v = np.concatenate([np.zeros(k), [1.0], a[k + 1 :, k]])
        q = q @ (np.eye(a.shape[0]) - t * np.outer(v, v))
    return q


@pytest.mark.parametrize("m, n, k, r", [(4, 3, 3, 2), (5, 5, 2, 1), (40, 17, 17, 30), (60, 60, 50, 4), (7, 3, 0, 2)])
@pytest.mark.parametrize("dtype, error", [("float32", 3e-6), ("float64", 1e-13)])
def test_products_with_reflectors(m, n, k, r, dtype, error):
    random = np.random.default_rng(m)
    a, tau = (np.array(t.numpy()) for t in strata.geqrf(strata.tensor(random.standard_normal((m, n)))))
    tau = tau[:k]
    q, x = product_of_reflectors(a, tau), random.standard_normal((m, r))
    A, T, X = (strata.tensor(v).to(getattr(strata, dtype)) for v in (a, tau, x))

    def check(got, want):
        np.testing.assert_allclose(got.detach().double().numpy(), want, rtol=0, atol=error * max(1, np.abs(want).max()))

    for needed in (False, True):  # a gradient takes another path
        A.requires_grad_(needed)
        check(L.householder_product(A, T), q[:, :n])
        check(strata.ormqr(A, T, X), q @ x)
        check(strata.ormqr(A, T, X, transpose=True), q.T @ x)
        check(strata.ormqr(A, T, X.mT.contiguous(), left=False), x.T @ q)
        check(strata.ormqr(A, T, X.mT.contiguous(), left=False, transpose=True), x.T @ q.T)


def test_gradients_of_products_with_reflectors():
    strata.manual_seed(2)
    a = strata.randn(2, 5, 3, dtype=strata.float64, requires_grad=True)
    tau = strata.randn(2, 3, dtype=strata.float64, requires_grad=True)
    x = strata.randn(2, 5, 2, dtype=strata.float64, requires_grad=True)
    assert strata.autograd.gradcheck(L.householder_product, (a, tau))
    assert strata.autograd.gradcheck(strata.ormqr, (a, tau, x))
    assert strata.autograd.gradcheck(lambda *t: strata.ormqr(*t, transpose=True), (a, tau, x))


@pytest.mark.parametrize("m, n", [(6, 4), (4, 6), (5, 5), (120, 40), (40, 120), (1, 3), (3, 1)])
@pytest.mark.parametrize("dtype, error", [("float32", 3e-5), ("float64", 1e-11)])
def test_least_squares(m, n, dtype, error):
    random = np.random.default_rng(m + n)
    a, b = random.standard_normal((2, m, n)), random.standard_normal((2, m, 3))
    if m == n:
        a += 3 * np.eye(n)
    A, B = (strata.tensor(v).to(getattr(strata, dtype)) for v in (a, b))
    want = np.stack([np.linalg.lstsq(x, y, rcond=None)[0] for x, y in zip(a, b, strict=True)])
    for driver in (None, "gels", "gelsd"):
        got = L.lstsq(A, B, driver=driver)
        np.testing.assert_allclose(got.solution.double().numpy(), want, rtol=0, atol=error * np.abs(want).max())
        if driver != "gels":
            assert got.rank.tolist() == [min(m, n)] * 2
    # Without full rank: the solution of least norm.
    a[1, :, 0] = 0 if n == 1 else a[1, :, -1]
    if m > 1:
        a[1, 0] = a[1, -1]
        b[1, 0] = b[1, -1]
    A, B = (strata.tensor(v).to(getattr(strata, dtype)) for v in (a, b))
    want = np.stack([np.linalg.lstsq(x, y, rcond=1e-6)[0] for x, y in zip(a, b, strict=True)])
    got = L.lstsq(A, B)
    assert got.rank.tolist() == [np.linalg.matrix_rank(v, rtol=1e-6) for v in a]
    np.testing.assert_allclose(got.solution.double().numpy(), want, rtol=0, atol=10 * error * np.abs(want).max())


@pytest.mark.parametrize("shape", [(5, 3), (3, 5)])
def test_gradients_of_least_squares(shape):
    strata.manual_seed(4)
    a = strata.randn(*shape, dtype=strata.float64, requires_grad=True)
    b = strata.randn(shape[0], 2, dtype=strata.float64, requires_grad=True)
    assert strata.autograd.gradcheck(lambda *t: L.lstsq(*t).solution, (a, b))
    assert strata.autograd.gradgradcheck(lambda *t: L.lstsq(*t).solution, (a, b))


def test_more_factors_than_rows_are_an_error():
    """Such reflectors would lie outside of the matrix."""
    for needed in (False, True):
        a = strata.ones(3, 5, requires_grad=needed)
        with pytest.raises(RuntimeError, match="tau has shape"):
            strata.ormqr(a, strata.ones(5), strata.ones(3, 2))


@pytest.mark.parametrize("dtype", [strata.float32, strata.float64])
@pytest.mark.parametrize(
    "shape", [(111, 111), (112, 112), (113, 130), (128, 112), (130, 113), (177, 300), (300, 177), (257, 250)]
)
def test_qr_in_blocks(shape, dtype):
    """From 112 columns on reflectors are applied in blocks of 64, of which the last may be narrow."""
    strata.manual_seed(sum(shape))
    a = strata.randn(*shape, dtype=dtype)
    a[:, 5] = a[:, 70] * 2  # a reflector that is nearly nothing
    a[:, 90] = 0
    tolerance = 2e-5 if dtype == strata.float32 else 1e-13
    for mode in ("reduced", "complete"):
        q, r = strata.linalg.qr(a, mode=mode)
        assert (q @ r - a).abs().max().item() < tolerance * a.abs().max().item()
        assert (q.mT @ q - strata.eye(q.shape[-1], dtype=dtype)).abs().max().item() < tolerance
        assert strata.equal(r, r.triu())
    full = strata.randn(*shape, dtype=dtype)
    expected = np.abs(np.linalg.qr(full.double().numpy(), mode="r"))
    assert np.abs(np.abs(strata.linalg.qr(full).R.numpy()) - expected).max() < 10 * tolerance
    reflectors, tau = strata.geqrf(a)
    q = strata.linalg.qr(a, mode="complete").Q
    for other in (strata.randn(shape[0], 7, dtype=dtype), strata.randn(shape[0], 65, dtype=dtype)):
        for transposed in (False, True):
            found = strata.ormqr(reflectors, tau, other, transpose=transposed)
            assert (found - (q.mT if transposed else q) @ other).abs().max().item() < tolerance * 10


def test_threads_share_one_matrix_and_give_the_same_bits():
    strata.manual_seed(4)
    a = strata.randn(400, 300)
    square = strata.randn(400, 400) + 20 * strata.eye(400)
    lower, sides = square.tril(), strata.randn(400, 210)
    before = strata.get_num_threads()
    results = []
    try:
        for threads in (1, 2, 3, 7):
            strata.set_num_threads(threads)
            results.append([
                *strata.linalg.qr(a), *strata.geqrf(a), *strata.linalg.lu_factor(square), strata.linalg.solve(square, sides),
                strata.linalg.solve_triangular(lower, sides, upper=False), strata.linalg.cholesky(square @ square.mT),
                strata.ormqr(*strata.geqrf(a), sides),
            ])  # fmt: skip
    finally:
        strata.set_num_threads(before)
    for other in results[1:]:
        assert all(strata.equal(x, y) for x, y in zip(results[0], other, strict=True))
