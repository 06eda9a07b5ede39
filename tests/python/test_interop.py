"""Exchange with NumPy, DLPack and the buffer protocol; pickling and copying; memory statistics; generators; arguments."""

import copy
import io
import pickle
import subprocess
import sys

import numpy as np
import pytest
import strata

DTYPES = ["float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8", "bool"]


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("layout", ["contiguous", "transposed", "sliced", "zero-dimensional", "empty"])
def test_numpy_both_ways_shares_memory(name, layout):
    base = np.arange(24).reshape(4, 6).astype(name)
    a = {
        "contiguous": base,
        "transposed": base.T,
        "sliced": base[::2, 1::2],
        "zero-dimensional": np.array(base[0, 1]),
        "empty": base[:0],
    }[layout]
    t = strata.from_numpy(a)
    assert tuple(t.shape) == a.shape and str(t.dtype) == f"strata.{name}"
    np.testing.assert_array_equal(t.numpy(), a)
    back = t.numpy()
    if a.size:
        assert back.__array_interface__["data"][0] == a.__array_interface__["data"][0] == t.data_ptr()
        back.flat[0] = 1
        assert a.flat[0] == 1 and t.flatten()[0].item() == 1
    np.testing.assert_array_equal(np.asarray(memoryview(t)), a)


def test_numpy_errors():
    with pytest.raises(ValueError, match="negative"):
        strata.from_numpy(np.arange(3)[::-1])
    with pytest.raises(TypeError, match="can't convert"):
        strata.from_numpy(np.array(["a"]))
    with pytest.raises(TypeError, match="expected np.ndarray"):
        strata.from_numpy([1, 2])
    with pytest.raises(RuntimeError, match="requires grad"):
        strata.ones(1, requires_grad=True).numpy()
    with pytest.raises(TypeError, match="unsupported ScalarType bfloat16"):
        strata.ones(1, dtype=strata.bfloat16).numpy()
    read_only = np.arange(3.0)
    read_only.flags.writeable = False
    with pytest.raises(RuntimeError, match="read-only"):
        strata.from_numpy(read_only).add_(1)
    assert strata.ones(2, dtype=strata.bfloat16).numpy(force=True).tolist() == [1, 1]


def test_operators_with_numpy_operands():
    t, a = strata.tensor([1.0, 2.0]), np.array([3.0, 4.0], dtype=np.float32)
    assert (
        (t + a).tolist() == [4, 6] and (t * np.float32(2)).tolist() == [2, 4] and (np.float64(2) * t).tolist() == [2, 4]
    )


@pytest.mark.parametrize("name", [d for d in DTYPES if d != "bool"])
def test_dlpack_with_numpy(name):
    a = np.arange(6).reshape(2, 3).astype(name)
    t = strata.from_dlpack(a)
    assert t.data_ptr() == a.__array_interface__["data"][0]
    np.testing.assert_array_equal(np.from_dlpack(t.t()), a.T)


def test_dlpack_capsule_is_used_once():
    capsule = strata.to_dlpack(strata.ones(2))
    strata.from_dlpack(capsule)
    with pytest.raises(TypeError, match="once"):
        strata.from_dlpack(capsule)
    t = strata.ones(3, dtype=strata.bfloat16)
    assert strata.from_dlpack(t).dtype is strata.bfloat16


@pytest.mark.parametrize("dtype", [strata.float32, strata.bfloat16, strata.float8_e4m3fn, strata.int64, strata.bool])
def test_pickle_and_deepcopy(dtype):
    t = strata.arange(6).reshape(2, 3).to(dtype).t()
    for clone in (pickle.loads(pickle.dumps(t)), copy.deepcopy(t), copy.copy(t)):
        assert clone.dtype is dtype and clone.shape == t.shape
        assert bool((clone.to(strata.float32) == t.to(strata.float32)).all())
    p = strata.nn.Parameter(strata.ones(2))
    p.tag = "x"
    q = pickle.loads(pickle.dumps(p))
    assert type(q) is strata.nn.Parameter and q.requires_grad and q.tag == "x"
    assert pickle.loads(pickle.dumps((strata.float32, strata.device("cpu"), t.shape))) == (
        strata.float32,
        strata.device("cpu"),
        t.shape,
    )
    with pytest.raises(RuntimeError, match="graph leaves"):
        copy.deepcopy(p * 2)


def test_pickle_refuses_sizes_that_do_not_fit():
    data = pickle.dumps(strata.ones(4))
    with pytest.raises((ValueError, pickle.UnpicklingError, EOFError)):
        pickle.load(io.BytesIO(data.replace(b"K\x04\x85", b"K\x05\x85")))


def test_tensor_from_lists():
    assert strata.tensor([[1, 2], [3, 4]]).dtype is strata.int64
    assert strata.tensor([1, 2.5]).dtype is strata.float32
    assert strata.tensor([True, False]).dtype is strata.bool
    assert strata.tensor([[], []]).shape == (2, 0)
    assert strata.tensor([strata.tensor(1.0), 2]).tolist() == [1, 2]
    assert strata.tensor(np.arange(3)).tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="expected sequence of length 2 at dim 1"):
        strata.tensor([[1, 2], [3]])
    with pytest.raises(TypeError, match="cannot make an element of a str"):
        strata.tensor(["a"])
    with pytest.raises(RuntimeError, match="overflow"):
        strata.tensor([2**70])


