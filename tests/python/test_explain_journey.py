"""strata.explain of a function: the layers of one call, on the CPU and on the virtual GPU, and networks layer by layer."""

import json
import os
import pathlib
import random
import subprocess
from functools import partial

import pytest
import records
import strata
from html_page import Page
from strata import _C, nn

F = nn.functional
DEVICES = ["cpu", "vgpu"]
BUILD = pathlib.Path(os.environ.get("STRATA_BUILD_DIR", pathlib.Path(__file__).parents[2] / "build" / "release"))
STRATA = BUILD / "bin" / "strata"
ORDER = ["call", "binding", "record", "autograd", "kernels", "memory", "launch", "driver", "code", "cost"]


def layer(step, name):
    return next((x for x in step["layers"] if x["layer"] == name), None)


def is_in_order(step):
    places = [ORDER.index(x["layer"]) for x in step["layers"]]
    return places == sorted(set(places))


def made(device, *shape, seed=0):
    strata.manual_seed(seed)
    return strata.randn(*shape).to(device).requires_grad_()


def call_of(name, device):
    if name == "add":
        a, b = made(device, 40, 50), made(device, 50)
        return lambda: a + b
    if name == "conv2d":
        x, w = made(device, 2, 3, 9, 9), made(device, 4, 3, 3, 3)
        return lambda: F.conv2d(x, w, padding=1)
    x = made(device, 1, 2, 16, 8)
    return (lambda: x.softmax(-1)) if name == "softmax" else (lambda: F.scaled_dot_product_attention(x, x, x))


