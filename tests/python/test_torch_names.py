"""Less common names of PyTorch programs: incomplete gamma functions, fractional pools, buffers, derivatives of
functions, the graph as Python sees it."""

import math

import numpy as np
import pytest
import strata
from strata.autograd import functional as fn


def gamma_p(a, x):
    """P(a, x) for multiples of one half: erf and exp at the start, then P(a + 1, x) = P(a, x) - x^a e^-x / Gamma(a + 1)."""
    order, value = (1.0, 1 - math.exp(-x)) if a % 1 == 0 else (0.5, math.erf(math.sqrt(x)))
    while order < a:
        value -= x**order * math.exp(-x) / math.gamma(order + 1)
        order += 1
    return value


def test_incomplete_gamma_functions_match_the_recurrence():
    a, x = np.meshgrid([0.5, 1.0, 2.5, 4.0, 10.0], [0.1, 0.9, 2.0, 7.0, 20.0])
    want = np.vectorize(gamma_p)(a, x)
    got = strata.igamma(strata.tensor(a), strata.tensor(x))
    np.testing.assert_allclose(got.numpy(), want, atol=1e-13)
    np.testing.assert_allclose(strata.igammac(strata.tensor(a), strata.tensor(x)).numpy(), 1 - want, atol=1e-13)


def test_incomplete_gamma_functions_of_floats_match_doubles():
    rng = np.random.default_rng(0)
    a = np.exp(rng.uniform(-8, 12, 4001)).astype(np.float32)
    x = (a * np.exp(rng.normal(0, 1, a.shape) * np.minimum(1, 3 / np.sqrt(a)))).astype(np.float32)
    a[:5], x[:5] = [2, 1e-3, 5, 1e30, 0.5], [1e30, 1e-30, 1e-35, 1e30, 3]  # next to ordinary neighbours
    for function in (strata.igamma, strata.igammac):
        want = function(strata.tensor(a).double(), strata.tensor(x).double()).numpy()
        got = function(strata.tensor(a), strata.tensor(x)).numpy()
        np.testing.assert_allclose(got, want, rtol=1.2e-7, atol=1e-44)
        turned = function(strata.tensor(a[::-1].copy()), strata.tensor(x[::-1].copy())).numpy()
        np.testing.assert_array_equal(turned[::-1], got)  # whatever the neighbours are


def test_incomplete_gamma_functions_at_the_ends():
    inf, nan = math.inf, math.nan
    a = strata.tensor([0.0, 0.0, 2.0, inf, inf, 2.0, -1.0, 1e4])
    x = strata.tensor([1.0, 0.0, 0.0, 3.0, inf, inf, 1.0, 1e4])
    np.testing.assert_allclose(strata.igamma(a, x).numpy(), [1, nan, 0, 0, nan, 1, nan, 0.50133], rtol=1e-4)
    np.testing.assert_allclose(strata.igammac(a, x).numpy(), [0, nan, 1, 1, nan, 0, nan, 0.49867], rtol=1e-4)
    # NaN stays NaN, except where the other argument alone decides, as in PyTorch.
    a, x = strata.tensor([nan, nan, inf, nan, 0.0, 1.0]), strata.tensor([0.0, inf, nan, 1.0, nan, nan])
    np.testing.assert_array_equal(strata.igamma(a, x).numpy(), [0, 1, 0, nan, nan, nan])
    np.testing.assert_array_equal(strata.igammac(a, x).numpy(), [1, 0, 1, nan, nan, nan])


def test_the_derivative_of_igamma_in_its_order_is_refused():
    order = strata.ones(2, requires_grad=True)
    with pytest.raises(NotImplementedError, match="with respect to input"):
        strata.igamma(order, strata.ones(2)).sum().backward()


@pytest.mark.parametrize("dtype", [strata.float64, strata.float32, strata.float16, strata.bfloat16])
def test_frexp_takes_numbers_apart(dtype):
    x = strata.tensor([0.0, 1.0, -3.0, 0.1, 1e-4, 640.0], dtype=dtype)
    mantissa, exponent = strata.frexp(x)
    want, power = np.frexp(x.double().numpy())
    assert mantissa.dtype is dtype and exponent.dtype is strata.int32
    np.testing.assert_array_equal(mantissa.double().numpy(), want)
    np.testing.assert_array_equal(exponent.numpy(), power)


def fractional_starts(sample, n, out, kernel):
    alpha = (n - kernel) / (out - 1) if out > 1 else 0
    return [int((i + sample) * alpha) - int(sample * alpha) for i in range(out - 1)] + [n - kernel]


