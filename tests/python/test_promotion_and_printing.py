"""Type promotion and printing, against tables taken from PyTorch."""

import pytest
import strata
import strata as torch

TYPES = "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64".split()
TENSORS = {
    "bool": "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64",
    "uint8": "uint8 uint8 int16 int16 int32 int64 float16 bfloat16 float32 float64",
    "int8": "int8 int16 int8 int16 int32 int64 float16 bfloat16 float32 float64",
    "int16": "int16 int16 int16 int16 int32 int64 float16 bfloat16 float32 float64",
    "int32": "int32 int32 int32 int32 int32 int64 float16 bfloat16 float32 float64",
    "int64": "int64 int64 int64 int64 int64 int64 float16 bfloat16 float32 float64",
    "float16": "float16 float16 float16 float16 float16 float16 float16 float32 float32 float64",
    "bfloat16": "bfloat16 bfloat16 bfloat16 bfloat16 bfloat16 bfloat16 float32 bfloat16 float32 float64",
    "float32": "float32 float32 float32 float32 float32 float32 float32 float32 float32 float64",
    "float64": "float64 float64 float64 float64 float64 float64 float64 float64 float64 float64",
}
NUMBERS = {  # tensor with a Python bool, int, float
    "bool": "bool int64 float32",
    "uint8": "uint8 uint8 float32",
    "int8": "int8 int8 float32",
    "int16": "int16 int16 float32",
    "int32": "int32 int32 float32",
    "int64": "int64 int64 float32",
    "float16": "float16 float16 float16",
    "bfloat16": "bfloat16 bfloat16 bfloat16",
    "float32": "float32 float32 float32",
    "float64": "float64 float64 float64",
}
ZERO_DIM = {  # tensor with a zero-dimensional tensor
    "bool": "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64",
    "uint8": "uint8 uint8 uint8 uint8 uint8 uint8 float16 bfloat16 float32 float64",
    "int8": "int8 int8 int8 int8 int8 int8 float16 bfloat16 float32 float64",
    "int16": "int16 int16 int16 int16 int16 int16 float16 bfloat16 float32 float64",
    "int32": "int32 int32 int32 int32 int32 int32 float16 bfloat16 float32 float64",
    "int64": "int64 int64 int64 int64 int64 int64 float16 bfloat16 float32 float64",
    "float16": "float16 float16 float16 float16 float16 float16 float16 float16 float16 float16",
    "bfloat16": "bfloat16 bfloat16 bfloat16 bfloat16 bfloat16 bfloat16 bfloat16 bfloat16 bfloat16 bfloat16",
    "float32": "float32 float32 float32 float32 float32 float32 float32 float32 float32 float32",
    "float64": "float64 float64 float64 float64 float64 float64 float64 float64 float64 float64",
}
PRINTED = [
    ("torch.tensor([1.,2.,3.])", "tensor([1., 2., 3.])"),
    ("torch.tensor([1e-5,1.])", "tensor([1.0000e-05, 1.0000e+00])"),
    ("torch.tensor([[1,22],[333,4]])", "tensor([[  1,  22],\n        [333,   4]])"),
    ("torch.tensor([True,False])", "tensor([ True, False])"),
    ("torch.tensor([1.5,float('nan'),float('inf')])", "tensor([1.5000,    nan,    inf])"),
    ("torch.tensor(3.14159)", "tensor(3.1416)"),
    ("torch.zeros(0)", "tensor([])"),
    ("torch.zeros(2,0)", "tensor([], size=(2, 0))"),
    (
        "torch.arange(2000.)",
        "tensor([0.0000e+00, 1.0000e+00, 2.0000e+00,  ..., 1.9970e+03, 1.9980e+03,\n        1.9990e+03])",
    ),
    ("torch.ones(2,3,dtype=torch.float64)", "tensor([[1., 1., 1.],\n        [1., 1., 1.]], dtype=strata.float64)"),
    ("torch.tensor([1.5],dtype=torch.bfloat16)", "tensor([1.5000], dtype=strata.bfloat16)"),
    (
        "torch.arange(30).reshape(2,3,5)",
        "tensor([[[ 0,  1,  2,  3,  4],\n         [ 5,  6,  7,  8,  9],\n         [10, 11, 12, 13, 14]],\n\n        [[15, 16, 17, 18, 19],\n         [20, 21, 22, 23, 24],\n         [25, 26, 27, 28, 29]]])",
    ),
    ("torch.tensor([123456.0,0.5])", "tensor([1.2346e+05, 5.0000e-01])"),
    ("torch.tensor([1e10,1.])", "tensor([1.0000e+10, 1.0000e+00])"),
    ("torch.ones(3,requires_grad=True)", "tensor([1., 1., 1.], requires_grad=True)"),
    ("torch.ones(3,requires_grad=True)*2", "tensor([2., 2., 2.], grad_fn=<MulBackward0>)"),
    (
        "torch.arange(10000).reshape(100,100)",
        "tensor([[   0,    1,    2,  ...,   97,   98,   99],\n        [ 100,  101,  102,  ...,  197,  198,  199],\n        [ 200,  201,  202,  ...,  297,  298,  299],\n        ...,\n        [9700, 9701, 9702,  ..., 9797, 9798, 9799],\n        [9800, 9801, 9802,  ..., 9897, 9898, 9899],\n        [9900, 9901, 9902,  ..., 9997, 9998, 9999]])",
    ),
    ("torch.tensor([-1.5,2.25])", "tensor([-1.5000,  2.2500])"),
    ("torch.tensor(7)", "tensor(7)"),
    ("torch.tensor([0.0001,0.001])", "tensor([1.0000e-04, 1.0000e-03])"),
    (
        "torch.linspace(0,1,50)",
        "tensor([0.0000, 0.0204, 0.0408, 0.0612, 0.0816, 0.1020, 0.1224, 0.1429, 0.1633,\n        0.1837, 0.2041, 0.2245, 0.2449, 0.2653, 0.2857, 0.3061, 0.3265, 0.3469,\n        0.3673, 0.3878, 0.4082, 0.4286, 0.4490, 0.4694, 0.4898, 0.5102, 0.5306,\n        0.5510, 0.5714, 0.5918, 0.6122, 0.6327, 0.6531, 0.6735, 0.6939, 0.7143,\n        0.7347, 0.7551, 0.7755, 0.7959, 0.8163, 0.8367, 0.8571, 0.8776, 0.8980,\n        0.9184, 0.9388, 0.9592, 0.9796, 1.0000])",
    ),
    (
        "torch.tensor([[1.,-2.],[3.5,4.]],dtype=torch.float16)",
        "tensor([[ 1.0000, -2.0000],\n        [ 3.5000,  4.0000]], dtype=strata.float16)",
    ),
    ("torch.zeros(0, dtype=torch.int64)", "tensor([], dtype=strata.int64)"),
    ("torch.tensor([float('nan'), float('-inf')])", "tensor([nan, -inf])"),
    ("torch.zeros(3)", "tensor([0., 0., 0.])"),
]