TOP = {
    "add": "add",
    "conv2d": "conv2d",
    "softmax": "softmax",
    "attention": "nn.functional.scaled_dot_product_attention",
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", TOP)
def test_the_structure(name, device):
    call = call_of(name, device)
    journey = strata.explain(call)
    assert journey.steps[0]["op"] == TOP[name] and journey.steps[0]["depth"] == 0
    assert [x["layer"] for x in journey.steps[0]["layers"]][:4] == ["call", "binding", "record", "autograd"]
    assert f"{__file__}" == layer(journey.steps[0], "call")["facts"]["file"]
    assert all(is_in_order(step) for step in journey.steps)
    with_kernels = [step for step in journey.steps if layer(step, "kernels")]
    assert with_kernels
    gpu = {"launch", "driver", "code"} if device == "vgpu" else {"launch"}
    launched = 0
    for step in with_kernels:
        assert layer(step, "memory") and layer(step, "cost")["us"] >= 0
        lines = layer(step, "kernels")["lines"]
        assert lines and all(": " in line and not line.endswith(": ") for line in lines)
        assert sum(line.partition(": ")[2].startswith(("chosen", "the only")) for line in lines) == 1
        if layer(step, "launch"):
            launched += 1
            assert gpu <= {x["layer"] for x in step["layers"]}
    assert launched >= 1
    assert journey.id > 0 and journey.spans > len(journey.steps)
    assert journey.device.startswith(device)
    result = call()
    assert journey.results[0]["type"] == f"float32[{', '.join(map(str, result.shape))}]"


@pytest.mark.parametrize("device", DEVICES)
def test_the_kernels_are_those_of_the_registry(device):
    """Every kernel of the list is shown, in its order, and the chosen one is the one that ran."""
    x, w = made(device, 2, 3, 9, 9), made(device, 4, 3, 3, 3)
    listed = {entry["op"]: entry for entry in json.loads(_C._explain_list())}
    for call in (partial(F.conv2d, x, w), partial(x.softmax, 1), partial(x.detach().matmul, x.detach())):
        journey = strata.explain(lambda call=call: call(), warm_up=True)
        with strata.tracing() as t:
            call()
        chosen = [dict(e["facts"])["kernel"] for e in t.events if e["name"] == "choose"]
        shown = [s["layers"] for s in journey.steps if layer(s, "kernels") and layer(s, "kernels")["facts"]]
        assert [next(x for x in s if x["layer"] == "kernels")["facts"]["chosen"] for s in shown] == chosen
        for step in journey.steps:
            kernels = layer(step, "kernels")
            if not kernels or not kernels["facts"]:
                continue
            names = [line.partition(" (")[0] for line in kernels["lines"]]
            assert names == [k["kernel"] for k in listed[step["op"]]["cpu" if device == "cpu" else "cuda"]]


def test_the_values_and_bytes_are_those_of_the_call():
    a, b = strata.tensor([1.0, 2.0, 3.0]), strata.tensor([4.0, 5.0, 6.0])
    journey = strata.explain(lambda: a + b)
    assert journey.results == [{"type": "float32[3]", "values": "[5., 7., 9.]"}]
    assert layer(journey.steps[0], "cost")["facts"]["bytes"] == "36"
    assert layer(journey.steps[0], "memory")["facts"]["bytes"] == "12"


@pytest.mark.parametrize("device", DEVICES)
def test_backward_steps_name_the_node_of_their_forward_op(device):
    a = made(device, 5, 7)
    journey = strata.explain(lambda: a.exp().sum(), backward=True)
    nodes = {s["op"]: layer(s, "autograd")["facts"].get("node") for s in journey.steps if s["direction"] == "forward"}
    steps = [layer(s, "autograd")["text"] for s in journey.steps if s["direction"] == "backward"]
    assert nodes["exp"] and any(text.endswith(f"of exp, node {nodes['exp']}") for text in steps)
    assert {s["direction"] for s in journey.steps} == {"forward", "backward"}
    assert layer(journey.steps[0], "autograd")["facts"]["saves"] == "the result"


def test_memory_tells_new_blocks_from_reused_ones():
    strata.empty_cache()
    x = strata.ones(3_000_017)
    kept = []

    def grows():
        kept.append(x + 1)
        return kept[-1]

    text = layer(strata.explain(grows).steps[0], "memory")["lines"][0]
    assert text == "12 MB: new, from the system"
    text = layer(strata.explain(lambda: x * 2, warm_up=True).steps[0], "memory")["lines"][0]
    assert text == "12 MB: a cached block, which an earlier mul had"
    y = strata.ones(100).to("vgpu")
    text = layer(strata.explain(lambda: y * 2, warm_up=True).steps[0], "memory")["lines"][0]
    assert text == "400 B: a cached block, which an earlier mul had"


def test_pieces_and_threads_of_the_cpu():
    before = strata.get_num_threads()
    x = strata.ones(1000, 1000)
    try:
        strata.set_num_threads(2)
        facts = layer(strata.explain(lambda: x + x).steps[0], "launch")["facts"]
        assert (facts["threads"], facts["pieces"]) == ("2", "2")
        strata.set_num_threads(1)
        facts = layer(strata.explain(lambda: x + x).steps[0], "launch")["facts"]
        assert (facts["threads"], facts["pieces"]) == ("1", "1")
    finally:
        strata.set_num_threads(before)


def test_launch_counters_and_ptx_of_the_virtual_gpu():
    x = strata.ones(5000).to("vgpu")
    step = strata.explain(lambda: x + x, warm_up=True).steps[0]  # the first call may load the kernel
    launch = layer(step, "launch")
    assert launch["facts"]["grid"] == "3x1x1" and launch["facts"]["block"] == "256x1x1"
    assert "3 blocks of 256 threads for 5000 results" in launch["lines"][1]
    calls = [line.split()[0] for line in layer(step, "driver")["lines"]]
    assert calls[-1] == "cuLaunchKernel" and calls.count("cuLaunchKernel") == 1
    assert set(calls) <= {
        "cuLaunchKernel",
        "cuEventQuery",
        "cuEventDestroy",
    }  # of blocks that other streams used before
    text = strata.vgpu.ptx("arithmetic.Add_f32").splitlines()
    heading = next(line for line in layer(step, "code")["lines"] if line.startswith("PTX of Add_f32, arithmetic.cu"))
    first = int(heading.rpartition(" ")[2])
    code = layer(step, "code")["lines"]
    shown = code[code.index(heading) + 1 :]
    assert shown[0].strip() == text[first - 1].strip() and any("fma.rn.f32" in line for line in shown)
    strata.vgpu.counters()
    y = x + x
    (counted,) = strata.vgpu.counters()
    assert (
        f"{counted['warps']} warps, {counted['warp_instructions']} warp instructions" in layer(step, "cost")["lines"][0]
    )
    assert layer(step, "cost")["facts"]["bound"] == counted["bound"] and y.numel() == 5000


def test_machine_code_of_a_disassembler(tmp_path, monkeypatch):
    tool = tmp_path / "cuobjdump"
    tool.write_text(
        "#!/bin/sh\nfor last; do :; done\ntest -s $last || exit 1\n"
        'echo "    /*0000*/   MOV R1, c[0x0][0x28] ;  /* 0x00 */"\n'
        'echo "    /*0010*/   FFMA R4, R2, R3, R4 ;  /* 0x01 */"\n'
    )
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    x = strata.ones(50).to("vgpu")
    lines = layer(strata.explain(lambda: x + x).steps[0], "code")["lines"]
    information = subprocess.run([STRATA, "--build-info"], capture_output=True, text=True, check=True).stdout
    if "machine code" in information:
        assert lines[-3] == f"SASS of Add_f32, 2 instructions, by {tool}"
        assert [line.strip() for line in lines[-2:]] == ["MOV R1, c[0x0][0x28]", "FFMA R4, R2, R3, R4"]
    else:
        assert not any(line.startswith("SASS") for line in lines)
    tool.write_text("#!/bin/sh\nexit 3\n")
    lines = layer(strata.explain(lambda: x + x).steps[0], "code")["lines"]
    assert not any(line.startswith("SASS") for line in lines)


# --- whatever is asked ------------------------------------------------------------------------------------------------


def test_errors_of_the_function_are_its_own_and_end_the_recording():
    def fails():
        strata.ones(3) + strata.ones(4)

    with pytest.raises(RuntimeError, match="broadcast|shape"):
        strata.explain(fails)
    with pytest.raises(ZeroDivisionError):
        strata.explain(lambda: 1 / 0)
    assert not _C._trace_is_on()
    assert strata.explain(lambda: strata.ones(3)).steps
    with strata.tracing(), pytest.raises(RuntimeError, match="a recording is running"):
        strata.explain(lambda: strata.ones(3))
    with pytest.raises(RuntimeError, match="no result requires a gradient"):
        strata.explain(lambda: strata.ones(3), backward=True)
    with pytest.raises(RuntimeError, match="a recording is running"):
        strata.explain(lambda: strata.explain(lambda: strata.ones(2)))
    assert not _C._trace_is_on()


def test_results_of_every_kind():
    assert strata.explain(lambda: None).results == []
    assert strata.explain(lambda: None).steps == [] and str(strata.explain(lambda: 3)).startswith("a call without ops")
    several = strata.explain(lambda: {"a": strata.ones(2), "b": [strata.zeros(0), (strata.tensor(3),)]})
    assert [(r["type"], r["values"]) for r in several.results] == [
        ("float32[2]", "[1., 1.]"),
        ("float32[0]", "no values"),
        ("int64[]", "3"),
    ]
    deep = []
    deep.append(deep)
    assert strata.explain(lambda: deep).results == []
    assert strata.explain(lambda: strata.ones(3, device="meta")).results[0]["values"] == "no values"
    views = strata.explain(lambda: strata.ones(2, 3).t()[1:])
    assert "memory" in {x["layer"] for x in views.steps[0]["layers"]}
    custom = strata.explain(lambda: strata.ones(3).sum().item() and strata.ones(2))
    assert custom.results[0]["values"] == "[1., 1.]"


def test_the_list_of_kernels_of_an_op_is_still_there():
    assert strata.explain(strata.add, strata.ones(3), 1.0)[0][:2] == ("add", "flat_simd")
    with pytest.raises(TypeError):
        strata.explain()
    assert isinstance(strata.explain(lambda x: x + 1, strata.ones(3)), list)


def test_the_page_stands_alone_and_is_escaped():
    evil = "<script>alert(1)</script>&\"'"
    journey = strata.explain(lambda: strata.ones(3) + 1, title=evil)
    page = Page(journey.html())
    assert "script" not in page.tags and not page.outside and evil in page.text
    assert evil not in journey._repr_html_() and json.loads(journey.json())["title"] == evil
    assert "fma(math::number" in page.text


@pytest.mark.parametrize("device", DEVICES)
def test_ops_that_nobody_chose(device):
    """Whatever op of the registry: the steps are in order, and the first is the op itself."""
    chooser = random.Random(random.SystemRandom().getrandbits(32))
    chosen = [r for r in records.RECORDS if r["samples"] and strata.float32 in r["dtypes"]]
    shown = 0
    for record in chooser.sample(chosen, 40):
        text, given = chooser.choice(records.samples(record, strata.float32))

        def call(record=record, given=given):
            return records.call(record, records.map_tensors(lambda t: t.to(device), given))

        try:
            call()
        except (RuntimeError, NotImplementedError, ValueError, TypeError):  # the op is not for this device
            continue
        journey = strata.explain(call)
        assert all(is_in_order(step) for step in journey.steps), (record["name"], text)
        assert json.loads(journey.json())["steps"] == journey.steps and journey.html(), (record["name"], text)
        assert any(step["op"] == record["name"] for step in journey.steps), (record["name"], text)
        shown += 1
    assert shown > 20


# --- networks ---------------------------------------------------------------------------------------------------------
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.body = nn.Sequential(nn.ReLU(), nn.Flatten(), nn.Linear(4 * 6 * 6, 10))

    def forward(self, x):
        return self.body(self.conv(x)).log_softmax(1)


@pytest.mark.parametrize("device", DEVICES)
def test_layers_of_a_network(device):
    net, x = Net().to(device), strata.randn(5, 1, 8, 8).to(device)
    found = strata.explain_layers(net, x)
    layers = {entry["layer"]: entry for entry in found.layers}
    assert list(layers) == ["conv", "body.0", "body.2", ""]  # a view runs no kernel
    assert layers["conv"]["flops"] == 2 * 5 * 4 * 9 * 36 and layers["body.2"]["flops"] == 2 * 5 * 144 * 10
    assert layers[""]["module"] == "Net" and layers["body.0"]["bytes"] == 2 * 4 * 5 * 4 * 36
    assert all(e["us"] > 0 and e["bound"] in ("memory", "compute", "launch") and e["kernels"] for e in found.layers)
    assert abs(sum(e["share"] for e in found.layers) - 1) < 1e-9
    assert "What would help most" in found.advice and found.advice in str(found)
    assert json.loads(found.json())["layers"] == found.layers
    assert not any(net.conv._forward_hooks) and not any(net.conv._forward_pre_hooks)


def test_backward_steps_belong_to_the_layer_of_their_op():
    net, x = Net(), strata.randn(5, 1, 8, 8)
    forward = {e["layer"]: e for e in strata.explain_layers(net, x).layers}
    both = {e["layer"]: e for e in strata.explain_layers(net, x, backward=True).layers}
    assert len(both["conv"]["kernels"]) > len(forward["conv"]["kernels"])
    assert both["body.2"]["flops"] == 3 * forward["body.2"]["flops"]


def test_networks_without_parameters_and_wrong_ones():
    assert "nothing to improve" in strata.explain_layers(nn.Identity(), strata.ones(3)).advice
    with pytest.raises(TypeError, match="expected a module, found function"):
        strata.explain_layers(lambda x: x, strata.ones(3))
    net = nn.Sequential(nn.Linear(3, 4))
    with pytest.raises(RuntimeError):
        strata.explain_layers(net, strata.ones(5))
    assert not any(net[0]._forward_hooks) and not _C._trace_is_on()


def test_operations_of_known_kinds():
    """Products, convolutions of every kind and attention, against sums counted by hand."""

    def flops(call):
        call()
        with strata.tracing() as t:
            call()
        return sum(e["flops"] for e in t.events)

    a, b = strata.randn(3, 4), strata.randn(4, 5)
    assert flops(lambda: a @ b) == 2 * 3 * 4 * 5
    assert flops(lambda: strata.addmm(strata.zeros(5), a, b)) == 2 * 3 * 4 * 5
    assert flops(lambda: strata.bmm(strata.randn(2, 3, 4), strata.randn(2, 4, 5))) == 2 * 2 * 3 * 4 * 5
    x, w = strata.randn(2, 6, 9, 9), strata.randn(8, 3, 3, 3)
    assert flops(lambda: F.conv2d(x, w, stride=2, groups=2)) == 2 * 2 * 8 * 16 * 27
    assert flops(lambda: F.conv_transpose2d(x, strata.randn(6, 4, 2, 2), stride=2)) == 2 * 2 * 81 * 6 * 4 * 4
    q, k = strata.randn(1, 2, 5, 8), strata.randn(1, 2, 7, 8)
    assert flops(lambda: F.scaled_dot_product_attention(q, k, k)) == 4 * 2 * 5 * 7 * 8
    assert flops(lambda: a + a) == 0
