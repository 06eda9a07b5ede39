"""Arithmetic, comparisons and bit operations of int8, uint8, int16 and int32 beside NumPy: limits, layouts, numbers."""

import operator

import numpy as np
import pytest
import strata

DTYPES = ["int8", "uint8", "int16", "int32"]
BINARY = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "bitwise_and": operator.and_,
    "bitwise_or": operator.or_,
    "bitwise_xor": operator.xor,
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}
UNARY = {"neg": operator.neg, "abs": np.abs, "square": np.square, "bitwise_not": np.invert}
LAYOUTS = {
    "contiguous": lambda a: a,
    "transposed": lambda a: np.ascontiguousarray(a.T).T,
    "every second": lambda a: np.repeat(a, 2, axis=-1)[..., ::2],
    "part": lambda a: np.pad(a, ((1, 2), (3, 1)))[1:-2, 3:-1],
}


def numbers(dtype, shape, seed=0):
    """All of the type's range, its limits among them."""
    info = np.iinfo(dtype)
    values = np.asarray(np.random.default_rng(seed).integers(info.min, info.max, shape, dtype, endpoint=True))
    values.flat[: min(values.size, 3)] = [info.min, info.max, 0][: values.size]
    np.random.default_rng(seed + 1).shuffle(values.reshape(-1))
    return values


