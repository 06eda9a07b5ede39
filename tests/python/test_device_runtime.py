"""strata.vgpu, which has the functions of strata.cuda: devices, streams, events, fork and exit."""

import os
import subprocess
import sys

import pytest
import strata
from processes import run
from strata import vgpu


def test_importing_touches_no_driver():
    code = """
import strata
maps = open('/proc/self/maps').read()
print('libcuda' in maps, strata.vgpu.is_initialized(), strata.cuda.is_initialized())
strata.ones(2, device='vgpu')
print(strata.vgpu.is_initialized())
"""
    assert run(code).split("\n") == ["False False False", "True"]


def test_devices():
    assert vgpu.is_available() and vgpu.why_not() is None and vgpu.device_count() >= 1
    p = vgpu.get_device_properties()
    assert p.total_memory > 0 and p.multi_processor_count > 0 and p.warp_size == 32 and p.max_threads_per_block >= 1024
    assert vgpu.get_device_name() == p.name and vgpu.get_device_capability() == (p.major, p.minor)
    assert (strata.cuda.why_not() is None) == strata.cuda.is_available()
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        vgpu.set_device(99)
    with pytest.raises(ValueError, match="expected a vgpu device"):
        vgpu.synchronize("cpu")


def test_several_devices():
    code = """
import strata
from strata import vgpu
assert vgpu.device_count() == 2
x = strata.ones(3, device='vgpu:1')
assert x.device.index == 1 and vgpu.current_device() == 0
with vgpu.device(1):
    assert strata.zeros(1, device='vgpu').device.index == 1
    assert vgpu.memory_allocated() > 0
assert vgpu.memory_allocated(0) == 0 and strata.zeros(1, device='vgpu').device.index == 0
y = x.to('vgpu:0')
assert vgpu.can_device_access_peer(0, 1) and not vgpu.can_device_access_peer(1, 1)
big = strata.arange(10000, dtype=strata.float32, device='vgpu:1')
with vgpu.stream(vgpu.Stream(0)), vgpu.stream(vgpu.Stream(1)):
    big.mul_(2)
    assert big.to('vgpu:0').add_(1).sum().item() == 10000 * 9999 + 10000
assert y.device.index == 0 and (y + 1).tolist() == [2, 2, 2]
try:
    x + y
except RuntimeError as e:
    print(e)
"""
    out = run(code, {"STRATA_VGPU_DEVICES": "ampere,ampere"})
    assert "found at least two devices, vgpu:1 and vgpu:0!" in out


def test_streams_and_events():
    s = vgpu.Stream()
    assert s != vgpu.default_stream() and vgpu.current_stream() == vgpu.default_stream()
    x = strata.ones(1000, device="vgpu")
    ready = vgpu.current_stream().record_event()
    with vgpu.stream(s):
        assert vgpu.current_stream() == s
        s.wait_event(ready)
        y = x * 2
        x.record_stream(s)
    vgpu.current_stream().wait_stream(s)
    assert (y + 1).sum().item() == 3000 and vgpu.current_stream() == vgpu.default_stream()
    s.synchronize()
    assert s.query()
    start, end = vgpu.Event(enable_timing=True), vgpu.Event(enable_timing=True)
    start.record()
    y = x + 1
    end.record()
    end.synchronize()
    assert end.query() and start.elapsed_time(end) >= 0
    with pytest.raises(ValueError, match="enable_timing"):
        vgpu.Event().elapsed_time(end)


def test_missing_waits_are_found():
    """With delayed work, a stream that does not wait for another reads too early."""
    code = """
import strata
from strata import vgpu
s = vgpu.Stream()
x = strata.zeros(1000, device='vgpu')
vgpu.synchronize()
wrong = 0
for i in range(20):
    with vgpu.stream(s):
        x.fill_(i + 1)
    if WAIT:
        vgpu.current_stream().wait_stream(s)
    wrong += (x + 0)[0].item() != i + 1
    vgpu.synchronize()
print(wrong)
"""
    delayed = {"STRATA_VGPU_DELAYED": "1"}
    assert run(code.replace("WAIT", "True"), delayed) == "0"
    assert int(run(code.replace("WAIT", "False"), delayed)) > 0


def test_counters():
    x = strata.ones(1000, device="vgpu")
    vgpu.counters()
    y = x * 2
    (c,) = vgpu.counters()
    assert c["kernel"] == "Mul_f32" and c["blocks"] == 1 and c["thread_instructions"] > 1000 and y[0].item() == 2


def test_a_dead_device_names_op_and_line():
    """An endless kernel kills the device: the error names the op and the line that launched it, and so does every later one."""
    code = """
import strata
x = strata.nn.Parameter(strata.ones(3))
try:
    strata.nn.functional.linear(strata.ones(300, 300, device='vgpu'), strata.ones(300, 300, device='vgpu'))
except RuntimeError as e:
    print(e)
for f in (lambda: strata.ones(3, device='vgpu'), strata.vgpu.synchronize, strata.vgpu.empty_cache):
    try:
        f()
    except RuntimeError as e:
        print(e)
print((x * 2).sum().item())
"""
    out = run(code, {"STRATA_VGPU_LIMIT": "3"})
    parts = out.split("device 'vgpu:0' has failed")
    assert len(parts) == 4, out
    for part in parts:
        assert (
            "linear: vgpu:0 could not launch kernel gemm_" in part
            and 'from File "<string>", line 5, in <module>' in part
        ), part
        assert "CUDA_ERROR_LAUNCH_TIMEOUT" in part
    assert "The CPU stays usable" in out and out.endswith("6.0")


