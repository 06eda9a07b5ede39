"""The programs of PyTorch's profiler tutorials, data loaders in recordings, rates in tables, and ranges for NVIDIA's profilers."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
import strata
import strata as torch
from strata import nn
from strata.profiler import ProfilerActivity, profile, record_function


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.fc = nn.Conv2d(3, 4, 3), nn.Linear(4 * 6 * 6, 5)

    def forward(self, x):
        return self.fc(self.conv(x).relu().flatten(1))


def test_the_recipe():
    """pytorch.org/tutorials/recipes/recipes/profiler_recipe: execution time, shapes, memory, a long job, stacks."""
    model, inputs = Net(), torch.randn(5, 3, 8, 8)
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as prof, record_function("model_inference"):
        model(inputs)
    text = prof.key_averages().table(sort_by="cpu_time_total", row_limit=10)
    assert "model_inference" in text and "Self CPU time total" in text and len(text.splitlines()) <= 12
    by_name = {a.key: a for a in prof.key_averages()}
    assert (
        by_name["conv2d"].count == 1 and by_name["model_inference"].cpu_time_total >= by_name["conv2d"].cpu_time_total
    )
    total = by_name["model_inference"].cpu_time_total
    assert sum(a.self_cpu_time_total for a in by_name.values()) == pytest.approx(total)

    grouped = prof.key_averages(group_by_input_shape=True)
    assert "Input Shapes" in grouped.table(sort_by="cpu_time_total", row_limit=10)
    assert next(a for a in grouped if a.key == "conv2d").input_shapes == [[5, 3, 8, 8], [4, 3, 3, 3], [4]]

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True, record_shapes=True, with_flops=True) as prof:
        model(inputs)
    text = prof.key_averages().table(sort_by="self_cpu_memory_usage", row_limit=10)
    assert "Self CPU Mem" in text and "Total MFLOPs" in text
    by_name = {a.key: a for a in prof.key_averages()}
    assert by_name["conv2d"].cpu_memory_usage >= 4 * 5 * 4 * 36 and by_name["conv2d"].flops == 2 * 5 * 36 * 4 * 27
    assert by_name["relu"].self_cpu_memory_usage == 4 * 5 * 4 * 36


def test_a_long_job_with_a_handler(tmp_path):
    model, inputs, shown = Net(), torch.randn(5, 3, 8, 8), []

    def trace_handler(p):
        shown.append(p.key_averages().table(sort_by="self_cuda_time_total", row_limit=10))
        p.export_chrome_trace(str(tmp_path / f"trace_{p.step_num}.json"))

    with profile(
        activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA],
        schedule=torch.profiler.schedule(wait=1, warmup=1, active=2),
        on_trace_ready=trace_handler,
    ) as p:
        for _ in range(8):
            model(inputs)
            p.step()
    assert len(shown) == 2 and len(list(tmp_path.glob("*.json"))) == 2
    assert all(json.loads(file.read_text())["traceEvents"] for file in tmp_path.glob("*.json"))


def test_stacks(tmp_path):
    with profile(with_stack=True) as prof:
        torch.randn(100, 100) @ torch.randn(100, 100)
    rows = prof.key_averages(group_by_stack_n=5)
    row = next(a for a in rows if a.key == "matmul")
    assert re.fullmatch(rf"{re.escape(__file__)}\(\d+\): test_stacks", row.stack[0])
    assert "Source Location" in rows.table(sort_by="self_cpu_time_total", row_limit=2)
    prof.export_stacks(str(tmp_path / "stacks.txt"), "self_cpu_time_total")
    assert all(re.fullmatch(r"\S+;\S+ \d+", line) for line in (tmp_path / "stacks.txt").read_text().splitlines())
    with pytest.raises(ValueError, match="metric"):
        prof.export_stacks(str(tmp_path / "x"), "zork")
    with pytest.raises(AttributeError, match="sort_by"):
        rows.table(sort_by="zork")


def test_a_memory_timeline(tmp_path):
    """pytorch.org/blog/understanding-gpu-memory-1: export_memory_timeline."""
    with profile(profile_memory=True, record_shapes=True, with_stack=True) as prof:
        x = torch.ones(1000) * 2
        del x
    prof.export_memory_timeline(tmp_path / "memory.html", device="cpu")
    assert "at the peak" in (tmp_path / "memory.html").read_text()
    prof.export_memory_timeline(str(tmp_path / "memory.json"))
    times, held = json.loads((tmp_path / "memory.json").read_text())
    assert max(held) == 8000 and held[-1] == 0 and times == sorted(times)
    with pytest.raises(RuntimeError, match="profile_memory=True"):
        profile().export_memory_timeline(tmp_path / "x.html")


def test_the_older_profiler():
    """pytorch.org/tutorials/beginner/profiler: torch.autograd.profiler."""
    x = torch.randn(4, 4, requires_grad=True)
    with torch.autograd.profiler.profile(with_stack=True, profile_memory=True) as prof:
        with torch.autograd.profiler.record_function("LINEAR PASS"):
            y = (x * 2).sum()
        y.backward()
    text = prof.key_averages(group_by_stack_n=5).table(sort_by="self_cpu_time_total", row_limit=5)
    assert "LINEAR PASS" in prof.key_averages().table() and text
    assert any(a.key == "mul backward" for a in prof.key_averages())
    assert prof.key_averages().total_average().count == sum(a.count for a in prof.key_averages())


def test_times_of_devices_in_averages():
    x = torch.randn(64, 64).to("vgpu")
    with profile() as prof:
        x @ x
        x + x
    by_name = {a.key: a for a in prof.key_averages()}
    assert by_name["matmul"].self_device_time_total > 0 and by_name["add"].cuda_time_total > 0
    assert "Device total" in prof.key_averages().table(sort_by="cuda_time_total")


def test_nothing_recorded():
    assert profile().key_averages() == [] and "Name" in str(profile().key_averages())


@pytest.mark.parametrize("workers", [0, 2])
def test_waiting_for_a_data_loader_is_seen(workers):
    loader = torch.utils.data.DataLoader(list(range(10)), batch_size=4, num_workers=workers)
    with strata.tracing() as t:
        assert [len(batch) for batch in loader] == [4, 4, 2]
    assert t.rows("user")[0]["key"] == "enumerate(DataLoader)" and t.rows("user")[0]["calls"] == 4
    with strata.tracing() as t:
        for _ in loader:
            break
    assert t.rows("user")[0]["calls"] == 1
    assert len(list(loader)) == 3 and iter(loader) is not loader


def test_rates_and_shares_of_the_peak():
    x = strata.randn(200, 200)
    with strata.tracing() as t:
        x @ x
        x + x
    rows = {row["key"]: row for row in t.rows("op")}
    assert rows["matmul"]["flops"] == 2 * 200**3 and rows["add"]["flops"] == 0
    lines = {line.split()[0]: line for line in t.table("op", peak="cpu").splitlines()}
    assert lines["op"].endswith("of peak") and "GFLOP/s" in lines["matmul"]
    assert re.search(r"\d+%$", lines["matmul"]) and re.search(r"\d+%$", lines["add"])
    assert "of peak" not in t.table("op") and "operations" not in t.table("module")
    with pytest.raises((RuntimeError, ValueError)):
        t.table("op", peak="zork")


STUB = """
#include <stdio.h>
#include <stdlib.h>
static int depth;
static FILE* log_file(void) { static FILE* f; if (!f) f = fopen(getenv("NVTX_LOG"), "w"); return f; }
int nvtxRangePushA(const char* s) { fprintf(log_file(), "%d %s\\n", depth, s); fflush(log_file()); return depth++; }
int nvtxRangePop(void) { fprintf(log_file(), "%d\\n", --depth); fflush(log_file()); return depth; }
"""
PROGRAM = """
import strata
x = strata.ones(4)
x + x
with strata.tracing(nvtx=True):
    with strata.profiler.record_function("block"):
        x + x