def test_fractional_max_pool_takes_the_largest_of_its_windows():
    x, samples = strata.randn(2, 3, 9, 11), strata.rand(2, 3, 2)
    got, index = strata.nn.functional.fractional_max_pool2d(
        x, (2, 3), output_size=(4, 5), return_indices=True, _random_samples=samples
    )
    for n in range(2):
        for c in range(3):
            plane, (w, h) = x[n, c].numpy(), samples[n, c].double().tolist()
            for i, top in enumerate(fractional_starts(h, 9, 4, 2)):
                for j, left in enumerate(fractional_starts(w, 11, 5, 3)):
                    window = plane[top : top + 2, left : left + 3]
                    assert got[n, c, i, j].item() == window.max()
                    assert plane.flat[index[n, c, i, j].item()] == window.max()


def test_fractional_max_pool_sends_its_gradient_to_the_largest():
    x = strata.randn(1, 2, 5, 6, 7, dtype=strata.float64, requires_grad=True)
    y, index = strata.nn.functional.fractional_max_pool3d(x, 2, output_ratio=0.5, return_indices=True)
    y.sum().backward()
    want = np.zeros((2, 5 * 6 * 7))
    for c in range(2):
        np.add.at(want[c], index[0, c].numpy().ravel(), 1)
    np.testing.assert_array_equal(x.grad.numpy().reshape(2, -1), want)


def test_rrelu_draws_slopes_between_its_bounds():
    x = strata.linspace(-2, 2, 1001)
    y = strata.nn.functional.rrelu(x, 0.1, 0.3, training=True)
    slope = (y / x)[x != 0].numpy()
    assert (slope[:500] >= 0.1 - 1e-6).all() and (slope[:500] <= 0.3 + 1e-6).all() and slope[:500].std() > 0.03
    np.testing.assert_allclose(slope[500:], 1, rtol=1e-6)
    np.testing.assert_allclose(
        strata.nn.functional.rrelu(x, 0.1, 0.3).numpy(), np.where(x.numpy() > 0, x, 0.2 * x.numpy()), rtol=1e-6
    )


def test_histogramdd_matches_numpy():
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(200, 3)), rng.uniform(size=200)
    for density in (False, True):
        want, edges = np.histogramdd(x, (3, 4, 5), weights=w, density=density)
        got, found = strata.histogramdd(strata.tensor(x), [3, 4, 5], weight=strata.tensor(w), density=density)
        np.testing.assert_allclose(got.numpy(), want, atol=1e-12)
        for a, b in zip(found, edges, strict=True):
            np.testing.assert_allclose(a.numpy(), b, atol=1e-12)
    inner = [strata.tensor([-1.0, 0.0, 2.0], dtype=strata.float64)] * 3
    want, _ = np.histogramdd(x, [e.numpy() for e in inner])
    np.testing.assert_array_equal(strata.histogramdd(strata.tensor(x), inner)[0].numpy(), want)


def test_resize_keeps_the_elements_in_memory_order():
    x = strata.arange(6)
    assert x.resize_(2, 2) is x and x.tolist() == [[0, 1], [2, 3]]
    assert x.resize_(3, 2).tolist() == [[0, 1], [2, 3], [4, 5]]
    x.resize_(100)
    assert x.shape == (100,) and x[:6].tolist() == list(range(6))
    assert x.resize_as_(strata.ones(2, 3)).tolist() == [[0, 1, 2], [3, 4, 5]]
    with pytest.raises(RuntimeError, match="requires a gradient"):
        strata.ones(2, requires_grad=True).resize_(3)
    with pytest.raises(RuntimeError, match="a view of another tensor"):
        x[0].resize_(5)


@pytest.mark.parametrize("shape", [(3, 3), (3, 5), (7, 3), (8, 3)])
@pytest.mark.parametrize("wrap", [False, True])
def test_fill_diagonal_matches_numpy(shape, wrap):
    want = np.zeros(shape)
    np.fill_diagonal(want, 5, wrap=wrap)
    np.testing.assert_array_equal(strata.zeros(shape).fill_diagonal_(5, wrap).numpy(), want)
    turned = strata.zeros(shape[::-1]).t()
    np.testing.assert_array_equal(turned.fill_diagonal_(5, wrap).numpy(), want)


def test_frombuffer_shares_memory_and_checks_its_size():
    data = bytearray(np.arange(6, dtype=np.float32).tobytes())
    x = strata.frombuffer(data, dtype=strata.float32, offset=4, count=3)
    assert x.tolist() == [1, 2, 3]
    x[0] = 9
    assert np.frombuffer(data, np.float32)[1] == 9
    assert strata.frombuffer(bytes(4), dtype=strata.bfloat16).tolist() == [0, 0]
    for arguments in ({"count": 9}, {"offset": 24}, {"offset": 1}, {"count": 0}, {"offset": -1}):
        with pytest.raises(ValueError, match="frombuffer"):
            strata.frombuffer(data, dtype=strata.float32, **arguments)


