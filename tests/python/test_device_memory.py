"""Memory, graphs and kernels of the device STRATA_TEST_DEVICE, vgpu by default: counters, caching, freeing and errors."""

import os

import numpy as np
import pytest
import strata
from processes import run

DEVICE = os.environ.get("STRATA_TEST_DEVICE", "vgpu")
device = getattr(strata, DEVICE)


def test_memory_is_counted_and_reused():
    device.empty_cache()
    before = device.memory_allocated()
    x = strata.empty(1000, device=DEVICE)
    assert device.memory_allocated() == before + 4000
    address = x.data_ptr()
    device.reset_peak_memory_stats()
    del x
    assert device.memory_allocated() == before and device.max_memory_allocated() == before + 4000
    assert device.memory_reserved() >= 4000
    y = strata.empty(1000, device=DEVICE)
    assert y.data_ptr() == address, "the block was not used again"
    blocks = [b for b in device.memory_snapshot() if b["address"] == address]
    assert len(blocks) == 1 and blocks[0]["requested_size"] == 4000 and blocks[0]["op"] == "empty"
    assert "allocated_bytes.all.current" in device.memory_summary()
    del y
    device.empty_cache()
    free, total = device.mem_get_info()
    assert 0 < free <= total


def test_out_of_memory_leaves_nothing_behind():
    kept = strata.ones(1000, device=DEVICE)
    device.empty_cache()
    before = device.memory_allocated()
    device.set_per_process_memory_fraction(64e6 / device.get_device_properties().total_memory)
    try:
        for _ in range(100):
            with pytest.raises(strata.OutOfMemoryError, match="Tried to allocate 381.47 MiB"):
                strata.empty(100_000_000, device=DEVICE)
        assert device.memory_allocated() == before
        with pytest.raises(strata.OutOfMemoryError, match="This process may reserve"):
            strata.empty(100_000_000, device=DEVICE)
        assert (kept + 1).sum().item() == 2000
    finally:
        device.set_per_process_memory_fraction(1.0)
    with pytest.raises(ValueError, match="between 0 and 1"):
        device.set_per_process_memory_fraction(2)


def test_out_of_memory_says_who_holds_it():
    """By op, with the Python line while history is on, through frames of the package; 100 times, without a leak."""
    layer = strata.nn.Linear(1000, 1000).to(DEVICE)
    device.empty_cache()
    before = device.memory_allocated()
    device.memory._record_memory_history()
    device.set_per_process_memory_fraction(64e6 / device.get_device_properties().total_memory)
    try:
        x = strata.ones(1000, 1000, device=DEVICE)
        y = layer(x)  # the line that the message must name
        texts = set()
        for _ in range(100):
            with pytest.raises(strata.OutOfMemoryError) as caught:
                y.repeat(100, 1)
            texts.add(str(caught.value))
        (text,) = texts
        marked = [i for i, line in enumerate(open(__file__), 1) if "the line that the message " + "must name" in line]
        assert "Tried to allocate 381.47 MiB for repeat" in text and "largest free block" in text, text
        held = next(line for line in text.split("\n") if line.startswith("  nn.functional.linear: "))
        assert held.endswith(
            f'3.81 MiB in 1 tensors, File "{__file__}", line {marked[0]}, in {test_out_of_memory_says_who_holds_it.__name__}'
        )
        assert "set_per_process_memory_fraction" in text and "_record_memory_history" not in text
        (block,) = [b for b in device.memory_snapshot() if b["address"] == y.data_ptr()]
        assert block["op"] == "nn.functional.linear" and f"line {marked[0]}" in block["line"]
        device.memory._record_memory_history(None)
        z = strata.ones(10, device=DEVICE)
        assert [b["line"] for b in device.memory_snapshot() if b["address"] == z.data_ptr()] == [""]
        with pytest.raises(strata.OutOfMemoryError, match="_record_memory_history"):
            y.repeat(100, 1)
        del x, y, z, caught
        assert device.memory_allocated() == before
    finally:
        device.memory._record_memory_history(None)
        device.set_per_process_memory_fraction(1.0)
    with pytest.raises(ValueError, match="enabled must be"):
        device.memory._record_memory_history("some")


def test_expandable_segments():
    """A tensor that grows from step to step takes memory for the largest, not for the sum; results stay the same."""
    code = """
import numpy as np, strata
from strata import DEVICE as device
x = strata.arange(12, dtype=strata.float32, device='DEVICE').reshape(3, 4)
for n in range(2, 40, 3):
    grown = strata.ones(n << 18, device='DEVICE')  # n MiB
    assert grown.sum().item() == n << 18
    del grown
most = n << 20
assert device.memory_reserved() < most + (8 << 20), device.memory_reserved()
assert all(b['is_expandable'] and b['size'] <= device.memory_reserved() for b in device.memory_snapshot())
assert sum(b['size'] for b in device.memory_snapshot()) == device.memory_reserved() == device.memory_stats()['reserved_bytes.all.current']
device.empty_cache()
assert device.memory_reserved() <= 4 << 20, device.memory_reserved()
np.testing.assert_array_equal((x @ x.T).cpu().numpy(), np.arange(12.0).reshape(3, 4) @ np.arange(12.0).reshape(3, 4).T)
device.memory._set_allocator_settings('expandable_segments:False')
y = strata.ones(1 << 20, device='DEVICE')
assert [b['is_expandable'] for b in device.memory_snapshot() if b['address'] == y.data_ptr()] == [False]
print(y.sum().item(), x.sum().item())
"""
    assert (
        run(code.replace("DEVICE", DEVICE), {"STRATA_CUDA_ALLOC_CONF": "expandable_segments:True"}) == "1048576.0 66.0"
    )
    with pytest.raises(ValueError, match="'roundup' is not an allocator setting"):
        device.memory._set_allocator_settings("roundup:2")
    text = run(
        "import strata\ntry: strata.ones(2, device='" + DEVICE + "')\nexcept ValueError as e: print(e)",
        {"STRATA_CUDA_ALLOC_CONF": "x:1"},
    )
    assert "STRATA_CUDA_ALLOC_CONF: 'x' is not an allocator setting" in text