def dtype(name):
    return getattr(strata, name)


PAIRS = [(a, b) for a in TYPES for b in TYPES]


@pytest.mark.parametrize("a, b", PAIRS)
def test_two_tensors(a, b):
    want = dtype(TENSORS[a].split()[TYPES.index(b)])
    x, y = strata.ones(2, dtype=dtype(a)), strata.ones(2, dtype=dtype(b))
    assert strata.promote_types(dtype(a), dtype(b)) is want
    assert strata.result_type(x, y) is want
    assert (x * y).dtype is want


@pytest.mark.parametrize("a", TYPES)
@pytest.mark.parametrize("position, number", [(0, True), (1, 2), (2, 2.5)])
def test_tensor_and_number(a, position, number):
    want = dtype(NUMBERS[a].split()[position])
    x = strata.ones(2, dtype=dtype(a))
    assert strata.result_type(x, number) is want
    assert (x * number).dtype is want and (number * x).dtype is want


@pytest.mark.parametrize("a, b", PAIRS)
def test_tensor_and_zero_dimensional_tensor(a, b):
    want = dtype(ZERO_DIM[a].split()[TYPES.index(b)])
    x, y = strata.ones(2, dtype=dtype(a)), strata.ones((), dtype=dtype(b))
    assert (x * y).dtype is want and (y * x).dtype is want


