"""strata.tracing() and strata.profiler: ids from the Python line to the kernel, tables, files, other threads."""

import gzip
import json
import os
import pathlib
import re
import subprocess
import sys
import threading
import xml.etree.ElementTree

import pytest
import strata
from strata import nn

BUILD = pathlib.Path(os.environ.get("STRATA_BUILD_DIR", pathlib.Path(__file__).parents[2] / "build" / "release"))
STRATA = BUILD / "bin" / "strata"


def facts(event):
    return dict(event["facts"])


def spans(t, layer, name=None):
    return [e for e in t.events if e["layer"] == layer and name in (None, e["name"])]


@pytest.mark.parametrize("device", ["cpu", "vgpu"])
@pytest.mark.parametrize(
    "op, inputs",
    [
        ("add", [(8, 8), (8, 8)]),
        ("softmax", [(8, 8)]),
        ("nn.functional.conv2d", [(1, 3, 8, 8), (4, 3, 3, 3)]),
        ("nn.functional.scaled_dot_product_attention", [(1, 2, 8, 16)] * 3),
    ],
)
def test_one_id_from_the_line_to_the_kernel(op, inputs, device):
    tensors = [strata.randn(*s).to(device) for s in inputs]
    call = strata._C.ops[op]
    with strata.tracing() as t:
        call(*tensors, *([-1] if op == "softmax" else []))
        line = sys._getframe().f_lineno - 1
    outer = spans(t, "python")[0]
    assert facts(outer)["file"] == __file__ and facts(outer)["line"] == line
    same = [e for e in t.events if e["id"] == outer["id"]]
    layers = {e["layer"] for e in same}
    assert {"python", "op", "dispatch", "kernel"} <= layers
    if device == "vgpu":
        assert {"runtime", "driver", "device"} <= layers
    on_host = [e for e in same if e["layer"] != "device"]
    assert all(outer["begin_ns"] <= e["begin_ns"] <= e["end_ns"] <= outer["end_ns"] for e in on_host)
    chosen = [facts(e)["kernel"] for e in same if e["layer"] == "dispatch"]
    assert set(chosen) <= {e["name"] for e in same if e["layer"] == "kernel"}
    first = next(e for e in same if e["layer"] == "op" and e["name"] == outer["name"])
    assert [value for key, value in first["facts"] if key == "input"] == [("float32", tuple(x.shape)) for x in tensors]


def test_rejected_kernels_have_reasons():
    x = strata.randn(8, 6)
    with strata.tracing() as t:
        x.T + strata.ones(6, 8)
    choice = spans(t, "dispatch")[-1]
    rejected = [value for key, value in choice["facts"] if key == "rejected"]
    assert any(r.startswith("flat_simd: ") for r in rejected)


def test_launches_have_their_sizes_and_the_device_its_times():
    x = strata.randn(100, 100).to("vgpu")
    y = (x * 2).relu()
    with strata.tracing() as t:
        y = (x * 2).relu()
    launches = [facts(e) for e in spans(t, "runtime", "launch")]
    assert len(launches) == 2
    for launch in launches:
        assert launch["grid_x"] >= 1 and launch["block_x"] == 256 and launch["registers"] > 0
        assert 0 < launch["occupancy"] <= 1
    device = spans(t, "device")
    assert [e["name"] for e in device] == [launch["kernel"] for launch in launches]
    assert [facts(e)["op"] for e in device] == ["mul", "relu"]
    assert [e["id"] for e in device] == [e["id"] for e in spans(t, "runtime", "launch")]
    assert all(e["end_ns"] >= e["begin_ns"] for e in device)
    assert t.rows("op")[0]["device_ns"] > 0 and {r["key"] for r in t.rows("device")} == {e["name"] for e in device}
    assert y.shape == (100, 100)


