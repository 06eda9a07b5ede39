"""strata.array_api, the namespace of the Python array API standard 2024.12, compared with NumPy."""

import inspect
import itertools
import operator

import numpy as np
import pytest
import strata
from strata import array_api as xp

DEVICES = ["cpu", "vgpu"]
SIGNED = ["int8", "int16", "int32", "int64"]
UNSIGNED = ["uint8", "uint16", "uint32", "uint64"]
INTEGERS, FLOATS, COMPLEX = SIGNED + UNSIGNED, ["float32", "float64"], ["complex64", "complex128"]
NUMERIC = INTEGERS + FLOATS + COMPLEX
SHAPES = [(), (0,), (1,), (5,), (3, 4), (2, 0, 3), (2, 1, 3)]

# Every name that the standard requires, by the chapters of its specification.
NAMES = """
e inf nan newaxis pi
bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 complex128
astype can_cast finfo iinfo isdtype result_type
arange asarray empty empty_like eye from_dlpack full full_like linspace meshgrid ones ones_like tril triu zeros zeros_like
abs acos acosh add asin asinh atan atan2 atanh bitwise_and bitwise_left_shift bitwise_invert bitwise_or
bitwise_right_shift bitwise_xor ceil clip conj copysign cos cosh divide equal exp expm1 floor floor_divide greater
greater_equal hypot imag isfinite isinf isnan less less_equal log log1p log2 log10 logaddexp logical_and logical_not
logical_or logical_xor maximum minimum multiply negative nextafter not_equal positive pow real reciprocal remainder
round sign signbit sin sinh square sqrt subtract tan tanh trunc
take take_along_axis
matmul matrix_transpose tensordot vecdot
broadcast_arrays broadcast_to concat expand_dims flip moveaxis permute_dims repeat reshape roll squeeze stack tile unstack
argmax argmin count_nonzero nonzero searchsorted where
unique_all unique_counts unique_inverse unique_values
argsort sort
cumulative_prod cumulative_sum max mean min prod std sum var
all any diff
linalg fft __array_api_version__ __array_namespace_info__
""".split()
LINALG_NAMES = """
cholesky cross det diagonal eigh eigvalsh inv matmul matrix_norm matrix_power matrix_rank matrix_transpose outer pinv qr
slogdet solve svd svdvals tensordot trace vecdot vector_norm
""".split()
FFT_NAMES = """
fft ifft fftn ifftn rfft irfft rfftn irfftn hfft ihfft fftfreq rfftfreq fftshift ifftshift
""".split()
ARRAY_NAMES = """
dtype device mT ndim shape size T __abs__ __add__ __and__ __array_namespace__ __bool__ __complex__ __dlpack__
__dlpack_device__ __eq__ __float__ __floordiv__ __ge__ __getitem__ __gt__ __index__ __int__ __invert__ __le__ __lshift__
__lt__ __matmul__ __mod__ __mul__ __ne__ __neg__ __or__ __pos__ __pow__ __rshift__ __setitem__ __sub__ __truediv__
__xor__ to_device
""".split()


def values(shape, dtype, seed=0):
    """Random numbers of a dtype; integers of the whole range and small ones."""
    rng = np.random.default_rng([seed, *shape, len(dtype)])
    if dtype == "bool":
        return np.asarray(rng.integers(0, 2, shape), dtype=bool)
    if dtype in INTEGERS:
        info = np.iinfo(dtype)
        large = rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)
        small = rng.integers(0 if dtype in UNSIGNED else -5, 6, shape).astype(dtype)
        return np.asarray(np.where(rng.integers(0, 2, shape), large, small), dtype=dtype)
    if dtype in FLOATS:
        return np.asarray(rng.normal(size=shape), dtype=dtype)
    return np.asarray(rng.normal(size=shape) + 1j * rng.normal(size=shape), dtype=dtype)


def tensor(array, device="cpu"):
    return xp.asarray(np.array(array), device=device, copy=True)


def strided(array, device="cpu"):
    """The same elements, every second one of a larger tensor."""
    if array.ndim == 0 or array.shape[-1] == 0:
        return tensor(array, device)
    return tensor(np.repeat(array, 2, axis=-1), device)[..., ::2]


def check(ours, expected, dtype=None, rtol=None):
    """Equal shape, dtype and elements; floating-point ones up to rounding."""
    expected = np.asarray(expected)
    assert tuple(ours.shape) == expected.shape
    assert ours.dtype == getattr(strata, dtype or str(expected.dtype))
    got = ours.cpu().numpy()
    if expected.dtype.kind in "fc":
        tolerance = rtol or (2e-5 if expected.dtype in (np.float32, np.complex64) else 1e-12)
        np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)
    else:
        np.testing.assert_array_equal(got, expected)


# --- names and signatures ----------------------------------------------------------------------------------------------


def test_all_names_are_there():
    assert [n for n in NAMES if not hasattr(xp, n)] == []
    assert [n for n in LINALG_NAMES if not hasattr(xp.linalg, n)] == []
    assert [n for n in FFT_NAMES if not hasattr(xp.fft, n)] == []
    x = xp.ones((2, 2))
    assert [n for n in ARRAY_NAMES if not hasattr(x, n)] == []
    assert sorted(xp.__all__) == sorted(set(NAMES)) and sorted(xp.linalg.__all__) == sorted(LINALG_NAMES)
    assert sorted(xp.fft.__all__) == sorted(FFT_NAMES)


def test_tensor_names_its_namespace():
    x = strata.ones(2)
    assert x.__array_namespace__() is xp and x.__array_namespace__(api_version="2023.12") is xp
    assert strata.array_api is xp and xp.__array_api_version__ == "2024.12"
    with pytest.raises(ValueError, match="unsupported version.*2042.12.*2024.12"):
        x.__array_namespace__(api_version="2042.12")