@pytest.mark.parametrize("a", ["float8_e4m3fn", "float8_e5m2"])
def test_float8_has_no_common_type_with_other_narrow_floats(a):
    with pytest.raises(RuntimeError, match="no common type"):
        strata.promote_types(dtype(a), strata.float16)
    assert strata.promote_types(dtype(a), strata.float32) is strata.float32


@pytest.mark.parametrize("text, printed", PRINTED, ids=[p[0] for p in PRINTED])
def test_printing(text, printed):
    assert repr(eval(text, {"torch": torch, "float": float})) == printed


def test_print_options():
    strata.set_printoptions(precision=2, sci_mode=False)
    try:
        assert repr(strata.tensor([1e-5, 1.0])) == "tensor([0.00, 1.00])"
    finally:
        strata.set_printoptions(profile="default")
        strata._C._set_printoptions(**{**strata.get_printoptions(), "sci_mode": None})
    assert repr(strata.tensor([1e-5, 1.0])) == "tensor([1.0000e-05, 1.0000e+00])"
    with pytest.raises(ValueError, match="unknown profile"):
        strata.set_printoptions(profile="loud")


def test_scientific_notation_is_chosen_again():
    torch.set_printoptions(sci_mode=False)
    assert repr(torch.tensor([1e-6])) == "tensor([0.0000])"
    torch.set_printoptions(profile="default", sci_mode=None)
    assert repr(torch.tensor([1e-6])) == "tensor([1.0000e-06])" and torch.get_printoptions()["sci_mode"] is None
    torch.set_printoptions(sci_mode=True)
    torch.set_printoptions(precision=4)  # as in PyTorch, every call sets it
    assert repr(torch.tensor([1.0])) == "tensor([1.])"


NAMED = [
    ("linalg_eigh", lambda x: torch.linalg.eigh(x)),
    ("linalg_svd", lambda x: torch.linalg.svd(x)),
    ("linalg_qr", lambda x: torch.linalg.qr(x)),
    ("linalg_slogdet", lambda x: torch.linalg.slogdet(x)),
    ("linalg_lu_factor", lambda x: torch.linalg.lu_factor(x)),
    ("linalg_lstsq", lambda x: torch.linalg.lstsq(x, x)),
    ("max", lambda x: x.max(0)),
    ("frexp", lambda x: torch.frexp(x)),
    ("aminmax", lambda x: torch.aminmax(x)),
]


@pytest.mark.parametrize("name, call", NAMED)
def test_results_with_names_have_types(name, call):
    from strata.torch import return_types

    found = call(torch.eye(2))
    assert type(found) is getattr(return_types, name) and repr(found).startswith(f"strata.return_types.{name}(")


UNSOLVABLE = [
    lambda: torch.linalg.inv(torch.zeros(2, 2)),
    lambda: torch.linalg.cholesky(-torch.eye(2)),
    lambda: torch.linalg.solve(torch.zeros(2, 2), torch.ones(2)),
    lambda: torch.linalg.eigh(torch.full((2, 2), float("nan"))),
    lambda: torch.linalg.svd(torch.full((2, 2), float("nan"))),
]


@pytest.mark.parametrize("call", UNSOLVABLE)
def test_errors_of_linear_algebra_have_a_type(call):
    with pytest.raises(torch.linalg.LinAlgError):
        call()
    with pytest.raises(RuntimeError) as caught:
        torch.linalg.inv(torch.ones(2, 3))
    assert caught.type is RuntimeError  # a wrong shape is not one