def both(dtype, shape, layout, seed=0):
    a = LAYOUTS[layout](numbers(dtype, shape, seed))
    t = strata.from_numpy(a)
    assert min(shape) < 2 or t.stride() == tuple(s // a.itemsize for s in a.strides)
    return a, t


def kernel_of(op, *args):
    return next(name for _, name, reason in strata.explain(op, *args) if reason == "chosen")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", BINARY)
def test_two_tensors(op, dtype):
    for shape in [(5, 7), (3, 70), (40, 100), (2, 5000), (1, 1), (0, 3)]:
        for one, other in [("contiguous", "contiguous"), ("transposed", "contiguous"), ("every second", "part")]:
            (a, x), (b, y) = both(dtype, shape, one), both(dtype, shape, other, 5)
            with np.errstate(all="ignore"):
                expected = BINARY[op](a, b)
            got = getattr(strata, op)(x, y)
            assert got.numpy().dtype == expected.dtype and np.array_equal(got.numpy(), expected), (shape, one, other)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shapes", [((40, 100), (100,)), ((40, 100), (40, 1)), ((3, 1, 50), (4, 1)), ((), (60, 3))])
def test_broadcast(dtype, shapes):
    a, b = (np.asarray(numbers(dtype, shape, 3 * i)) for i, shape in enumerate(shapes))
    with np.errstate(all="ignore"):
        for op in ("add", "mul", "lt", "maximum"):
            got = getattr(strata, op)(strata.tensor(a), strata.tensor(b))
            assert np.array_equal(got.numpy(), BINARY[op](a, b))
            assert got.dtype == (strata.bool if op == "lt" else getattr(strata, dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_numbers_that_fit_and_that_do_not(dtype):
    a, t = both(dtype, (40, 100), "contiguous")
    info = np.iinfo(dtype)
    wide = a.astype(np.int64)
    for n in (0, 3, info.max, info.min, info.max + 1, info.min - 1, 10**9):
        assert np.array_equal((t + n).numpy(), (wide + n).astype(dtype)), n
        assert np.array_equal((t * n).numpy(), (wide * n).astype(dtype)), n
        assert np.array_equal((n - t).numpy(), (n - wide).astype(dtype)), n
        assert np.array_equal((t < n).numpy(), wide < n), n
        assert np.array_equal((t == n).numpy(), wide == n), n
    assert np.array_equal(t.add(t, alpha=3).numpy(), (wide + 3 * wide).astype(dtype))
    assert np.array_equal(t.sub(t, alpha=info.max + 7).numpy(), (wide - (info.max + 7) * wide).astype(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_clamp(dtype):
    a, t = both(dtype, (30, 50), "transposed")
    for low, high in [(1, 20), (None, 20), (1, None), (20, 1), (0, 10**6)]:
        expected = a.astype(np.int64)
        if low is not None:
            expected = np.maximum(expected, low)
        if high is not None:
            expected = np.minimum(expected, high)
        assert np.array_equal(t.clamp(low, high).numpy(), expected.astype(dtype)), (low, high)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", UNARY)
def test_one_tensor(op, dtype):
    for layout in LAYOUTS:
        a, t = both(dtype, (20, 90), layout)
        with np.errstate(all="ignore"):
            assert np.array_equal(getattr(strata, op)(t).numpy(), UNARY[op](a)), layout


@pytest.mark.parametrize("dtype", DTYPES)
def test_results_in_place_and_out(dtype):
    a, b = numbers(dtype, (40, 100)), numbers(dtype, (40, 100), 2)
    with np.errstate(all="ignore"):
        t = strata.tensor(a)
        t += strata.tensor(b)
        t.mul_(3)
        assert np.array_equal(t.numpy(), (a + b) * np.array(3, dtype))
        t = strata.tensor(a).t()
        t[3:, ::2] -= 1
        expected = a.T.copy()
        expected[3:, ::2] -= np.array(1, dtype)
        assert np.array_equal(t.numpy(), expected)
        out = strata.empty(40, 100, dtype=strata.bool)
        strata.lt(strata.tensor(a), strata.tensor(b), out=out)
        assert np.array_equal(out.numpy(), a < b)
        wide = strata.empty(40, 100, dtype=strata.int64)
        strata.maximum(strata.tensor(a), strata.tensor(b), out=wide)
        assert np.array_equal(wide.numpy(), np.maximum(a, b))


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_many_elements_and_threads(threads):
    a, b = numbers("uint8", 300_007), numbers("uint8", 300_007, 1)
    before = strata.get_num_threads()
    strata.set_num_threads(threads)
    try:
        assert np.array_equal((strata.tensor(a) + strata.tensor(b)).numpy(), a + b)
        assert np.array_equal((strata.tensor(a)[::3] * strata.tensor(b)[::3]).numpy(), a[::3] * b[::3])
    finally:
        strata.set_num_threads(before)


def test_the_choice_of_the_kernel():
    t = strata.ones(4, 4, dtype=strata.uint8)
    assert kernel_of(strata.add, t, t) == "small_ints"
    assert kernel_of(strata.add, t, strata.ones(4, dtype=strata.int16)) == "blocked"  # dtypes differ
    assert kernel_of(strata.lt, t, 300) == "blocked"  # 300 is not a uint8
    assert kernel_of(strata.add, t.long(), t.long()) == "flat_simd"
    assert kernel_of(strata.bitwise_left_shift, t, t) == "blocked"


@pytest.mark.parametrize("name", ["uint8", "int8", "int16", "int32"])
@pytest.mark.parametrize("device", ["cpu", "vgpu"])
def test_numbers_and_0_d_integers_wrap_before_the_op(name, device):
    """As in PyTorch: the other operand has the tensor's dtype when the op computes, so tensor(-3) is 253 beside uint8."""
    dtype = getattr(strata, name)
    values = np.array([1, 3, 5, 100], name)
    x = strata.tensor(values, device=device)
    ops = {
        "gt": np.greater, "le": np.less_equal, "eq": np.equal, "maximum": np.maximum, "minimum": np.minimum,
        "fmax": np.fmax, "add": np.add, "mul": np.multiply, "bitwise_and": np.bitwise_and,
    }  # fmt: skip
    for number in (-3, 253, -200, 300, 70_000, 2**40 + 7):
        wrapped = np.int64(number).astype(name)
        for kind in (strata.int64, strata.int32, strata.int16, strata.int8, strata.uint8):
            if strata.iinfo(kind).bits < strata.iinfo(dtype).bits or not fits(number, kind):
                continue
            other = strata.tensor(number, dtype=kind, device=device)
            for op, reference in ops.items():
                for ours, want in (((x, other), (values, wrapped)), ((other, x), (wrapped, values))):
                    got = getattr(strata, op)(*ours).cpu().numpy()
                    with np.errstate(over="ignore"):
                        assert np.array_equal(got, reference(*want)), (op, number, kind)
            assert np.array_equal(strata.where(x > 3, x, other).cpu().numpy(), np.where(values > 3, values, wrapped))
        assert np.array_equal((x > number).cpu().numpy(), values > number)  # a number is compared as it is
        assert np.array_equal((x == number).cpu().numpy(), values == number)
        with np.errstate(over="ignore"):
            assert np.array_equal((x // number).cpu().numpy(), values // wrapped)
        y = x.clone()
        y.copy_(strata.maximum(y, strata.tensor(number, device=device)))
        assert np.array_equal(y.cpu().numpy(), np.maximum(values, wrapped))
        assert np.array_equal(
            x.clamp(min=min(number, 0)).cpu().numpy(), np.maximum(values.astype(np.int64), min(number, 0))
        )


def fits(number, dtype):
    info = strata.iinfo(dtype)
    return info.min <= number <= info.max