@pytest.mark.parametrize(
    "name, expected",
    [
        ("add", "(x1, x2, /)"), ("abs", "(x, /)"), ("sum", "(x, /, *, axis=None, dtype=None, keepdims=False)"),
        ("var", "(x, /, *, axis=None, correction=0.0, keepdims=False)"), ("clip", "(x, /, min=None, max=None)"),
        ("sort", "(x, /, *, axis=-1, descending=False, stable=True)"), ("reshape", "(x, /, shape, *, copy=None)"),
        ("asarray", "(obj, /, *, dtype=None, device=None, copy=None)"), ("moveaxis", "(x, source, destination, /)"),
        ("eye", "(n_rows, n_cols=None, /, *, k=0, dtype=None, device=None)"),
        ("searchsorted", "(x1, x2, /, *, side='left', sorter=None)"), ("isdtype", "(dtype, kind)"),
        ("diff", "(x, /, *, axis=-1, n=1, prepend=None, append=None)"), ("meshgrid", "(*arrays, indexing='xy')"),
    ],
)  # fmt: skip
def test_signatures(name, expected):
    assert str(inspect.signature(getattr(xp, name))) == expected


def test_info():
    info = xp.__array_namespace_info__()
    assert info.capabilities() == {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 10}
    assert info.default_device() in info.devices() and strata.device("cpu") in info.devices()
    assert info.default_dtypes()["real floating"] == strata.float32
    assert info.default_dtypes()["complex floating"] == strata.complex64
    assert info.default_dtypes()["integral"] == info.default_dtypes()["indexing"] == strata.int64
    assert set(info.dtypes()) == {"bool", *NUMERIC}
    assert info.dtypes(kind=("bool", "real floating")) == {
        "bool": strata.bool,
        "float32": strata.float32,
        "float64": strata.float64,
    }
    with pytest.raises(ValueError, match="unknown kind 'text'"):
        info.dtypes(kind="text")


# --- dtypes --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kinds", [["bool"], SIGNED, UNSIGNED, INTEGERS, FLOATS + COMPLEX])
def test_promotion_is_numpys(kinds):
    for a, b in itertools.product(kinds, kinds):
        if {a, b} & {"uint64"} and {a, b} & set(SIGNED):
            with pytest.raises(TypeError, match="no common type"):
                xp.result_type(getattr(xp, a), getattr(xp, b))
            assert not xp.can_cast(getattr(xp, a), getattr(xp, b))
            continue
        expected = getattr(xp, str(np.result_type(a, b)))
        assert xp.result_type(getattr(xp, a), getattr(xp, b)) == expected
        # Arrays without dimensions count as much as others.
        x, y = xp.ones((2,), dtype=getattr(xp, a)), xp.ones((), dtype=getattr(xp, b))
        assert xp.result_type(x, y) == xp.result_type(y, x) == expected
        assert xp.concat([x, xp.reshape(y, (1,))]).dtype == xp.where(x == x, x, y).dtype == expected
        assert xp.equal(x, y).dtype == xp.bool and bool(xp.all(xp.equal(x, y)))
        if a != "bool":
            assert xp.add(x, y).dtype == xp.add(y, x).dtype == expected
        assert xp.can_cast(getattr(xp, a), getattr(xp, b)) == (expected == getattr(xp, b))


@pytest.mark.parametrize("dtype", NUMERIC)
def test_numbers_keep_the_dtype_of_the_array(dtype):
    x = xp.ones((), dtype=getattr(xp, dtype))
    assert xp.result_type(x, 2) == xp.add(x, 2).dtype == xp.subtract(2, x).dtype == x.dtype
    assert xp.result_type(x, True) == x.dtype
    if dtype not in INTEGERS:
        assert xp.result_type(x, 1.5) == xp.multiply(1.5, x).dtype == x.dtype
        expected = dtype if dtype in COMPLEX else {"float32": "complex64", "float64": "complex128"}[dtype]
        assert xp.result_type(x, 1j) == getattr(xp, expected)


def test_result_type_errors():
    with pytest.raises(ValueError, match="at least one array or dtype"):
        xp.result_type(1, 2.0)
    with pytest.raises(TypeError, match="found str"):
        xp.result_type(xp.int8, "int8")
    with pytest.raises(TypeError, match="add: expected at least one array, found int, int"):
        xp.add(1, 2)


def test_isdtype():
    kinds = {
        "bool": ["bool"], "signed integer": SIGNED, "unsigned integer": UNSIGNED, "integral": INTEGERS,
        "real floating": FLOATS, "complex floating": COMPLEX, "numeric": NUMERIC,
    }  # fmt: skip
    for kind, members in kinds.items():
        for name in ["bool", *NUMERIC]:
            assert xp.isdtype(getattr(xp, name), kind) == (name in members)
    assert xp.isdtype(xp.int8, (xp.int16, "real floating", xp.int8)) and not xp.isdtype(xp.int8, xp.uint8)
    assert xp.isdtype(strata.bfloat16, "real floating") and not xp.isdtype(xp.int8, ())
    with pytest.raises(ValueError, match="unknown kind 'float'"):
        xp.isdtype(xp.int8, "float")
    with pytest.raises(TypeError, match="found int"):
        xp.isdtype(xp.int8, 8)