def test_backward_steps_know_their_forward_ops():
    net = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1))
    with strata.tracing() as t:
        net(strata.randn(4, 8)).sum().backward()
    forward = {facts(e)["node"]: e["name"] for e in spans(t, "op") if "node" in facts(e)}
    steps = spans(t, "autograd")
    assert len(steps) >= 4
    for step in steps:
        assert forward[facts(step)["node"]] == step["name"]
    backward = spans(t, "python", "backward")[0]
    assert {e["id"] for e in steps} == {backward["id"]}


def test_threads_have_ids_of_their_own():
    def work():
        for _ in range(50):
            strata.ones(4).exp()

    with strata.tracing() as t:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    calls = spans(t, "python", "exp")
    assert len(calls) == 200 and len({e["id"] for e in calls}) == 200 and len({e["thread"] for e in calls}) == 4
    owners = {e["id"]: e["thread"] for e in calls}
    assert all(e["thread"] == owners[e["id"]] for e in t.events if e["id"] in owners)


def test_data_loaders_with_threads_and_errors_leave_no_open_spans():
    class Fails(nn.Module):
        def forward(self, x):
            return x @ strata.ones(99, 1)

    with strata.tracing() as t:
        with pytest.raises(RuntimeError):
            nn.Sequential(nn.Linear(3, 3), Fails())(strata.ones(2, 3))
        strata.ones(2).exp()
    assert {e["name"] for e in spans(t, "module")} == {"Sequential", "Linear", "Fails"}
    last = spans(t, "python", "exp")[0]
    assert last["id"] not in {e["id"] for e in spans(t, "module")}


def test_one_recording_at_a_time_and_nothing_before_the_end():
    with strata.tracing() as t:
        with pytest.raises(RuntimeError, match="already running"):
            strata.tracing().__enter__()
        with pytest.raises(RuntimeError, match="has not ended"):
            t.events  # noqa: B018
    assert len(t) == len(t.events) == 0 and t.dropped == 0


def test_memory_is_bounded():
    with strata.tracing(memory=1 << 17) as t:
        x = strata.ones(4)
        for _ in range(3000):
            x.exp()
    assert t.dropped > 0 and 0 < len(t) < 4000
    assert "were dropped" in t.table()
    for wrong in (0, -1):
        with pytest.raises(ValueError, match="memory"):
            strata.tracing(memory=wrong).__enter__()


def test_tables():
    net = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
    with strata.tracing() as t, strata.profiler.record_function("my block"):
        for _ in range(3):
            net(strata.randn(4, 8))
    rows = {r["key"]: r for r in t.rows("op")}
    assert rows["relu"]["calls"] == 3 and rows["relu"]["bytes"] == 3 * 2 * 4 * 8 * 4
    assert {r["key"]: r["calls"] for r in t.rows("module")} == {"Sequential": 3, "Linear": 3, "ReLU": 3}
    assert t.rows("user")[0]["key"] == "my block" and t.rows("user")[0]["calls"] == 1
    line = next(r for r in t.rows("line") if r["key"].startswith(__file__))
    assert "test_tables" in line["key"] and line["calls"] >= 9
    whole = t.rows("user")[0]["total_ns"]
    assert sum(r["self_ns"] for r in t.rows("layer")) == whole
    for r in t.rows("op"):
        assert 0 <= r["self_ns"] <= r["total_ns"] <= whole
    assert "relu" in t.table("op") and "more" in t.table("op", limit=1)
    with pytest.raises(ValueError, match="no table by 'zork'"):
        t.table("zork")