x + x
with strata.autograd.profiler.emit_nvtx():
    x * x
with strata.cuda.nvtx.range("own {}", 7):
    assert strata.cuda.nvtx.range_push("inner") == 1 and strata.cuda.nvtx.range_pop() == 1
with strata.tracing():
    x - x
"""


def test_ranges_for_other_profilers(tmp_path):
    compiler = shutil.which("cc") or shutil.which("g++")
    (tmp_path / "nvtx.c").write_text(STUB)
    library = tmp_path / "libnvToolsExt.so.1"
    subprocess.run([compiler, "-x", "c", "-shared", "-fPIC", "-o", library, tmp_path / "nvtx.c"], check=True)
    log = tmp_path / "log"
    environment = {**os.environ, "STRATA_NVTX": str(library), "NVTX_LOG": str(log)}
    subprocess.run([sys.executable, "-c", PROGRAM], env=environment, check=True, timeout=60)
    lines = log.read_text().splitlines()
    names = [line.split(" ", 1)[1] for line in lines if " " in line]
    assert names[:3] == ["block", "add", "add"] and "mul" in names and "sub" not in names
    assert names[-2:] == ["own 7", "inner"] and lines[-1] == "0"
    depth = 0
    for line in lines:  # every range ends, in order
        number, _, name = line.partition(" ")
        depth = depth if name else depth - 1
        assert int(number) == depth
        depth = depth + 1 if name else depth
    assert depth == 0


def test_no_nvtx_is_an_error_only_if_it_was_asked_for(tmp_path):
    program = "import strata\nstrata.cuda.nvtx.range_push('x')\nstrata.cuda.nvtx.mark('y')\nwith strata.tracing(nvtx=True): pass"
    environment = {**os.environ, "STRATA_NVTX": str(pathlib.Path(tmp_path) / "none.so")}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "NVTX" in done.stderr and "NotImplementedError" in done.stderr