def test_limits():
    for name in FLOATS + COMPLEX:
        ours, expected = xp.finfo(getattr(xp, name)), np.finfo(name)
        for field in ("bits", "eps", "max", "min", "smallest_normal"):
            assert getattr(ours, field) == getattr(expected, field)
        assert ours.dtype == getattr(xp, str(expected.dtype)) and isinstance(ours.eps, float)
    for name in INTEGERS:
        ours, expected = xp.iinfo(getattr(xp, name)), np.iinfo(name)
        assert (ours.bits, ours.max, ours.min) == (expected.bits, expected.max, expected.min)
        assert xp.iinfo(xp.ones((), dtype=getattr(xp, name))) == ours
    with pytest.raises(TypeError, match="needs a floating-point dtype"):
        xp.finfo(xp.int8)


@pytest.mark.parametrize("device", DEVICES)
def test_astype(device):
    for a, b in itertools.product(["bool", *NUMERIC], ["bool", *NUMERIC]):
        x = np.array([0, 1, 3, 100], dtype=a)
        if a in COMPLEX and b not in [*COMPLEX, "bool"]:
            with pytest.raises(TypeError, match="cannot be converted"):
                xp.astype(tensor(x, device), getattr(xp, b))
            continue
        check(xp.astype(tensor(x, device), getattr(xp, b)), x.astype(b))
    x = tensor(np.ones(3), device)
    assert xp.astype(x, x.dtype, copy=False) is x or xp.astype(x, x.dtype, copy=False).data_ptr() == x.data_ptr()
    assert xp.astype(x, x.dtype).data_ptr() != x.data_ptr()
    assert xp.astype(x, xp.int8, device="cpu").device.type == "cpu"


# --- functions of elements ------------------------------------------------------------------------------------------------

UNARY = {
    "abs": NUMERIC, "negative": SIGNED + FLOATS + COMPLEX, "positive": NUMERIC, "square": NUMERIC, "sign": NUMERIC,
    "bitwise_invert": ["bool", *INTEGERS], "logical_not": ["bool"], "isnan": NUMERIC, "isinf": NUMERIC,
    "isfinite": NUMERIC, "signbit": FLOATS, "floor": INTEGERS + FLOATS, "ceil": INTEGERS + FLOATS,
    "trunc": INTEGERS + FLOATS, "round": NUMERIC, "reciprocal": FLOATS + COMPLEX, "exp": FLOATS + COMPLEX,
    "expm1": FLOATS + COMPLEX, "sin": FLOATS + COMPLEX, "cos": FLOATS + COMPLEX, "tan": FLOATS + COMPLEX,
    "sinh": FLOATS + COMPLEX, "cosh": FLOATS + COMPLEX, "tanh": FLOATS + COMPLEX, "atan": FLOATS + COMPLEX,
    "asinh": FLOATS + COMPLEX, "log": COMPLEX, "log1p": COMPLEX, "log2": COMPLEX, "log10": COMPLEX, "sqrt": COMPLEX,
    "acos": COMPLEX, "asin": COMPLEX, "acosh": COMPLEX, "atanh": COMPLEX, "conj": NUMERIC, "real": COMPLEX,
    "imag": COMPLEX,
}  # fmt: skip
NUMPY = {
    "acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh", "atan": "arctan", "atanh": "arctanh",
    "atan2": "arctan2", "bitwise_invert": "invert", "bitwise_left_shift": "left_shift",
    "bitwise_right_shift": "right_shift", "pow": "power", "concat": "concatenate",
}  # fmt: skip


def numpys(name):
    return getattr(np, NUMPY.get(name, name))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", UNARY)
def test_unary(name, device):
    for dtype in UNARY[name]:
        for shape in SHAPES if device == "cpu" else [(), (0,), (3, 4)]:
            x = values(shape, dtype)
            with np.errstate(all="ignore"):
                expected = numpys(name)(x)
            check(getattr(xp, name)(tensor(x, device)), expected)
            check(getattr(xp, name)(strided(x, device)), expected)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["log", "log1p", "log2", "log10", "sqrt", "acosh", "asin", "acos", "atanh"])
def test_unary_within_the_domain(name, device):
    for dtype in FLOATS:
        x = np.linspace(0.1, 0.9, 7, dtype=dtype) + (name == "acosh")
        check(getattr(xp, name)(tensor(x, device)), numpys(name)(x))


SHIFTS = ["bitwise_left_shift", "bitwise_right_shift"]
BINARY = {
    "add": NUMERIC, "subtract": NUMERIC, "multiply": NUMERIC, "divide": FLOATS + COMPLEX, "floor_divide": INTEGERS,
    "remainder": INTEGERS, "pow": FLOATS, "bitwise_and": ["bool", *INTEGERS], "bitwise_or": ["bool", *INTEGERS],
    "bitwise_xor": ["bool", *INTEGERS], "bitwise_left_shift": INTEGERS, "bitwise_right_shift": INTEGERS,
    "equal": ["bool", *NUMERIC], "not_equal": ["bool", *NUMERIC], "less": INTEGERS + FLOATS,
    "less_equal": INTEGERS + FLOATS, "greater": INTEGERS + FLOATS, "greater_equal": INTEGERS + FLOATS,
    "maximum": INTEGERS + FLOATS, "minimum": INTEGERS + FLOATS, "logical_and": ["bool"], "logical_or": ["bool"],
    "logical_xor": ["bool"], "atan2": FLOATS, "hypot": FLOATS, "copysign": FLOATS, "nextafter": FLOATS,
    "logaddexp": FLOATS,
}  # fmt: skip


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", BINARY)
def test_binary(name, device):
    shapes = [((3, 4), (3, 4)), ((3, 1), (4,)), ((), (2, 3)), ((0,), (1,)), ((2, 0), (2, 1))]
    for dtype in BINARY[name]:
        for first, second in shapes:
            a, b = values(first, dtype, 1), values(second, dtype, 2)
            if name in SHIFTS:
                b = np.asarray(b % np.array(np.iinfo(dtype).bits, dtype=dtype))
            elif name in ("floor_divide", "remainder"):
                b = np.asarray(np.where(b == 0, np.array(1, dtype=dtype), b))
            elif name == "pow":
                a = np.abs(a)
            with np.errstate(all="ignore"):
                expected = numpys(name)(a, b)
            check(getattr(xp, name)(tensor(a, device), tensor(b, device)), expected)
            check(getattr(xp, name)(strided(a, device), strided(b, device)), expected)