def test_graphs_replay():
    x = strata.ones(100, device=DEVICE)
    g = device.CUDAGraph()
    with device.graph(g):
        y = (x * 2 + 1).exp()
    for value in (0.0, 0.5, -1.0):
        x.fill_(value)
        g.replay()
        np.testing.assert_allclose(y.cpu().numpy(), np.full(100, np.exp(2 * value + 1)), rtol=1e-6)
    with pytest.raises(RuntimeError, match="not been captured"):
        device.CUDAGraph().replay()
    with pytest.raises(RuntimeError, match="default stream"):
        device.CUDAGraph().capture_begin()
    with pytest.raises(ZeroDivisionError), device.graph(device.CUDAGraph()):
        x + 1
        raise ZeroDivisionError
    assert (x + 1)[0].item() == 0  # the device goes on


def test_graphs_are_updated():
    x, z = strata.ones(100, device=DEVICE), strata.full((300,), 3.0, device=DEVICE)
    first, second, longer, other = (device.CUDAGraph() for _ in range(4))
    with device.graph(first):
        a = x * 2 + 1
    with device.graph(second):
        b = z * 3 - 1  # other kernels, arguments and sizes
    with device.graph(longer):
        (x * 2 + 1).exp()
    with device.graph(other):
        x.clone() + 1  # a copy in place of a kernel
    first.replay()
    assert a.tolist() == [3] * 100
    first.update(second)
    second.reset()  # its memory is in use and stays
    strata.empty(300, device=DEVICE).fill_(7)
    first.replay()
    assert b.tolist() == [8] * 300
    z.fill_(4)
    first.replay()
    assert b.tolist() == [11] * 300 and a.tolist() == [3] * 100
    with pytest.raises(
        RuntimeError, match="2 nodes, the other one 3; node 2 is nothing here and kernel Exp_f32 <<<1x1x1, .*>>> there"
    ):
        first.update(longer)
    with pytest.raises(RuntimeError, match="node 0 is kernel Mul_f32 .* here and a copy there"):
        first.update(other)
    first.replay()  # it stays as it was
    assert b.tolist() == [11] * 300
    with pytest.raises(RuntimeError, match="the other graph has not been captured"):
        first.update(device.CUDAGraph())
    with pytest.raises(RuntimeError, match="this graph has not been captured"):
        device.CUDAGraph().update(first)


def test_pinned_memory():
    x = strata.arange(1000, dtype=strata.float32).pin_memory(DEVICE)
    assert x.is_pinned() and x.device.type == "cpu" and x.pin_memory(DEVICE) is x
    assert not strata.ones(3).is_pinned()
    y = x.to(DEVICE, non_blocking=True)
    device.synchronize()
    assert y.tolist() == x.tolist()
    back = strata.empty(1000).pin_memory(DEVICE)
    back.copy_(y * 2, non_blocking=True)
    device.synchronize()
    assert back.tolist() == (x * 2).tolist()
    with pytest.raises(RuntimeError, match="only dense CPU tensors"):
        y.pin_memory(DEVICE)


def test_compiled_kernels_are_kept(tmp_path):
    """Kernels compiled from PTX, on a GPU without embedded machine code, are found by the next process; damaged ones are recompiled."""
    code = f"import strata; x = strata.arange(12, dtype=strata.float32, device='{DEVICE}').reshape(3, 4); print((x @ x.T).sum().item())"
    environment = {"STRATA_CUDA_FORCE_PTX": "1", "STRATA_CUDA_CACHE": "1", "STRATA_CACHE_DIR": str(tmp_path)}
    expected = str(float((np.arange(12.0).reshape(3, 4) @ np.arange(12.0).reshape(3, 4).T).sum()))
    assert run(code, environment) == expected
    files = sorted((tmp_path / "kernels").iterdir())
    assert len(files) >= 2
    first = [(f.stat().st_ino, f.read_bytes()) for f in files]
    assert run(code, environment) == expected
    assert [(f.stat().st_ino, f.read_bytes()) for f in files] == first, "something was compiled again"
    files[0].write_bytes(first[0][1][:-1])
    files[1].write_bytes(b"")
    assert run(code, environment) == expected
    assert [f.read_bytes() for f in files] == [content for _, content in first]
    assert run(code, {**environment, "STRATA_CACHE_DIR": str(files[0])}) == expected  # no folder: nothing is kept
    assert run(code, {**environment, "STRATA_CUDA_CACHE": "0", "STRATA_CACHE_DIR": str(tmp_path / "none")}) == expected
    assert not (tmp_path / "none").exists()
