"""Foreign views of a tensor's memory outlive changes of the tensor; foreign memory keeps its bounds."""

import numpy as np
import pytest
import strata
from processes import run


def views(x):
    return {
        "numpy": x.numpy(),
        "memoryview": np.asarray(memoryview(x)),
        "dlpack": np.from_dlpack(x),
        "strata": strata.from_dlpack(x).numpy(),
    }


def resize(x):
    x.resize_(2 * x.numel())


def replace(x):
    x.data = strata.zeros(5)


def overwrite(x):
    strata.add(strata.zeros(3 * x.numel()), 1, out=x)


@pytest.mark.parametrize("change", [resize, replace, overwrite])
def test_views_keep_the_memory_they_look_at(change):
    x = strata.ones(10**6)
    seen = views(x)
    change(x)
    strata.empty_cache()
    other = [strata.full((10**6,), 7.0) for _ in range(4)]
    for name, array in seen.items():
        assert array.shape == (10**6,) and (array == 1).all(), name
    del other, x
    assert all((a == 1).all() for a in seen.values())


def test_a_broadcast_array_ends_where_its_memory_does():
    x = strata.from_numpy(np.broadcast_to(np.float32(3), (1000,)))
    assert x.sum().item() == 3000
    with pytest.raises(RuntimeError, match="out of bounds"):
        x.as_strided((1000,), (1,))
    x = strata.from_numpy(np.arange(10.0)[::3])
    assert x.as_strided((10,), (1,)).tolist() == list(range(10))


def test_unaligned_arrays_are_copied_or_refused():
    array = np.frombuffer(b"\0" + np.arange(5, dtype="f4").tobytes(), "u1")[1:].view("f4")
    assert array.ctypes.data % 4
    assert strata.tensor(array).tolist() == strata.asarray(array).tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(ValueError, match="not aligned"):
        strata.from_numpy(array)


def test_read_only_memory_is_not_handed_out_as_writable():
    x = strata.from_numpy(np.frombuffer(b"abcd", "u1"))
    assert not x.numpy().flags.writeable
    with pytest.raises(RuntimeError, match="read-only"):
        x.__dlpack__()
    with pytest.raises(RuntimeError, match="read-only"):
        x.fill_(1)


def test_a_generator_takes_its_state_from_the_host_only():
    state = strata.Generator().get_state()
    with pytest.raises((TypeError, NotImplementedError, RuntimeError)):
        strata.Generator().set_state(state.to("vgpu"))
    with pytest.raises(ValueError):
        strata.Generator().set_state(state[:3])


CHANGES = {
    "resize_": "x.resize_(10 if i % 2 else 100_000)",
    "data": "x.data = strata.ones(10 if i % 2 else 100_000)",
    "out": "strata.add(strata.ones(10 if i % 2 else 100_000), 1, out=x)",
}


@pytest.mark.parametrize("change", CHANGES)
def test_an_op_reads_what_a_tensor_showed_when_it_began(change):
    """Other threads give the tensor other memory while kernels run without the interpreter lock."""
    code = f"""
import threading
import strata
x = strata.ones(100_000)
def change():
    for i in range(2000): {CHANGES[change]}
def read():
    for _ in range(1000): x.sum(); x + 1; x * x; strata.exp(x)
threads = [threading.Thread(target=f) for f in (change, change, read, read)]
for t in threads: t.start()
for t in threads: t.join()
print("whole")
"""
    assert run(code) == "whole"