@pytest.mark.parametrize("device", DEVICES)
def test_mixed_dtypes_are_promoted(device):
    for a, b in itertools.product(SIGNED + UNSIGNED[:3], SIGNED + UNSIGNED[:3]):
        x, y = values((4,), a, 1), values((), b, 2)
        check(xp.add(tensor(x, device), tensor(y, device)), x.astype(np.result_type(a, b)) + y)
        check(xp.less(tensor(x, device), tensor(y, device)), np.less(x, np.broadcast_to(y, (4,))))


@pytest.mark.parametrize("device", DEVICES)
def test_powers_of_integers(device):
    for dtype in INTEGERS:
        a, b = np.array([0, 1, 2, 3, 5], dtype=dtype), np.array([3, 7, 0, 2, 1], dtype=dtype)
        check(xp.pow(tensor(a, device), tensor(b, device)), a**b)
    a = np.array([2**64 - 1, 2**63, 3], dtype=np.uint64)
    check(
        xp.pow(tensor(a, device), tensor(np.array([2, 1, 40], dtype=np.uint64), device)),
        a ** np.array([2, 1, 40], np.uint64),
    )


@pytest.mark.parametrize("device", DEVICES)
def test_signs_of_special_numbers(device):
    x = np.array([np.nan, -np.nan, -0.0, 0.0, np.inf, -np.inf, -2.5])
    check(xp.sign(tensor(x, device)), np.sign(x))
    check(xp.signbit(tensor(x, device)), np.signbit(x))
    z = np.array([0j, 3 + 4j, -2j])
    check(xp.sign(tensor(z, device)), np.sign(z))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", INTEGERS + FLOATS)
def test_clip(dtype, device):
    x = values((3, 4), dtype)
    low, high = values((4,), dtype, 1), values((3, 1), dtype, 2)
    t, a, b = (tensor(v, device) for v in (x, low, high))
    check(xp.clip(t, a, b), np.minimum(np.maximum(x, low), high))
    check(xp.clip(t, max=b), np.minimum(x, high))
    check(xp.clip(t, 1, 3), np.clip(x, np.array(1, dtype), np.array(3, dtype)))
    check(xp.clip(t, min=2), np.maximum(x, np.array(2, dtype)))
    check(xp.clip(t), x)


# --- creation --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ["bool", *NUMERIC])
def test_fills(dtype, device):
    like = {"dtype": getattr(xp, dtype), "device": device}
    for shape in [*SHAPES, 4]:
        check(xp.zeros(shape, **like), np.zeros(shape, dtype))
        check(xp.ones(shape, **like), np.ones(shape, dtype))
        check(xp.full(shape, 1, **like), np.full(shape, 1, dtype))
        assert xp.empty(shape, **like).shape == np.empty(shape).shape
    x = xp.zeros((2, 3), **like)
    check(xp.ones_like(x), np.ones((2, 3), dtype))
    check(xp.full_like(x, 1, dtype=xp.float64), np.ones((2, 3)))
    check(xp.zeros_like(x, dtype=xp.int8), np.zeros((2, 3), np.int8))
    assert xp.empty_like(x).dtype == x.dtype and xp.full_like(x, 0).device == x.device
    for rows, columns, k in [(3, None, 0), (3, 4, 1), (4, 3, -2), (2, 2, 5), (0, 3, 0)]:
        check(xp.eye(rows, columns, k=k, **like), np.eye(rows, columns, k, dtype))


def test_largest_integers():
    top = 2**64 - 1
    assert xp.full((2,), top, dtype=xp.uint64).tolist() == [top, top]
    assert xp.asarray([0, 2**63, top], dtype=xp.uint64).tolist() == [0, 2**63, top]
    x = xp.asarray(top, dtype=xp.uint64)
    assert int(x) == operator.index(x) == top and float(x) == 2.0**64
    with pytest.raises(RuntimeError, match="overflow"):
        xp.asarray([2**64], dtype=xp.uint64)
    with pytest.raises(RuntimeError, match="overflow"):
        xp.asarray(2**63, dtype=xp.int64)


def test_default_dtypes():
    assert xp.full((), True).dtype == xp.bool and xp.full((), 3).dtype == xp.int64
    assert xp.full((), 3.0).dtype == xp.float32 and xp.full((), 1j).dtype == xp.complex64
    assert xp.asarray([1, 2.5]).dtype == xp.float32 and xp.linspace(0, 1j, 3).dtype == xp.complex64


@pytest.mark.parametrize(
    "given", [(5,), (2, 9), (2, 9, 3), (9, 2, -2), (5, 2), (0, 1, 0.25), (1.5,), (3, 3), (-4,), (0, -1, 2)]
)
def test_arange(given):
    check(xp.arange(*given, dtype=xp.float64), np.arange(*given, dtype=np.float64))
    whole = all(isinstance(v, int) for v in given)
    assert xp.arange(*given).dtype == (xp.int64 if whole else xp.float32)
    if whole and min(given) >= 0:
        check(xp.arange(*given, dtype=xp.uint64), np.arange(*given, dtype=np.uint64))


def test_arange_refuses_step_zero():
    with pytest.raises(ValueError, match="step must not be 0"):
        xp.arange(0, 3, 0)