def test_files(tmp_path):
    x = strata.randn(8, 8, requires_grad=True)
    with strata.tracing() as t, strata.profiler.record_function("</script><b>&'\"\x01"):
        (x @ x).sum().backward()
    for end in ("json", "html", "svg", "txt"):
        t.save(tmp_path / f"t.{end}")
    trace = json.loads((tmp_path / "t.json").read_text())
    slices = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    assert len(slices) == len(t)
    for e in slices:
        assert {"pid", "tid", "ts", "dur", "name", "cat", "args"} <= set(e) and e["dur"] >= 0
    starts = {(e["name"], e["id"]): e for e in trace["traceEvents"] if e["ph"] == "s"}
    ends = {(e["name"], e["id"]): e for e in trace["traceEvents"] if e["ph"] == "f"}
    assert set(starts) == set(ends) and {name for name, _ in starts} == {"call", "backward"}
    for key, end in ends.items():  # both ends are bound to a slice that encloses them
        for e in (starts[key], end):
            assert any(s["tid"] == e["tid"] and s["ts"] <= e["ts"] + 1e-3 <= s["ts"] + s["dur"] + 2e-3 for s in slices)
    assert xml.etree.ElementTree.parse(tmp_path / "t.svg").getroot().tag.endswith("svg")
    page = (tmp_path / "t.html").read_text()
    assert (
        "</script><b>" not in page and "http://" not in page.replace("http://www.w3.org", "") and "https://" not in page
    )
    with pytest.raises(ValueError, match="cannot tell the format"):
        t.save(tmp_path / "t.xyz")
    with pytest.raises(OSError):
        t.save(tmp_path / "no" / "t.json")
    assert "<svg" in t._repr_html_()


def test_graphs_and_compiled_functions_are_recorded():
    f = strata.compile(lambda x: (x * 2 + 1).relu())
    x = strata.randn(1 << 18)
    expected = f(x)
    with strata.tracing() as t:
        found = f(x)
        found.sum().item()
    assert strata.equal(found, expected) and "fused" in {e["name"] for e in spans(t, "kernel")}