def test_switches_are_remembered():
    assert strata.get_default_device() == strata.device("cpu")
    strata.set_default_device("cpu")
    with pytest.raises(RuntimeError, match="not available"):
        strata.set_default_device("cuda")
    strata.use_deterministic_algorithms(True, warn_only=True)
    assert strata.are_deterministic_algorithms_enabled() and strata.is_deterministic_algorithms_warn_only_enabled()
    strata.use_deterministic_algorithms(False)
    assert not strata.are_deterministic_algorithms_enabled()


def test_post_accumulate_hooks_see_the_finished_gradient():
    seen = []
    x = strata.ones(2, requires_grad=True)
    handle = x.register_post_accumulate_grad_hook(lambda p: seen.append((p is x, p.grad.tolist())))
    (x * 2 + x * 3).sum().backward()
    x.sum().backward()
    strata.autograd.grad(x.sum(), x)  # accumulates nothing
    assert seen == [(True, [5, 5]), (True, [6, 6])]
    handle.remove()
    x.sum().backward()
    assert len(seen) == 2
    with pytest.raises(RuntimeError, match="only leaves"):
        (x * 2).register_post_accumulate_grad_hook(print)


def test_the_graph_can_be_walked():
    x, y = strata.ones(2, requires_grad=True), strata.ones(2)
    out = (x.exp() * y).sum()
    ((product, _),) = out.grad_fn.next_functions
    assert out.grad_fn.name() == "SumBackward0" and product.name() == "MulBackward0"
    (exp, _), (nothing, _) = product.next_functions
    assert nothing is None and exp.name() == "ExpBackward0"
    ((leaf, _),) = exp.next_functions
    assert leaf.variable is x and leaf.name() == "AccumulateGrad" and leaf.next_functions == ()


def test_jacobian_and_hessian_match_the_closed_form():
    a, x, y = (strata.randn(*s, dtype=strata.float64) for s in ((4, 3), (3,), (3,)))
    np.testing.assert_allclose(fn.jacobian(lambda v: a @ v, x).numpy(), a.numpy())
    dx, dy = fn.jacobian(lambda v, w: v * w, (x, y))
    np.testing.assert_allclose(dx.numpy(), np.diag(y.numpy()))
    np.testing.assert_allclose(dy.numpy(), np.diag(x.numpy()))
    quadratic = a.mT @ a
    np.testing.assert_allclose(fn.hessian(lambda v: v @ quadratic @ v, x).numpy(), 2 * quadratic.numpy(), atol=1e-12)
    (xx, xy), (yx, yy) = fn.hessian(lambda v, w: (v * v * w).sum(), (x, y))
    np.testing.assert_allclose(xx.numpy(), np.diag(2 * y.numpy()))
    np.testing.assert_allclose(xy.numpy(), np.diag(2 * x.numpy()))
    np.testing.assert_allclose(yx.numpy(), xy.numpy())
    assert not yy.numpy().any()


def test_products_with_vectors_match_the_jacobian():
    a, x, v, u = (strata.randn(*s, dtype=strata.float64) for s in ((4, 3), (3,), (3,), (4,)))
    value, product = fn.vjp(lambda t: a @ t.sin(), x, u)
    slope = a.numpy() * np.cos(x.numpy())
    np.testing.assert_allclose(value.numpy(), a.numpy() @ np.sin(x.numpy()))
    np.testing.assert_allclose(product.numpy(), u.numpy() @ slope)
    np.testing.assert_allclose(fn.jvp(lambda t: a @ t.sin(), x, v)[1].numpy(), slope @ v.numpy())
    curve = -np.sin(x.numpy()) * v.numpy()
    for product_of in (fn.hvp, fn.vhp):
        np.testing.assert_allclose(product_of(lambda t: t.sin().sum(), x, v)[1].numpy(), curve)
    with pytest.raises(RuntimeError, match="v\\[0\\] has shape"):
        fn.vjp(lambda t: t, x, u)
    with pytest.raises(RuntimeError, match="does not depend"):
        fn.jacobian(lambda t: strata.ones(2), x, strict=True)


def test_lu_gives_the_status_on_demand():
    singular = strata.zeros(2, 2)
    assert len(strata.lu(singular)) == 2
    assert strata.lu(singular, get_infos=True)[2].item() == 1


def test_types_have_docs():
    for kind in (strata.Tensor, strata.dtype, strata.device, strata.Size, strata.Generator):
        assert kind.__doc__.strip()


def test_square_of_bool_is_int64():
    got = strata.square(strata.tensor([True, False]))
    assert got.dtype is strata.int64 and got.tolist() == [1, 0]


def test_group_norm_statistics_carry_gradients():
    x = strata.randn(2, 4, 3, dtype=strata.float64, requires_grad=True)
    assert strata.autograd.gradcheck(lambda t: strata.native_group_norm(t, None, None, 2, 4, 3, 2, 1e-5), (x,))