@pytest.mark.parametrize("dtype", FLOATS + COMPLEX)
@pytest.mark.parametrize("endpoint", [True, False])
def test_linspace(dtype, endpoint):
    for start, stop, num in [(0, 1, 5), (3.0, -2.0, 4), (1, 1, 3), (0, 7, 1), (0, 1, 0)]:
        ours = xp.linspace(start, stop, num, dtype=getattr(xp, dtype), endpoint=endpoint)
        check(ours, np.linspace(start, stop, num, endpoint=endpoint, dtype=dtype))
    with pytest.raises(ValueError, match="num must not be negative"):
        xp.linspace(0, 1, -1)


def test_meshgrid_and_triangles():
    a, b = np.arange(3), np.arange(4) * 2
    for indexing in ("xy", "ij"):
        for ours, expected in zip(
            xp.meshgrid(tensor(a), tensor(b), indexing=indexing), np.meshgrid(a, b, indexing=indexing), strict=True
        ):
            check(ours, expected)
    assert xp.meshgrid() == []
    with pytest.raises(ValueError, match="same dtype"):
        xp.meshgrid(tensor(a), tensor(b.astype(float)))
    for dtype in ["bool", *NUMERIC]:
        x = values((2, 3, 4), dtype)
        for k in (-1, 0, 2):
            check(xp.tril(tensor(x), k=k), np.tril(x, k))
            check(xp.triu(tensor(x), k=k), np.triu(x, k))


def test_asarray_copies():
    x = strata.arange(3)
    assert xp.asarray(x).data_ptr() == xp.asarray(x, copy=False).data_ptr() == x.data_ptr()
    assert xp.asarray(x, copy=True).data_ptr() != x.data_ptr()
    with pytest.raises(ValueError, match="copy=False"):
        xp.asarray(x, dtype=xp.float32, copy=False)
    with pytest.raises(ValueError, match="list has no memory to share"):
        xp.asarray([1, 2], copy=False)
    array = np.arange(3)
    assert xp.asarray(array, copy=False).data_ptr() == array.ctypes.data
    assert xp.asarray(array, copy=True).data_ptr() != array.ctypes.data
    check(xp.asarray(array, dtype=xp.float64), array.astype(float))
    check(xp.asarray([[1, 2], [3, 4]], dtype=xp.int16), np.array([[1, 2], [3, 4]], np.int16))


def test_dlpack():
    x = strata.arange(6).reshape(2, 3)
    same, copied = xp.from_dlpack(x), xp.from_dlpack(x, copy=True)
    assert same.data_ptr() == x.data_ptr() != copied.data_ptr()
    array = np.arange(4.0)
    check(xp.from_dlpack(array), array)
    assert np.from_dlpack(x).tolist() == x.tolist()
    assert xp.from_dlpack(x, device="cpu").data_ptr() == x.data_ptr()
    on_device = xp.from_dlpack(x, device="vgpu")
    assert on_device.device.type == "vgpu" and on_device.tolist() == x.tolist()
    with pytest.raises(ValueError, match="copy=False does not allow"):
        xp.from_dlpack(x, device="vgpu", copy=False)
    assert x.__dlpack_device__() == (1, 0) and x.to_device("vgpu").device.type == "vgpu"
    with pytest.raises(ValueError, match="stream must be None"):
        x.to_device("cpu", stream=1)


# --- shapes --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ["bool", "uint8", "uint64", "float32", "complex128"])
def test_shapes(dtype, device):
    x = values((2, 3, 4), dtype)
    t = tensor(x, device)
    check(xp.reshape(t, (4, -1)), x.reshape(4, -1))
    check(xp.permute_dims(t, (2, 0, 1)), x.transpose(2, 0, 1))
    check(xp.moveaxis(t, (0, 1), (-1, 0)), np.moveaxis(x, (0, 1), (-1, 0)))
    check(xp.expand_dims(t, axis=1), np.expand_dims(x, 1))
    check(xp.squeeze(xp.reshape(t, (1, 24, 1)), (0, 2)), x.reshape(24))
    for axis in (None, 1, (0, -1), ()):
        check(xp.flip(t, axis=axis), np.flip(x, axis))
    for shift, axis in [(5, None), (-2, 1), ((1, 2), (0, 2)), (1, (0, 1))]:
        check(xp.roll(t, shift, axis=axis), np.roll(x, shift, axis))
    for times, axis in [(3, None), (2, 1), (np.array([1, 0, 2]), 1), (np.array([2]), 0)]:
        check(
            xp.repeat(t, tensor(times, device) if isinstance(times, np.ndarray) else times, axis=axis),
            np.repeat(x, times, axis),
        )
    for times in [(2,), (1, 2, 1), (2, 1, 1, 3), ()]:
        check(xp.tile(t, times), np.tile(x, times))
    check(xp.concat([t, t], axis=2), np.concatenate([x, x], 2))
    check(xp.concat([t, t], axis=None), np.concatenate([x, x], None))
    check(xp.stack([t, t], axis=1), np.stack([x, x], 1))
    for ours, expected in zip(xp.unstack(t, axis=-1), np.moveaxis(x, -1, 0), strict=True):
        check(ours, expected)
    check(xp.broadcast_to(t, (2, 2, 3, 4)), np.broadcast_to(x, (2, 2, 3, 4)))
    for ours, expected in zip(xp.broadcast_arrays(t, t[:, :1]), np.broadcast_arrays(x, x[:, :1]), strict=True):
        check(ours, expected)
    check(xp.matrix_transpose(t), x.swapaxes(-1, -2))


def test_reshape_copies():
    x = strata.arange(6).reshape(2, 3)
    assert xp.reshape(x, (3, 2), copy=False).data_ptr() == x.data_ptr() != xp.reshape(x, (6,), copy=True).data_ptr()
    with pytest.raises(ValueError, match="copy=False"):
        xp.reshape(x.T, (6,), copy=False)


