"""Indexing against NumPy: generated mixtures of everything that is allowed between the brackets, reading and assigning."""

import numpy as np
import pytest
import strata
from hypothesis import given, settings
from hypothesis import strategies as st

shapes = st.lists(st.integers(0, 4), min_size=0, max_size=4).map(tuple)


@st.composite
def indexed(draw):
    """A shape and an index for it that NumPy and PyTorch read alike."""
    shape = draw(shapes)
    items, advanced, d = [], draw(st.booleans()), 0
    length = draw(st.sampled_from([1, 3]))
    while d < len(shape):
        kind = draw(st.sampled_from(["int", "slice", "slice", "none", "tensor" if advanced else "slice", "stop"]))
        n = shape[d]
        if kind == "stop":
            break
        if kind == "none":
            items.append(None)
            if len(items) > 6:
                break
            continue
        if kind == "int" and n > 0 and not advanced:
            items.append(draw(st.integers(-n, n - 1)))
        elif kind == "tensor" and n > 0:
            items.append(
                np.array(draw(st.lists(st.integers(-n, n - 1), min_size=length, max_size=length)), dtype=np.int64)
            )
        else:
            bound = st.one_of(st.none(), st.integers(-n - 2, n + 2))
            items.append(slice(draw(bound), draw(bound), draw(st.one_of(st.none(), st.integers(1, 3)))))
        d += 1
    if draw(st.booleans()) and not any(i is Ellipsis for i in items):
        items.append(Ellipsis)
    return shape, tuple(items)


def ours(items):
    return tuple(strata.from_numpy(i) if isinstance(i, np.ndarray) else i for i in items)


@settings(max_examples=400, deadline=None)
@given(indexed())
def test_reading(case):
    shape, items = case
    a = np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)
    want = a[items]
    got = strata.from_numpy(a)[ours(items)]
    assert tuple(got.shape) == want.shape
    np.testing.assert_array_equal(got.numpy(), want)


@settings(max_examples=400, deadline=None)
@given(indexed(), st.booleans())
def test_assigning(case, number):
    shape, items = case
    a = np.zeros(shape, dtype=np.float32)
    t = strata.from_numpy(a.copy())
    target = a[items]
    if number:
        a[items] = 7
        t[ours(items)] = 7
    else:
        if any(
            isinstance(i, np.ndarray) and len(set(np.where(i < 0, i + shape[0], i).tolist())) < len(i)
            for i in items
            if isinstance(i, np.ndarray)
        ):
            return  # which of several writes wins is not defined
        values = np.arange(target.size, dtype=np.float32).reshape(target.shape) + 1
        a[items] = values
        t[ours(items)] = strata.from_numpy(values)
    np.testing.assert_array_equal(t.numpy(), a)


@settings(max_examples=200, deadline=None)
@given(shapes, st.data())
def test_masks(shape, data):
    size = int(np.prod(shape))
    a = np.arange(size, dtype=np.float32).reshape(shape)
    take = data.draw(st.integers(0, len(shape)))
    mask = np.array(
        data.draw(st.lists(st.booleans(), min_size=int(np.prod(shape[:take])), max_size=int(np.prod(shape[:take])))),
        dtype=bool,
    ).reshape(shape[:take])
    t = strata.from_numpy(a.copy())
    np.testing.assert_array_equal(t[strata.from_numpy(mask)].numpy(), a[mask])
    t[strata.from_numpy(mask)] = -1
    a[mask] = -1
    np.testing.assert_array_equal(t.numpy(), a)


def test_lists_and_bools_as_indices():
    a = np.arange(12).reshape(3, 4)
    t = strata.from_numpy(a.copy())
    np.testing.assert_array_equal(t[[0, 2]].numpy(), a[[0, 2]])
    np.testing.assert_array_equal(t[[True, False, True]].numpy(), a[[True, False, True]])
    np.testing.assert_array_equal(t[True].numpy(), a[True])
    np.testing.assert_array_equal(t[False].numpy(), a[False])
    np.testing.assert_array_equal(t[[0, 1], [2, 3]].numpy(), a[[0, 1], [2, 3]])
    assert t[1, 2].item() == 6 and t[-1, -1].item() == 11


@pytest.mark.parametrize(
    "index, error",
    [
        (5, IndexError),
        (-4, IndexError),
        ((0, 0, 0), IndexError),
        ((..., ...), IndexError),
        ("x", IndexError),
        (1.5, IndexError),
        (slice(None, None, -1), ValueError),
    ],
)
def test_bad_indices(index, error):
    with pytest.raises(error):
        strata.zeros(3, 4)[index]


def test_bad_index_tensors():
    t = strata.zeros(3, 4)
    with pytest.raises(IndexError, match="out of range"):
        t[strata.tensor([0, 3])]
    with pytest.raises(IndexError, match="must be long, int, byte or bool"):
        t[strata.tensor([0.0])]
    with pytest.raises(IndexError, match="does not match the shape"):
        t[strata.tensor([True, False])]


def test_gradients_through_indexing():
    x = strata.arange(12.0).reshape(3, 4).requires_grad_()
    (x[1:, [0, 0, 2]] * 2).sum().backward()
    want = np.zeros((3, 4))
    want[1:, 0], want[1:, 2] = 4, 2
    np.testing.assert_array_equal(x.grad.numpy(), want)
    base = strata.zeros(3, 4)
    w = strata.tensor([1.0, 2, 3, 4], requires_grad=True)
    base[1] = w * 2
    base[0, 0] = 5
    (base * base).sum().backward()
    np.testing.assert_allclose(w.grad.numpy(), [8, 16, 24, 32])


def test_values_with_more_dimensions_than_the_result():
    x = strata.zeros(3)
    with pytest.raises(RuntimeError, match="shape mismatch"):
        x.index_put((strata.tensor([0]),), strata.ones(1, 1))
    x[[0]] = strata.ones(1, 1)  # an assignment drops leading dimensions of size 1
    x[strata.tensor([False, True, False])] = strata.full((1, 1), 2.0)
    assert x.tolist() == [1, 2, 0]