def test_a_fork_is_told_so():
    code = """
import os, sys, strata
x = strata.ones(3, device='vgpu')
pid = os.fork()
if pid == 0:
    try:
        x + 1
    except RuntimeError as e:
        os._exit(7 if 'forked subprocess' in str(e) else 8)
    os._exit(9)
_, status = os.waitpid(pid, 0)
print(os.waitstatus_to_exitcode(status), (x + 1).tolist())
"""
    assert run(code) == "7 [2.0, 2.0, 2.0]"


def test_a_fork_ends_and_computes_on_the_cpu():
    """Objects of the parent are released in the child without a crash, and a device that was not open can be used there."""
    code = """
import os, sys, strata
from strata import vgpu
pid = os.fork()
if pid == 0:
    assert strata.ones(3, device='vgpu').sum().item() == 3
    sys.exit(5)
first = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
x, s, e, p = strata.ones(3, device='vgpu'), vgpu.Stream(), vgpu.Event(), strata.ones(3).pin_memory('vgpu')
g = vgpu.CUDAGraph()
with vgpu.graph(g):
    y = x + 1
x.record_stream(s)
sys.stdout.flush()
pid = os.fork()
if pid == 0:
    for f in (vgpu.synchronize, vgpu.empty_cache, s.synchronize, g.replay, lambda: strata.ones(2, device='vgpu'), lambda: p.to('vgpu')):
        try:
            f()
        except RuntimeError as error:
            assert 'forked subprocess' in str(error), error
        else:
            sys.exit(6)
    del x, s, e, p, g, y
    assert (strata.ones(1000, 100) @ strata.ones(100)).sum().item() == 1e5
    sys.exit(7)
print(first, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), (x + 1).tolist())
"""
    assert run(code) == "5 7 [2.0, 2.0, 2.0]"


@pytest.mark.parametrize("last", ["", "os._exit(0)", "sys.exit(0)", "raise KeyboardInterrupt"])
def test_the_end_of_a_process_with_work_queued(last):
    """Pending work, an incomplete recording, a stream of another thread: a process exits with its own status."""
    code = """
import os, sys, threading, strata
from strata import vgpu
x = strata.ones(1000, device='vgpu')
s = vgpu.Stream()
vgpu.set_stream(s)
y = x * 2
thread = threading.Thread(target=lambda: (vgpu.set_stream(vgpu.Stream()), x + 1))
thread.start(); thread.join()
back = strata.empty(1000).pin_memory('vgpu').copy_(y, non_blocking=True)
done, half = vgpu.CUDAGraph(), vgpu.CUDAGraph()
done.capture_begin(); z = y + 1; done.capture_end()
done.replay()
half.capture_begin(); y + 2
print('ok', flush=True)
"""
    status = 130 if "Keyboard" in last else 0
    done = subprocess.run(
        [sys.executable, "-c", code + last],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "STRATA_VGPU_DELAYED": "3"},
    )
    assert done.stdout == "ok\n" and done.returncode in (status, -2 if status else 0), (done.returncode, done.stderr)


def test_the_end_of_a_process_in_any_order():
    code = """
import strata
class Late:
    def __del__(self):
        self.t = None
late = Late()
late.t = strata.ones(10, device='vgpu')
strata.keep = (strata.ones(10, device='vgpu') * 2, strata.vgpu.Stream(), strata.vgpu.Event(), strata.ones(3).pin_memory('vgpu'))
print('ok')
"""
    assert run(code) == "ok"


def test_summary_adds_launches_up_by_op_and_kernel():
    x = strata.ones(1000, device="vgpu")
    vgpu.counters()
    x + x
    x + x
    launches = vgpu.counters()
    assert [(c["op"], c["kernel"]) for c in launches] == [("add", "Add_f32")] * 2
    assert all(0 < c["occupancy"] <= 1 and c["limiter"] and c["estimated_seconds"] > 0 and c["bound"] for c in launches)
    x + x
    x.exp()
    rows = {words[0]: words for words in map(str.split, vgpu.summary().splitlines()) if words}
    assert rows["add"][1:3] == ["Add_f32", "1"] and rows["exp"][1:3] == ["Exp_f32", "1"] and rows["all"][1] == "2"
    assert vgpu.summary() == "no launches\n"
    x + x
    x.exp()
    x * x
    assert "3 others" in vgpu.summary(0)
    with pytest.raises(ValueError, match="most is -1"):
        vgpu.summary(-1)


def test_ptx_of_a_kernel():
    text = vgpu.ptx("Exp_f32")
    assert text.startswith(".visible .entry Exp_f32(") and text.endswith("\n}") and text.count(".entry") == 1
    assert vgpu.ptx("unary_math.Exp_f32") == text
    with pytest.raises(ValueError, match="convolution.forward_f32, max_pool.forward_f32"):
        vgpu.ptx("forward_f32")
    for name in ("nothing", "copy.Exp_f32", "", "."):
        with pytest.raises(ValueError, match="there is no kernel"):
            vgpu.ptx(name)