def test_shape_errors():
    with pytest.raises(ValueError, match="axis 1 must have size 1, found 3"):
        xp.squeeze(xp.ones((1, 3)), 1)
    with pytest.raises(ValueError, match="at least two dimensions"):
        xp.matrix_transpose(xp.ones(3))


# --- reductions ----------------------------------------------------------------------------------------------------------

AXES = [None, 0, -1, (0, 2), (2, 1), ()]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "mean", "var", "std", "all", "any", "count_nonzero"])
def test_reductions(name, device):
    dtypes = {"sum": NUMERIC, "prod": NUMERIC, "max": INTEGERS + FLOATS, "min": INTEGERS + FLOATS}
    dtypes |= {"mean": FLOATS + COMPLEX, "var": FLOATS, "std": FLOATS}
    for dtype in dtypes.get(name, ["bool", *NUMERIC]):
        x = values((2, 3, 4), dtype)
        wide = (
            {"dtype": "uint64" if dtype in UNSIGNED else "int64"}
            if name in ("sum", "prod") and dtype in INTEGERS
            else {}
        )
        for axis, keepdims in itertools.product(AXES, (False, True)):
            expected = getattr(np, name)(x, axis=axis, keepdims=keepdims, **wide)
            result_dtype = "int64" if name == "count_nonzero" else None
            rtol = 1e-4 if dtype in ("float32", "complex64") else None
            check(getattr(xp, name)(tensor(x, device), axis=axis, keepdims=keepdims), expected, result_dtype, rtol)
            check(getattr(xp, name)(strided(x, device), axis=axis, keepdims=keepdims), expected, result_dtype, rtol)
    one = np.array(1, dtype="float32" if name in ("mean", "var", "std") else "uint8")
    expected = getattr(np, name)(one, **({"dtype": "uint64"} if name in ("sum", "prod") else {}))
    check(getattr(xp, name)(tensor(one, device)), expected)


@pytest.mark.parametrize("device", DEVICES)
def test_reductions_of_nothing(device):
    x = xp.zeros((0, 3), device=device)
    assert xp.sum(x, axis=0).tolist() == [0.0] * 3 and xp.prod(x, axis=0).tolist() == [1.0] * 3
    assert xp.all(x).item() and not xp.any(x).item() and xp.count_nonzero(x).item() == 0
    with pytest.raises(IndexError, match="non-zero size"):
        xp.max(x, axis=0)


@pytest.mark.parametrize("device", DEVICES)
def test_dtypes_and_corrections(device):
    x = values((3, 4), "float32")
    t = tensor(x, device)
    check(xp.sum(t, axis=0, dtype=xp.float64), x.astype(np.float64).sum(0))
    for correction in (0, 1, 0.5):
        check(xp.var(t, axis=1, correction=correction), x.var(1, ddof=correction), rtol=1e-4)
        check(xp.std(t, correction=correction), x.std(ddof=correction), rtol=1e-4)


@pytest.mark.parametrize("device", DEVICES)
def test_cumulative(device):
    for dtype in NUMERIC:
        x = values((3, 4), dtype)
        wide = {"dtype": "uint64" if dtype in UNSIGNED else "int64"} if dtype in INTEGERS else {}
        for ours, theirs in ((xp.cumulative_sum, np.cumulative_sum), (xp.cumulative_prod, np.cumulative_prod)):
            for axis, first in itertools.product((0, -1), (False, True)):
                check(
                    ours(tensor(x, device), axis=axis, include_initial=first),
                    theirs(x, axis=axis, include_initial=first, **wide),
                )
        for n in (1, 2):
            check(xp.diff(tensor(x, device), n=n, axis=0), np.diff(x, n, 0))
        check(
            xp.diff(tensor(x, device), prepend=tensor(x[:, :1], device), append=tensor(x, device)),
            np.diff(x, prepend=x[:, :1], append=x),
        )
    check(xp.cumulative_sum(tensor(np.arange(4.0), device)), np.cumsum(np.arange(4.0)))
    with pytest.raises(ValueError, match="axis is required"):
        xp.cumulative_sum(xp.ones((2, 2)))


# --- order and search ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", DEVICES)
def test_sorts(device):
    for dtype in INTEGERS + FLOATS:
        x = values((3, 5), dtype)
        x[0, 0] = x[0, 3]
        t = tensor(x, device)
        for axis in (0, -1):
            check(xp.sort(t, axis=axis), np.sort(x, axis))
            check(xp.argsort(t, axis=axis), np.argsort(x, axis, stable=True))
            check(xp.sort(t, axis=axis, descending=True), np.flip(np.sort(x, axis), axis))
            down = np.flip(x.shape[axis] - 1 - np.argsort(np.flip(x, axis), axis, stable=True), axis)
            check(xp.argsort(t, axis=axis, descending=True), down)
        for name, axis, keepdims in itertools.product(("argmax", "argmin"), (None, 0, -1), (False, True)):
            expected = getattr(np, name)(x, axis=axis, keepdims=keepdims)
            check(getattr(xp, name)(t, axis=axis, keepdims=keepdims), expected)


@pytest.mark.parametrize("device", DEVICES)
def test_searches(device):
    for dtype in INTEGERS + FLOATS:
        line, wanted = np.sort(values((9,), dtype)), values((2, 3), dtype, 1)
        wanted[0, 0] = line[4]
        for side in ("left", "right"):
            check(
                xp.searchsorted(tensor(line, device), tensor(wanted, device), side=side),
                np.searchsorted(line, wanted, side),
            )
        shuffled = np.random.default_rng(1).permutation(line)
        order = np.argsort(shuffled)
        ours = xp.searchsorted(tensor(shuffled, device), tensor(wanted, device), sorter=tensor(order, device))
        check(ours, np.searchsorted(shuffled, wanted, sorter=order))
    with pytest.raises(ValueError, match="'left' or 'right'"):
        xp.searchsorted(xp.ones(2), xp.ones(2), side="middle")


