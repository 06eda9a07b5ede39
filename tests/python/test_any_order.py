"""backends.cuda.deterministic = False: writes and sums in any order on devices."""

import numpy as np
import pytest
import strata

DEVICE = "vgpu"
RANDOM = np.random.default_rng(5)


@pytest.fixture(autouse=True)
def any_order():
    strata.backends.cuda.deterministic = False
    yield
    strata.backends.cuda.deterministic = True


def on_device(a):
    return strata.tensor(a, device=DEVICE)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "float16"])
def test_sums_are_right(dtype):
    index = RANDOM.integers(0, 300, 2000)
    values = RANDOM.integers(-8, 8, 2000).astype(dtype)  # sums of small integers are exact in any order
    want = np.zeros(300, dtype)
    np.add.at(want, index, values)
    table, at, source = on_device(np.zeros(300, dtype)), on_device(index), on_device(values)
    for got in (
        table.scatter_add(0, at, source),
        table.index_add(0, at, source),
        table.index_put((at,), source, accumulate=True),
    ):
        assert got.tolist() == want.tolist()
    rows = RANDOM.integers(-8, 8, (2000, 3)).astype(dtype)
    want = np.zeros((300, 3), dtype)
    np.add.at(want, index, rows)
    assert on_device(np.zeros((300, 3), dtype)).index_add(0, at, on_device(rows)).tolist() == want.tolist()
    assert table.index_put((at,), strata.ones((), dtype=table.dtype, device=DEVICE), accumulate=True).tolist() == (
        np.bincount(index, minlength=300).astype(dtype).tolist()
    )


def test_one_of_the_values_is_written():
    index = RANDOM.integers(0, 50, 1000)
    values = np.arange(1000, dtype=np.float32)
    for got in (
        on_device(np.full(50, -1, np.float32)).index_put((on_device(index),), on_device(values)),
        on_device(np.full(50, -1, np.float32)).scatter(0, on_device(index), on_device(values)),
    ):
        for place, value in enumerate(got.tolist()):
            assert value == -1 if place not in index else index[int(value)] == place
    free = RANDOM.permutation(1000)  # every place once: the result does not depend on the order
    want = np.empty(1000, np.float32)
    want[free] = values
    assert (
        on_device(np.zeros(1000, np.float32)).index_put((on_device(free),), on_device(values)).tolist() == want.tolist()
    )
    with pytest.raises(IndexError, match="out of bounds"):
        on_device(np.zeros(50, np.float32)).index_put((on_device(index + 50),), on_device(values)).tolist()


def test_gradients():
    index = on_device(RANDOM.integers(0, 20, 500))
    table = strata.randn(20, dtype=strata.float64, device=DEVICE, requires_grad=True)
    (table[index] * 3).sum().backward()
    assert table.grad.tolist() == (3.0 * np.bincount(index.cpu().numpy(), minlength=20)).tolist()


def test_explain_names_the_reason():
    args = (
        strata.zeros(300, device=DEVICE),
        0,
        strata.zeros(2000, dtype=strata.int64, device=DEVICE),
        strata.ones(2000, device=DEVICE),
    )
    assert ("scatter_core", "any_order", "chosen") in strata.explain(strata.scatter_add, *args)
    strata.backends.cuda.deterministic = True
    reasons = {kernel: why for op, kernel, why in strata.explain(strata.scatter_add, *args) if op == "scatter_core"}
    assert "results must have the same bits each time" in reasons["any_order"]


def test_the_switch():
    assert strata.backends.cuda.deterministic is False
    strata.use_deterministic_algorithms(True)
    assert strata.backends.cuda.deterministic is True
    strata.use_deterministic_algorithms(False)  # PyTorch's default; it allows nothing here
    assert strata.backends.cuda.deterministic is True
    with pytest.raises(TypeError, match="must be a bool, found int"):
        strata.backends.cuda.deterministic = 0
