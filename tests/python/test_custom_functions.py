"""Elementwise kernels from formulas and functions of load_inline, with results from NumPy in float64."""

import numpy as np
import pytest
import strata
from gpu_tensors import DEVICE, host, on_gpu
from strata import cuda
from strata.autograd import gradcheck

# --- elementwise kernels ---------------------------------------------------------------------------------------------

DTYPES = [
    strata.float64, strata.float32, strata.float16, strata.bfloat16, strata.int64, strata.int32, strata.int16, strata.int8,
    strata.uint8, strata.bool,
]  # fmt: skip


@pytest.mark.parametrize(
    "shapes", [((), ()), ((0,), ()), ((1,), (1,)), ((5, 7), (7,)), ((3, 1, 5), (4, 1)), ((0, 3), (3,))]
)
def test_a_formula_broadcasts(shapes):
    axpy = cuda.elementwise("out = a * x + y")
    x, y = on_gpu(*shapes[0]), on_gpu(*shapes[1], seed=1)
    out = axpy(2.5, x, y)
    expected = 2.5 * host(x) + host(y)
    assert tuple(out.shape) == expected.shape and out.dtype == strata.float32
    np.testing.assert_allclose(host(out), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("a", DTYPES, ids=str)
@pytest.mark.parametrize("b", DTYPES, ids=str)
def test_dtypes_are_promoted(a, b):
    x = strata.tensor([0, 1, 2, 3], device=DEVICE).to(a)
    y = strata.tensor([[1], [0], [5]], device=DEVICE).to(b)
    out = ADDED(x, y)
    expected = strata.add(x, y)
    assert out.dtype == expected.dtype == strata.result_type(x, y)
    assert out.tolist() == expected.tolist()


ADDED = cuda.elementwise("out = x + y")


def test_rounding_of_16_bit_floats():
    same = cuda.ElementwiseKernel("float32 x", "bfloat16 b, float16 h", "b = x; h = x", "narrow")
    x = strata.cat(
        [
            on_gpu(1000).cpu(),
            strata.tensor([0.0, -0.0, 1e30, -1e30, float("inf"), float("nan"), 65519.0, 65520.0, 1e-7]),
        ]
    )
    b, h = same(x.to(DEVICE))
    for found, dtype in ((b, strata.bfloat16), (h, strata.float16)):
        assert found.dtype == dtype
        np.testing.assert_array_equal(host(found), host(x.to(dtype)))


def test_layouts_and_outputs():
    f = cuda.elementwise("out = x - 2 * y")
    x, y = on_gpu(6, 8), on_gpu(8, 6, seed=1)
    np.testing.assert_allclose(host(f(x, y.t())), host(x) - 2 * host(y).T, rtol=1e-6)
    np.testing.assert_allclose(host(f(x[::2, 1:], y.t()[::2, 1:])), (host(x) - 2 * host(y).T)[::2, 1:], rtol=1e-6)
    base = strata.zeros(6, 16, device=DEVICE)
    assert f(x, y.t(), base[:, ::2]) is not None
    np.testing.assert_allclose(host(base[:, ::2]), host(x) - 2 * host(y).T, rtol=1e-6)
    assert base[:, 1::2].abs().sum().item() == 0
    expected = host(x) - 2 * host(x)
    f(x, x, x)  # in place
    np.testing.assert_allclose(host(x), expected)
    np.testing.assert_array_equal(
        host(f(x=x, y=strata.tensor(1.0))), (host(x) - 2).astype(np.float32)
    )  # a number on the CPU
    deep = on_gpu(2, 1, 2, 1, 2, 1, 2, 1, 2, 1)
    assert f(deep, deep.transpose(0, 8)).shape == deep.shape


def test_statements_locals_and_indices():
    f = cuda.elementwise(
        "float t = x * x; if (x > 0) { a = sqrt(t); } else { a = -1; } T u = t; b = u + i; c = (x == 2)"
    )
    assert f.inputs == ["x"] and f.outputs == ["a", "b", "c"]
    x = strata.tensor([2.0, -3.0, 4.0], device=DEVICE)
    assert [t.tolist() for t in f(x)] == [[2, -1, 4], [4, 10, 18], [1, 0, 0]]
    g = cuda.ElementwiseKernel("T x, int64 k, bool m", "T y, bool big", "y = m ? x * k : x; big = y > n", "pick")
    y, big = g(strata.tensor([1.0, 2, 3], device=DEVICE), 4, strata.tensor([True, False, True], device=DEVICE))
    assert y.tolist() == [4, 2, 12] and big.tolist() == [True, False, True] and big.dtype == strata.bool
    assert "pick(x, k, m) -> y, big" in repr(g)


def test_shapes_on_meta():
    x = strata.ones(3, 1, device="meta", dtype=strata.float16)
    out = ADDED(x, strata.ones(4, device="meta", dtype=strata.int64))
    assert out.is_meta and out.shape == (3, 4) and out.dtype == strata.float16


def test_wrong_uses_of_elementwise():
    x = on_gpu(4)
    for wrong, text in (("", "no output"), ("x + y", "no output"), ("out = 3", "no inputs"), ("out == x", "no output")):
        with pytest.raises(ValueError, match=text):
            cuda.elementwise(wrong)
    for wrong in (None, 3, b"out = x"):
        with pytest.raises(TypeError, match="must be a str"):
            cuda.elementwise(wrong)
    for name in ("", "a b", "1a", "float", "strata_f", 'f"', "f;"):
        with pytest.raises(ValueError):
            cuda.elementwise("out = x", name=name)
    with pytest.raises(cuda.CompileError, match="out = x \\+\\* zork"):
        cuda.elementwise("out = x +* zork(x)")(x)
    with pytest.raises(cuda.CompileError):
        cuda.elementwise("out = x; } } __global__ void g() { {")(x)
    with pytest.raises(ValueError, match="NUL"):
        cuda.elementwise("out = x\0")(x)
    f = cuda.elementwise("out = x + y")
    for args, named in (
        ((), {}),
        ((x,), {}),
        ((x, x, x, x), {}),
        ((x,), {"x": x}),
        ((x,), {"z": x}),
        ((x, x), {"y": x}),
    ):
        with pytest.raises(TypeError):
            f(*args, **named)
    for bad in (None, "a", [1.0], object()):
        with pytest.raises(TypeError, match="must be a tensor or a number"):
            f(x, bad)
    with pytest.raises(TypeError, match="none of the operands"):
        f(1, 2)
    with pytest.raises(RuntimeError, match="on cpu"):
        f(x, strata.ones(4))
    with pytest.raises(RuntimeError, match="two devices"):
        f(x, strata.ones(4, device="meta"))
    with pytest.raises(RuntimeError, match="broadcast"):
        f(x, on_gpu(3))
    with pytest.raises(NotImplementedError, match="float8"):
        f(x.to(strata.float8_e4m3fn), x)
    typed = cuda.ElementwiseKernel("float32 x", "float32 y", "y = x", "typed")
    with pytest.raises(TypeError, match="must be float32, got float64"):
        typed(x.double())
    with pytest.raises(TypeError):
        typed(x, "out")
    for wrong in ("T", "x", "T x y", "T x,, T y", "T x, T x", ",", "1 x", "T 1", "T* x"):
        with pytest.raises(ValueError):
            cuda.ElementwiseKernel(wrong, "T z", "z = 1", "f")
    with pytest.raises(ValueError, match="at most"):
        cuda.ElementwiseKernel(", ".join(f"T x{k}" for k in range(20)), "T z", "z = x0", "f")


def test_the_gradient_of_a_formula():
    f = cuda.elementwise(
        "out = a * x * x + y; r = exp(x)",
        backward="grad_a = grad_out * x * x; grad_x = 2 * a * x * grad_out + grad_r * r; grad_y = grad_out",
    )
    a, x, y = (on_gpu(*s, dtype=strata.float64, seed=k).requires_grad_() for k, s in enumerate([(3, 1), (3, 4), (4,)]))
    assert gradcheck(lambda *t: f(*t), (a, x, y))
    assert gradcheck(lambda t: f(2.0, t, 1.0), (x,))
    half = on_gpu(4, dtype=strata.float16).requires_grad_()
    f(a, x, half)[0].sum().backward()
    assert half.grad.dtype == strata.float16 and half.grad.tolist() == [3] * 4
    with strata.no_grad():
        assert not f(a, x, y)[0].requires_grad
    out = f(a, x, y)[0]
    with pytest.raises(NotImplementedError, match="no gradient"):
        plain = cuda.elementwise("out = 2 * x")(x)
        assert plain.requires_grad
        plain.sum().backward()
    with strata.no_grad():
        x.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_wrong_gradients_of_a_formula():
    x = on_gpu(3).requires_grad_()
    with pytest.raises(ValueError, match="backward uses 'z'"):
        cuda.elementwise("out = x", backward="grad_x = z * grad_out")
    for wrong in ("gx = grad_out", "grad_z = grad_out", "grad_out2 = grad_out"):
        with pytest.raises(ValueError, match="backward assigns"):
            cuda.elementwise("out = x", backward=wrong)
    partial = cuda.elementwise("out = x * y", backward="grad_x = grad_out * y")
    partial(x, 2.0).sum().backward()
    assert x.grad.tolist() == [2] * 3
    with pytest.raises(NotImplementedError, match="grad_y"):
        partial(x, on_gpu(3).requires_grad_()).sum().backward()


# --- load_inline -----------------------------------------------------------------------------------------------------

SCALED = r"""
__global__ void scaled(const float* x, const float* y, float by, int n, float* out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = by * x[i] * y[i];
}
__global__ void scaled_backward(const float* grad, const float* x, const float* y, float by, int n, float* dx, float* dy) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) { dx[i] = grad[i] * by * y[i]; dy[i] = grad[i] * by * x[i]; }
}
"""


def from_kernels(source, functions):
    return cuda.load_inline("mine", cuda_sources=source, functions=functions)


def scaled(**more):
    forward = {"outputs": lambda x, y, by, n: strata.empty_like(x), "backward": "scaled_backward", **more}
    backward = {
        "outputs": lambda grad, x, y, by, n: (strata.empty_like(x), strata.empty_like(y)),
        "grid": lambda grad, x, y, by, n: (-(-n // 32),),
        "block": 32,
    }
    return from_kernels(SCALED, {"scaled": forward, "scaled_backward": backward})


@pytest.mark.parametrize("n", [0, 1, 100, 1000])
def test_load_inline_with_a_gradient(n):
    x, y = on_gpu(n).requires_grad_(), on_gpu(n, seed=1).requires_grad_()
    if n == 0:
        assert scaled().scaled(x, y, 3.0, n).numel() == 0
        return
    out = scaled().scaled(x, y, 3.0, n)
    np.testing.assert_allclose(host(out), 3 * host(x) * host(y), rtol=1e-6)
    weight = on_gpu(n, seed=2)
    (out * weight).sum().backward()
    np.testing.assert_allclose(host(x.grad), 3 * host(weight) * host(y), rtol=1e-6)
    np.testing.assert_allclose(host(y.grad), 3 * host(weight) * host(x), rtol=1e-6)


def test_outputs_that_are_arguments():
    x, y = on_gpu(4), on_gpu(4, seed=1)
    want = 2 * host(x) * host(y)
    for give in (lambda x, y, by, n: x, lambda x, y, by, n: x.view(2, 2)):
        target = x.clone()
        scaled(outputs=give).scaled(target, y, 2.0, 4)  # in place
        np.testing.assert_allclose(host(target), want, rtol=1e-6)
        with pytest.raises(RuntimeError, match="outputs returned an argument"):
            scaled(outputs=give).scaled(x.clone(), y.clone().requires_grad_(), 2.0, 4)
        with pytest.raises(RuntimeError, match="outputs returned an argument"):
            scaled(outputs=give).scaled(x.clone().requires_grad_(), y, 2.0, 4)


def test_comments_in_formulas_are_no_inputs():
    x = on_gpu(5)
    for formula in (
        "out = x * 2; // of the first; zork = 3",
        "/* a = b; */ out = x * /* twice */ 2",
        "out = x // y\n  * 2",
    ):
        kernel = cuda.elementwise(formula)
        assert list(kernel.inputs) == ["x"] and list(kernel.outputs) == ["out"], formula
        np.testing.assert_allclose(host(kernel(x)), 2 * host(x))
    with pytest.raises(ValueError, match="assigns no output"):
        cuda.elementwise("// out = x")


def test_wrong_uses_of_load_inline():
    x = on_gpu(4)
    for functions in (3, {"scaled"}):
        with pytest.raises(TypeError, match="functions must be a list of names, or a dict"):
            from_kernels(SCALED, functions)
    with pytest.raises(TypeError, match="no setting 'grids'"):
        scaled(grids=3)
    with pytest.raises(TypeError, match="needs outputs"):
        from_kernels(SCALED, {"scaled": {}})
    with pytest.raises(ValueError, match="not in functions"):
        scaled(backward="nothing")
    with pytest.raises(ValueError, match="use RawModule"):
        from_kernels(SCALED, {"a<b>": {}})
    with pytest.raises(TypeError, match="expected tensors"):
        scaled(outputs=lambda *a: 3).scaled(x, x, 1.0, 4)
    with pytest.raises(TypeError, match="pass grid="):
        scaled(block=(16, 16)).scaled(x, x, 1.0, 4)
    with pytest.raises(ValueError, match="not contiguous"):
        scaled().scaled(on_gpu(4, 2)[:, 0], x, 1.0, 4)
    with pytest.raises(TypeError, match="must be str"):
        from_kernels([SCALED, 3], {"scaled": {}})
    with pytest.raises(cuda.CompileError, match=r"mine.cu\(1\)"):
        from_kernels("wrong", {"f": {"outputs": strata.empty_like}}).f(x)
    with pytest.raises(NotImplementedError, match="no gradient"):
        scaled(backward=None).scaled(x.clone().requires_grad_(), x, 1.0, 4).sum().backward()
    wrong = from_kernels(
        SCALED,
        {
            "scaled": {"outputs": lambda x, y, by, n: strata.empty_like(x), "backward": "scaled_backward"},
            "scaled_backward": {"outputs": lambda g, x, y, by, n: (g.clone(), g.clone(), g.clone())},
        },
    )
    with pytest.raises((RuntimeError, TypeError), match="parameters"):
        wrong.scaled(x.clone().requires_grad_(), x, 1.0, 4).sum().backward()