@pytest.mark.parametrize("device", DEVICES)
def test_where_and_places(device):
    for dtype in ["bool", *NUMERIC]:
        x, y = values((3, 4), dtype, 1), values((4,), dtype, 2)
        condition = values((3, 1), "bool")
        check(xp.where(tensor(condition, device), tensor(x, device), tensor(y, device)), np.where(condition, x, y))
        for ours, expected in zip(xp.nonzero(tensor(x, device)), np.nonzero(x), strict=True):
            check(ours, expected)
        index = np.array([[2, 0], [1, 1], [0, 3]])
        check(xp.take(tensor(x, device), tensor(index - 2, device), axis=-1), np.take(x, index - 2, -1))
        check(xp.take(tensor(x, device), tensor(index[:, 0], device), axis=1), np.take(x, index[:, 0], 1))
        check(xp.take(tensor(y, device), tensor(index[:, 1], device)), np.take(y, index[:, 1]))
        check(xp.take_along_axis(tensor(x, device), tensor(index, device), axis=1), np.take_along_axis(x, index, 1))
    check(xp.where(tensor(condition, device), tensor(x, device), 2.5), np.where(condition, x, 2.5))
    with pytest.raises(ValueError, match="zero-dimensional"):
        xp.nonzero(xp.ones(()))
    with pytest.raises(ValueError, match="axis is required"):
        xp.take(xp.ones((2, 2)), xp.asarray([0]))


@pytest.mark.parametrize("device", DEVICES)
def test_sets(device):
    for dtype in ["bool", *NUMERIC]:
        for shape in [(), (0,), (3, 8)]:
            x = values(shape, dtype) if dtype not in FLOATS + COMPLEX else values(shape, "int8").astype(dtype)
            if dtype in COMPLEX:
                x = x + 1j * (values(shape, "int8", 3) % 2).astype(dtype)
            expected = np.unique_all(np.asarray(x, dtype))
            ours = xp.unique_all(tensor(np.asarray(x, dtype), device))
            check(ours.values, expected.values)
            check(ours.indices, expected.indices)
            check(ours.inverse_indices, expected.inverse_indices)
            check(ours.counts, expected.counts)
            t = tensor(np.asarray(x, dtype), device)
            check(xp.unique_values(t), expected.values)
            check(xp.unique_counts(t).counts, expected.counts)
            check(xp.unique_inverse(t).inverse_indices, expected.inverse_indices)


def test_every_nan_is_distinct():
    found = xp.unique_all(xp.asarray([np.nan, 1.0, np.nan, 1.0]))
    assert found.counts.tolist() == [2, 1, 1] and found.inverse_indices.tolist() == [1, 0, 2, 0]


# --- linear algebra and Fourier transforms ---------------------------------------------------------------------------------


@pytest.mark.parametrize("device", DEVICES)
def test_products(device):
    for dtype in NUMERIC:
        for a, b in [((3, 4), (4, 2)), ((4,), (4,)), ((2, 3, 4), (4, 5)), ((2, 3, 4), (2, 4, 1)), ((4,), (4, 3))]:
            x, y = values(a, dtype, 1), values(b, dtype, 2)
            check(xp.matmul(tensor(x, device), tensor(y, device)), np.matmul(x, y))
        x, y = values((3, 4), dtype, 1), values((3, 4), dtype, 2)
        t, u = tensor(x, device), tensor(y, device)
        check(xp.vecdot(t, u), np.vecdot(x, y))
        check(xp.vecdot(t, u, axis=0), np.vecdot(x, y, axis=0))
        check(xp.tensordot(t, u, axes=2), np.tensordot(x, y, 2))
        check(xp.tensordot(t, u, axes=((1,), (1,))), np.tensordot(x, y, ((1,), (1,))))
        check(xp.tensordot(t, u, axes=0), np.tensordot(x, y, 0))
        check(xp.linalg.outer(t[0], u[1]), np.outer(x[0], y[1]))
        check(xp.linalg.cross(t[:, :3], u[0, :3]), np.cross(x[:, :3], y[0, :3]))
        wide = {"dtype": "uint64" if dtype in UNSIGNED else "int64"} if dtype in INTEGERS else {}
        check(xp.linalg.trace(t, offset=1), np.trace(x, 1, **wide))
        check(xp.linalg.diagonal(t, offset=-1), np.diagonal(x, -1))


def coarse(dtype):
    return 1e-3 if dtype in ("float32", "complex64") else 1e-10


