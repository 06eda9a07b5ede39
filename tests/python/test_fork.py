"""Processes: children of fork() compute, daemon threads do not disturb the exit."""

import os
import signal
import time

import pytest
import strata
from processes import run

PRELUDE = """
import os, signal, threading, time
import strata
from strata import nn
F = nn.functional
strata.set_num_threads(2)
"""

WORK = {
    "matmul": "strata.ones(512, 512) @ strata.ones(512, 512)",
    "matmul of bfloat16": "strata.ones(256, 256, dtype=strata.bfloat16) @ strata.ones(256, 256, dtype=strata.bfloat16)",
    "batched matmul": "strata.bmm(strata.ones(8, 128, 128), strata.ones(8, 128, 128))",
    "linear": "F.linear(strata.ones(256, 256), strata.ones(256, 256), strata.ones(256))",
    "conv2d": "F.conv2d(strata.ones(4, 16, 32, 32), strata.ones(16, 16, 5, 5))",
    "conv3d": "F.conv3d(strata.ones(2, 4, 8, 16, 16), strata.ones(8, 4, 3, 3, 3))",
    "sum": "strata.ones(10**6).sum()",
    "training": "nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 30 * 30, 10))"
    "(strata.ones(4, 3, 32, 32)).sum().backward()",
}

FORK = """
def in_child(work):
    pid = os.fork()
    if pid == 0:
        signal.alarm(20)
        try:
            work()
            os._exit(0)
        except BaseException:
            os._exit(1)
    return os.waitpid(pid, 0)[1]
"""


@pytest.mark.parametrize("name", WORK)
def test_a_child_computes_what_its_parent_has_computed_before(name):
    code = f"""
def work():
    {WORK[name]}
work()
statuses = [in_child(work), in_child(lambda: in_child(work) == 0 or os._exit(2))]
def in_thread():
    t = threading.Thread(target=work)
    t.start(); t.join()
statuses.append(in_child(in_thread))
work()
print(statuses)
"""
    assert run(PRELUDE + FORK + code) == "[0, 0, 0]"


def test_a_child_forked_while_other_threads_compute():
    code = """
stop = False
def busy():
    x = strata.ones(200, 200)
    while not stop:
        y = x @ x
        z = [strata.ones(n) for n in (10, 1000, 100000)]
for _ in range(3):
    threading.Thread(target=busy, daemon=True).start()
def work():
    x = [strata.ones(100000) + 1 for _ in range(5)]
    strata.randn(1000)
statuses = {in_child(work) for _ in range(20)}
stop = True
print(statuses)
"""
    assert run(PRELUDE + FORK + code) == "{0}"


def test_a_device_opened_before_a_fork_is_refused_in_the_child():
    x = strata.ones(3, device="vgpu")
    pid = os.fork()
    if pid == 0:
        signal.alarm(20)
        try:
            (x + 1).cpu()
            os._exit(1)
        except RuntimeError as error:
            os._exit(0 if "fork" in str(error) else 2)
        finally:
            os._exit(3)
    assert os.waitpid(pid, 0)[1] == 0
    assert (x + 1).tolist() == [2, 2, 2]


THREADS = {
    "ops": "x = strata.ones(300, 300)\n    while True: (x @ x).sum()",
    "small ops": "x = strata.ones(10)\n    while True: x + x",
    "backward": "w = strata.ones(300, 300, requires_grad=True)\n    while True: (w @ w).sum().backward()",
    "hooks": "w = strata.ones(300, 300, requires_grad=True)\n    w.register_hook(lambda g: time.sleep(0.001))\n"
    "    while True: (w * 2).sum().backward()",
    "functions": "w = strata.ones(300, 300, requires_grad=True)\n    while True: Twice.apply(w).sum().backward()",
    "loader": "d = strata.utils.data.TensorDataset(strata.ones(5000, 10))\n"
    "    while True:\n        for _ in strata.utils.data.DataLoader(d, batch_size=64): pass",
    "device": "x = strata.ones(64, 64, device='vgpu')\n    while True: (x @ x).sum().item()",
}


@pytest.mark.parametrize("name", THREADS)
def test_daemon_threads_do_not_disturb_the_end_of_a_process(name):
    code = f"""
class Twice(strata.autograd.Function):
    @staticmethod
    def forward(ctx, x): return x * 2
    @staticmethod
    def backward(ctx, g):
        for _ in range(10000): pass
        return g * 2
def work():
    {THREADS[name]}
for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.2)
print("end")
"""
    start = time.monotonic()
    assert run(PRELUDE + code) == "end"
    assert time.monotonic() - start < 60