def test_memory_limit_and_statistics():
    before = strata.memory_stats()
    t = strata.empty(1 << 20)
    assert strata.memory_stats()["allocated_bytes"] - before["allocated_bytes"] == 4 << 20
    del t
    strata.empty_cache()
    strata.set_memory_limit(strata.memory_stats()["reserved_bytes"] + (8 << 20))
    try:
        for _ in range(100):
            with pytest.raises(strata.OutOfMemoryError, match="tried to allocate 64.0 MiB"):
                strata.empty(16 << 20)
        assert strata.memory_stats()["allocated_bytes"] == before["allocated_bytes"]
        strata.ones(1000).sum()
    finally:
        strata.set_memory_limit(None)


def test_sizes_that_do_not_fit():
    for shape in [(2**62, 4), (2**31, 2**31, 2**31), (4194305, 4194305, 211106198978564)]:
        with pytest.raises(RuntimeError, match="more elements than can be addressed"):
            strata.empty(shape)
    with pytest.raises(RuntimeError, match="negative"):
        strata.empty(-1)
    with pytest.raises(RuntimeError, match="at most 64 dimensions"):
        strata.empty([1] * 65)
    with pytest.raises(strata.OutOfMemoryError):
        strata.empty(2**58)
    with pytest.raises(RuntimeError):  # strides and products of some sizes would wrap, though there is no element
        strata.empty(2**62, 0, 2**62)


def test_generators():
    strata.manual_seed(7)
    a = strata.rand(1000), strata.randn(1000)
    strata.manual_seed(7)
    strata.set_num_threads(1)
    try:
        b = strata.rand(1000), strata.randn(1000)
    finally:
        strata.set_num_threads(2)
    for x, y in zip(a, b, strict=True):
        np.testing.assert_array_equal(x.numpy(), y.numpy())
    g = strata.Generator().manual_seed(3)
    first = strata.randn(5, generator=g)
    state = g.get_state()
    second = strata.randn(5, generator=g)
    g.set_state(state)
    assert bool((strata.randn(5, generator=g) == second).all()) and not bool((first == second).all())
    u = strata.rand(200_000, dtype=strata.float64).numpy()
    assert 0 <= u.min() and u.max() < 1 and abs(u.mean() - 0.5) < 0.003 and abs(u.var() - 1 / 12) < 0.002
    n = strata.randn(200_000, dtype=strata.float64).numpy()
    assert abs(n.mean()) < 0.01 and abs(n.std() - 1) < 0.01


def test_argument_errors_show_the_signature():
    a = strata.ones(3)
    for call in (
        lambda: strata.add(a),
        lambda: strata.add(a, "x"),
        lambda: strata.add(a, a, beta=1),
        lambda: strata.add(a, a, input=a),
        lambda: strata.add(a, a, alpha="x"),
    ):
        with pytest.raises(TypeError, match=r"add\(Tensor input, Tensor other, \*, Scalar alpha=1\) -> Tensor"):
            call()
    with pytest.raises(TypeError):
        a + "x"
    with pytest.raises(RuntimeError, match=r"\[3\] and \[4\]"):
        a + strata.ones(4)
    with pytest.raises(RuntimeError, match="device 'mps' is not available"):
        a.to("mps")
    with pytest.raises(RuntimeError, match="invalid device 'gpu'"):
        strata.ones(1, device="gpu")


def test_numpy_is_imported_only_when_used():
    code = "import sys, strata; (strata.ones(3) + 1).sum().item(); print('numpy' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
        == "False"
    )


def test_explain_and_trace(tmp_path):
    a = strata.ones(3, 4)
    assert strata.explain(strata.add, a, a)[-1][-1] == "chosen"
    reasons = strata.explain(strata.add, a, a.t().contiguous().t())
    assert len(reasons) > 1 and "chosen" not in reasons[0][2]
    with strata.tracing() as t:
        (a.requires_grad_() * 2).sum().backward()
    assert "op: mul" in str(t) and "autograd: mul" in str(t)
    t.save(tmp_path / "trace.json")
    assert (tmp_path / "trace.json").stat().st_size > 100


def test_a_read_only_view_of_an_array_that_changes():
    """Kernels keep packed forms of weights that nobody writes to; such a view is none of them."""
    base = np.ones((64, 300), np.float32)
    view = base.view()
    view.flags.writeable = False
    weight, x = strata.from_numpy(view), strata.ones(32, 300)
    image, kernels = strata.ones(2, 3, 20, 20), strata.from_numpy(view.reshape(-1)[: 64 * 27].reshape(64, 3, 3, 3))
    for _ in range(4):
        linear, conv = strata.nn.functional.linear(x, weight), strata.nn.functional.conv2d(image, kernels, stride=2)
    assert (linear == 300).all() and (conv == 27).all()
    base[:] = 2
    assert (strata.nn.functional.linear(x, weight) == 600).all()
    assert (strata.nn.functional.conv2d(image, kernels, stride=2) == 54).all()