@pytest.mark.parametrize("dtype", FLOATS + COMPLEX)
def test_systems_norms_and_spectra(dtype):
    linalg, rtol = xp.linalg, coarse(dtype)
    for shape in [(3, 3), (2, 4, 4), (1, 1)]:
        x = values(shape, dtype) + 2 * np.eye(shape[-1], dtype=dtype)
        h = x @ x.conj().swapaxes(-1, -2)
        t = tensor(x)
        check(linalg.inv(t), np.linalg.inv(x), rtol=rtol)
        check(linalg.eigvalsh(tensor(h)), np.linalg.eigvalsh(h), rtol=rtol)
        check(linalg.svdvals(t), np.linalg.svd(x, compute_uv=False), rtol=rtol)
        check(linalg.matrix_power(t, 3), np.linalg.matrix_power(x, 3), rtol=rtol)
        check(linalg.matrix_rank(t), np.linalg.matrix_rank(x), "int64")
        check(linalg.matrix_rank(t, rtol=0.9), np.linalg.matrix_rank(x, rtol=0.9), "int64")
        for order in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf):
            expected = np.linalg.matrix_norm(x, ord=order, keepdims=True)
            check(linalg.matrix_norm(t, ord=order, keepdims=True), expected, rtol=rtol)
        b = values((*shape[:-1], 2), dtype, 1)
        check(linalg.solve(t, tensor(b)), np.linalg.solve(x, b), rtol=rtol)
        line = b.reshape(-1)[: shape[-1]]
        check(linalg.solve(t, tensor(line)), np.linalg.solve(x, line), rtol=rtol)
    x = values((2, 5, 3), dtype)
    for order, axis in itertools.product((0, 1, 2, 3.5, np.inf, -np.inf), (None, 0, (0, 2))):
        expected = np.linalg.vector_norm(x, axis=axis, ord=order, keepdims=axis is not None)
        check(linalg.vector_norm(tensor(x), axis=axis, ord=order, keepdims=axis is not None), expected, rtol=rtol)
    check(linalg.vector_norm(tensor(x), axis=()), np.abs(x))


@pytest.mark.parametrize("dtype", FLOATS)
def test_decompositions(dtype):
    linalg, rtol = xp.linalg, coarse(dtype)
    for shape in [(3, 3), (2, 4, 4), (1, 1)]:
        x = values(shape, dtype) + 2 * np.eye(shape[-1], dtype=dtype)
        h = x @ x.swapaxes(-1, -2)
        t, s = tensor(x), tensor(h)
        check(linalg.det(t), np.linalg.det(x), rtol=rtol)
        check(linalg.pinv(t), np.linalg.pinv(x), rtol=rtol)
        check(linalg.cholesky(s), np.linalg.cholesky(h), rtol=rtol)
        check(linalg.cholesky(s, upper=True), np.linalg.cholesky(h).swapaxes(-1, -2), rtol=rtol)
        found = linalg.eigh(s)
        check(found.eigenvectors * found.eigenvalues[..., None, :], h @ found.eigenvectors.numpy(), rtol=rtol)
        found, expected = linalg.slogdet(t), np.linalg.slogdet(x)
        check(found.sign, expected.sign, rtol=rtol)
        check(found.logabsdet, expected.logabsdet, rtol=rtol)
    x = values((2, 5, 3), dtype)
    for mode in ("reduced", "complete"):
        q, r = linalg.qr(tensor(x), mode=mode)
        check(q @ r, x, rtol=rtol)
        assert q.shape == np.linalg.qr(x, mode).Q.shape
    for full in (True, False):
        u, s, vh = linalg.svd(tensor(x), full_matrices=full)
        assert u.shape == np.linalg.svd(x, full).U.shape and vh.shape == (2, 3, 3)
        check((u[..., :3] * s[..., None, :]) @ vh, x, rtol=rtol)


def test_linalg_errors():
    with pytest.raises(ValueError, match="axis -1 must have size 3, found 2 and 2"):
        xp.linalg.cross(xp.ones(2), xp.ones(2))
    with pytest.raises(ValueError, match="axis -1 has 1 elements in x1 and 2 in x2"):
        xp.vecdot(xp.ones(1), xp.ones(2))
    with pytest.raises(ValueError, match="'reduced' or 'complete', found 'raw'"):
        xp.linalg.qr(xp.ones((2, 2)), mode="raw")


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", FLOATS + COMPLEX)
def test_fft(dtype, device):
    x = values((3, 8), dtype)
    t = tensor(x, device)
    for norm in ("backward", "ortho", "forward"):
        for name in ("fft", "ifft", "hfft") if dtype in COMPLEX else ("fft", "ifft", "rfft", "ihfft"):
            for n, axis in ((None, -1), (5, 0), (10, 1)):
                ours = getattr(xp.fft, name)(t, n=n, axis=axis, norm=norm)
                wide = x.astype("complex128" if dtype in COMPLEX else "float64")
                expected = getattr(np.fft, name)(wide, n=n, axis=axis, norm=norm)
                check(ours.to(strata.complex128 if ours.is_complex() else strata.float64), expected, rtol=1e-5)
        for name in ("fftn", "ifftn", "irfftn") if dtype in COMPLEX else ("fftn", "rfftn"):
            for axes in (None, (1,), (1, 0)):
                ours = getattr(xp.fft, name)(t, axes=axes, norm=norm)
                expected = getattr(np.fft, name)(
                    x.astype("complex128" if dtype in COMPLEX else "float64"), axes=axes, norm=norm
                )
                check(ours.to(strata.complex128 if ours.is_complex() else strata.float64), expected, rtol=1e-5)
    for name in ("fftshift", "ifftshift"):
        check(getattr(xp.fft, name)(t), getattr(np.fft, name)(x))
        check(getattr(xp.fft, name)(t, axes=1), getattr(np.fft, name)(x, 1))
    for n in (1, 4, 5):
        check(xp.fft.fftfreq(n, d=0.5, dtype=xp.float64, device=device), np.fft.fftfreq(n, 0.5))
        check(xp.fft.rfftfreq(n, d=0.5, dtype=xp.float64, device=device), np.fft.rfftfreq(n, 0.5))


# --- gradients -------------------------------------------------------------------------------------------------------------


def test_gradients_flow_through_the_namespace():
    x = strata.tensor([1.0, 2.0, 4.0], requires_grad=True)
    xp.sum(xp.sign(x) * xp.var(x) + xp.max(xp.stack([x, 2 * x]), axis=0)).backward()
    assert x.grad.tolist() == pytest.approx([2 + 2 * (v - 7 / 3) for v in (1, 2, 4)], rel=1e-5)
