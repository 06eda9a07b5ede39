"""Pointwise ops of bfloat16 that convert in registers have the bits of the same op in float32, rounded."""

import numpy as np
import pytest
import strata

F = strata.nn.functional
LENGTHS = [1, 5, 127, 128, 129, 160, 257, 40001, 140000]
UNARY = {
    "square": strata.square, "reciprocal": strata.reciprocal, "sqrt": strata.sqrt, "rsqrt": strata.rsqrt,
    "floor": strata.floor, "ceil": strata.ceil, "trunc": strata.trunc, "round": strata.round, "relu": F.relu,
    "leaky_relu": lambda x: F.leaky_relu(x, 0.3), "threshold": lambda x: F.threshold(x, 0.5, -2.0),
    "hardtanh": lambda x: F.hardtanh(x, -0.7, 0.9), "hardsigmoid": F.hardsigmoid, "hardswish": F.hardswish,
    "clamp": lambda x: x.clamp(-0.5, 1.5), "clamp_max": lambda x: x.clamp(max=0.25), "add number": lambda x: x + 1.7,
    "subtract from": lambda x: 2.3 - x, "times number": lambda x: x * 0.3, "divided": lambda x: x / 3, "over": lambda x: 3 / x,
}  # fmt: skip
BINARY = {
    "add": strata.add, "add scaled": lambda x, y: strata.add(x, y, alpha=0.3), "sub": strata.sub, "mul": strata.mul,
    "div": strata.div, "maximum": strata.maximum, "minimum": strata.minimum,
    "lerp": lambda x, y: strata.lerp(x, y, 0.3), "addcmul": lambda x, y: strata.addcmul(x, y, x, value=0.7),
    "addcdiv": lambda x, y: strata.addcdiv(x, x, y, value=0.7), "clamp": lambda x, y: strata.clamp(x, min=y),
}  # fmt: skip


def given(*shape, seed=0):
    """Ordinary numbers with a few special ones among them."""
    random = np.random.default_rng(seed)
    x = random.standard_normal(shape) * 3
    flat = x.reshape(-1)
    special = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, -3e38, 3.3e38, 1e-38]
    some = random.integers(0, max(1, flat.size), min(flat.size // 3, 40))
    flat[some] = random.choice(special, some.size)
    return strata.tensor(x).to(strata.bfloat16)


def bits(x):
    return x.view(strata.int16).numpy()


def same(got, expected):
    """Equal bits, or both NaN."""
    assert got.dtype == strata.bfloat16
    a, b = got.contiguous(), expected.to(strata.bfloat16).contiguous()
    nan = np.isnan(a.float().numpy())
    np.testing.assert_array_equal(nan, np.isnan(b.float().numpy()))
    np.testing.assert_array_equal(np.where(nan, 0, bits(a)), np.where(nan, 0, bits(b)))


@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_operand(name, n):
    x = given(n, seed=n)
    same(UNARY[name](x), UNARY[name](x.float()))


@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two_operands(name, n):
    f, x, y = BINARY[name], given(n, seed=n), given(n, seed=n + 1)
    same(f(x, y), f(x.float(), y.float()))


@pytest.mark.parametrize("n", [1, 100, 128, 131, 260])
@pytest.mark.parametrize("name", BINARY)
def test_operands_that_are_broadcast_or_strided(name, n):
    f, x = BINARY[name], given(60, n, seed=n)
    others = [given(n), given(60, 1), given(1), given(n, 60).mT, given(60, 2 * n)[:, ::2], given(61, n + 3)[1:, 3:]]
    for y in others:
        same(f(x, y), f(x.float(), y.float()))
    same(f(x.mT, others[3].mT), f(x.float().mT, others[3].float().mT))
    same(f(x[:, 1:], given(60, n)[:, 1:]), f(x[:, 1:].float(), given(60, n)[:, 1:].float()))


def test_results_in_place_and_in_given_memory():
    x, y = given(70, 300), given(70, 300, seed=1)
    expected = x.float() * y.float()
    out = strata.empty(70, 600, dtype=strata.bfloat16)[:, ::2]
    same(strata.mul(x, y, out=out), expected)
    out = strata.empty(70, 301, dtype=strata.bfloat16)[:, 1:]
    same(strata.mul(x, y, out=out), expected)
    same(x.mul_(y), expected)
    same(strata.mul(y, y), y.float() * y.float())


@pytest.mark.parametrize("name", UNARY | BINARY)
def test_gradients_are_those_of_the_same_steps(name):
    f = (UNARY | BINARY)[name]
    x, y = (strata.rand(3, 200).add(0.1).to(strata.bfloat16).requires_grad_() for _ in range(2))
    operands = (x,) if name in UNARY and name not in BINARY else (x, y)
    if name == "clamp":
        f = UNARY[name]
        operands = (x,)
    grads = strata.autograd.grad(f(*operands).sum(), operands)
    wide = [t.detach().double().requires_grad_() for t in operands]
    for got, want in zip(grads, strata.autograd.grad(f(*wide).sum(), wide), strict=True):
        assert strata.allclose(got.double(), want, rtol=0.05, atol=0.05)


def test_any_number_of_threads_gives_the_same_bits():
    x, y, row = given(400, 501), given(400, 501, seed=1), given(501, seed=2)
    before, results = strata.get_num_threads(), []
    try:
        for threads in (1, 2, 3, 5):
            strata.set_num_threads(threads)
            results.append([bits(t).tobytes() for t in (x + y, x * row, x.sqrt(), x.clamp(max=0.25))])
    finally:
        strata.set_num_threads(before)
    assert all(r == results[0] for r in results)