def child(code, *arguments, **environment):
    return subprocess.run(
        [*arguments, sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=120,
    )


def test_a_whole_process_by_its_environment_and_by_the_command(tmp_path):
    code = "import strata; strata.randn(4).exp()"
    done = child(code, STRATA_TRACE=str(tmp_path / "a.json"))
    assert done.returncode == 0, done.stderr
    names = {e["name"] for e in json.loads((tmp_path / "a.json").read_text())["traceEvents"] if e["ph"] == "X"}
    assert {"randn", "exp"} <= names
    done = child(code + "; raise SystemExit(7)", STRATA, "trace", "--out", tmp_path / "b.html", "--")
    assert done.returncode == 7 and "exp" in (tmp_path / "b.html").read_text()
    both = (
        "import os, subprocess, sys; "
        + code
        + "; subprocess.run([sys.executable, '-c', 'import strata; strata.ones(2)'])"
    )
    done = child(both + "; os.fork() or sys.exit()", STRATA_TRACE=str(tmp_path / "c.txt"))
    assert done.returncode == 0 and "randn" in (tmp_path / "c.txt").read_text()
    done = child(code, STRATA_TRACE=str(tmp_path / "no" / "a.json"))
    assert done.returncode == 0 and "STRATA_TRACE" in done.stderr


@pytest.mark.parametrize(
    "arguments, says",
    [
        (("--out", "x.xyz", "--", "true"), "cannot tell the format"),
        (("--", "no-such-program"), "there is no program"),
        ((), "required"),
    ],
)
def test_the_command_refuses(arguments, says):
    done = subprocess.run([STRATA, "trace", *arguments], capture_output=True, text=True)
    assert done.returncode == 1 and says in done.stderr


def test_the_profiler_follows_its_schedule(tmp_path):
    p = strata.profiler
    seen = []

    def ready(prof):
        seen.append((prof.step_num, {a.key: a.count for a in prof.key_averages()}.get("exp")))

    with p.profile(schedule=p.schedule(wait=1, warmup=1, active=2, repeat=2), on_trace_ready=ready) as prof:
        for _ in range(10):
            with p.record_function("step"):
                strata.ones(3).exp()
            prof.step()
    assert seen == [(3, 2), (7, 2)]
    averages = prof.key_averages()
    assert {a.key: a.count for a in averages}["step"] == 2
    total = averages.total_average()
    assert total.count == sum(a.count for a in averages)
    assert "exp" in averages.table(sort_by="self_cpu_time_total", row_limit=3) and "# of Calls" in str(prof)
    with pytest.raises(AttributeError, match="sort_by"):
        averages.table(sort_by="zork")
    prof.export_chrome_trace(tmp_path / "t.json")
    prof.export_chrome_trace(str(tmp_path / "t.json.gz"))
    plain = json.loads((tmp_path / "t.json").read_text())
    assert json.loads(gzip.decompress((tmp_path / "t.json.gz").read_bytes())) == plain


def test_names_of_blocks_as_decorators_nested_and_after_errors():
    @strata.profiler.record_function("outer")
    def outer(n):
        if n:
            outer(n - 1)
        else:
            raise KeyError

    with strata.tracing() as t:
        with pytest.raises(KeyError):
            outer(3)
    assert [e["name"] for e in spans(t, "user")] == ["outer"] * 4 and t.rows("user")[0]["calls"] == 4
    with strata.profiler.record_function("outside"):
        with strata.tracing() as t:
            pass
    assert len(t) == 0


def test_printing_is_a_tree():
    with strata.tracing() as t:
        strata.ones(3)
    text = str(t)
    assert re.match(r"python: ones file .*test_tracing.py, line \d+, function test_printing_is_a_tree", text)
    assert re.search(r"^    dispatch: choose kernel fill", text, re.M) and re.search(r"#\d+$", text)


@pytest.mark.parametrize("device", ["cpu", "vgpu"])
def test_who_holds_memory_at_the_peak(device, tmp_path):
    x = strata.ones(1000, 1000).to(device)
    with strata.tracing(holders=True) as t:
        kept = x * 2
        for _ in range(3):
            y = x + 1  # the block of the one before is given back
        z = y.exp()
        del y, z
        small = x[:10] + kept[:10]
    found = t.holders()
    assert found.peak == 12_000_000  # kept, and two of y and z
    assert {(r["op"], r["blocks"]) for r in found.rows} >= {("mul", 1)} and sum(
        r["bytes"] for r in found.rows
    ) == found.peak
    assert found.points[-1][1] == 4_000_000 + small.numel() * 4 and __file__ in found.rows[0]["line"]
    assert [b for a, b in found.points] and all(b >= 0 for _, b in found.points)
    assert "at the peak" in str(found)
    found.save(tmp_path / "memory.html")
    assert "Alive at the peak" in (tmp_path / "memory.html").read_text()
    with strata.tracing() as t:
        x + 1
    with pytest.raises(RuntimeError, match="holders=True"):
        t.holders()
    assert not [e for e in t.events if e["name"] == "free"]


def test_holders_of_modules_and_of_nothing():
    net = strata.nn.Sequential(strata.nn.Linear(50, 60), strata.nn.ReLU())
    with strata.tracing(holders=True) as t:
        net(strata.ones(7, 50)).sum().backward()
    rows = t.holders().rows
    by_op = {r["op"]: r["module"] for r in rows}  # the gradient of the weight is the largest
    assert by_op["mm"] == "Linear" and by_op["threshold_backward"] == "ReLU" and by_op["ones"] == ""
    with strata.tracing(holders=True) as t:
        pass
    assert t.holders().peak == 0 and t.holders().rows == [] and "svg" in t.holders().html()


def test_counters_of_the_virtual_gpu_have_their_places():
    net, x = strata.nn.Linear(20, 30).to("vgpu"), strata.ones(5, 20).to("vgpu")
    net(x)
    with strata.tracing(counters=True) as t:
        y = net(x)
        y + 1
    counted = t.counters()
    assert [c["module"] for c in counted][-2:] == ["Linear", ""] and counted[-1]["op"] == "add"
    assert counted[-1]["warp_instructions"] > 0 and __file__ in counted[-1]["line"]
    ids = {e["name"]: e["id"] for e in t.events if e["layer"] == "op"}
    assert counted[-1]["id"] == ids["add"] and strata.vgpu.counters() == []
    with strata.tracing(counters=True) as t:
        strata.ones(3) + 1
    assert t.counters() == []
    with strata.tracing() as t:
        x + x
    with pytest.raises(RuntimeError, match="counters=True"):
        t.counters()
    assert [c["op"] for c in strata.vgpu.counters()] == ["add"]
