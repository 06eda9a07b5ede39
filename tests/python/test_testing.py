"""strata.testing: comparisons and random tensors, as in torch.testing."""

import numpy as np
import pytest
import strata
from strata.testing import assert_close, make_tensor

EQUAL = [
    (strata.ones(2), strata.ones(2) + 1e-7),
    (1.0, 1.0 + 1e-9),
    ([1, strata.ones(1)], (1, strata.ones(1))),
    ({"a": strata.ones(1), "b": [2]}, {"b": [2], "a": strata.ones(1)}),
    (np.ones(2), strata.ones(2, dtype=strata.float64)),
    (strata.tensor([1 + 1j]), strata.tensor([1 + 1j])),
    (strata.eye(2).to_sparse(), strata.eye(2).to_sparse()),
]
DIFFERENT = [
    (strata.ones(2), strata.ones(2) * 1.001, "Mismatched elements: 2 / 2"),
    (strata.tensor([1 + 1j]), strata.tensor([1 + 2j]), "not close"),
    (strata.tensor([2**60]), strata.tensor([2**60 + 1]), "not close"),
    (1.0, 1.1, "Expected 1.1 but got 1.0"),
    ([1], [1, 2], "length of the sequences"),
    ([1], 1, "length of the sequences"),
    ({"a": 1}, {"b": 1}, "keys of the mappings"),
    ({"a": strata.ones(1)}, {"a": strata.zeros(1)}, "not close"),
    (strata.ones(2), strata.ones(1, 2), "'shape'"),
    (strata.ones(2), strata.ones(2, dtype=strata.float64), "'dtype'"),
    (strata.ones(2, 2).to_sparse(), strata.ones(2, 2), "'layout'"),
    (strata.tensor(float("nan")), strata.tensor(float("nan")), "not close"),
]


@pytest.mark.parametrize("actual, expected", EQUAL)
def test_close(actual, expected):
    assert_close(actual, expected)


@pytest.mark.parametrize("actual, expected, message", DIFFERENT)
def test_not_close(actual, expected, message):
    with pytest.raises(AssertionError, match=message):
        assert_close(actual, expected)


def test_options():
    assert_close(strata.tensor(float("nan")), strata.tensor(float("nan")), equal_nan=True)
    assert_close(strata.ones(1), strata.ones(1, dtype=strata.int64), check_dtype=False)
    assert_close(1.0, 1.4, rtol=0, atol=0.5)
    with pytest.raises(ValueError, match="both be specified"):
        assert_close(1.0, 1.0, rtol=0.1)
    with pytest.raises(AssertionError, match="stride"):
        assert_close(strata.ones(2, 3), strata.ones(3, 2).t(), check_stride=True)
    with pytest.raises(AssertionError, match="^mine: Tensor-likes"):
        assert_close(strata.ones(2), strata.zeros(2), msg=lambda text: f"mine: {text}")
    with pytest.raises(AssertionError, match="^mine$"):
        assert_close(strata.ones(2), strata.ones(3), msg="mine")


DTYPES = [strata.float32, strata.float16, strata.bfloat16, strata.float64, strata.int64, strata.uint8, strata.bool]


@pytest.mark.parametrize("dtype", [*DTYPES, strata.complex64])
def test_made_tensors_are_in_range(dtype):
    made = make_tensor(40, 5, dtype=dtype)
    assert made.shape == (40, 5) and made.dtype is dtype
    values = made.abs() if dtype is strata.complex64 else made.double()
    bound = 9 * 2**0.5 if dtype is strata.complex64 else 9
    assert values.max() <= bound and values.unique().numel() > 1
    assert (values.min() < 0) == (dtype.is_signed and dtype is not strata.complex64)


def test_options_of_made_tensors():
    made = make_tensor((100,), dtype=strata.int64, low=0, high=2, exclude_zero=True)
    assert made.unique().tolist() == [1]
    strided = make_tensor((4, 4), dtype=strata.float32, low=1, high=2, noncontiguous=True, requires_grad=True)
    assert not strided.is_contiguous() and strided.requires_grad and 1 <= strided.min() and strided.max() <= 2
    with pytest.raises(ValueError, match="less than"):
        make_tensor(2, dtype=strata.float32, low=1, high=1)
