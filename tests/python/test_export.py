"""strata.export: graphs of programs give the results of the programs, for other values too, and refuse what they cannot hold."""

import io
import json
import subprocess
import sys

import module_samples
import pytest
import records
import strata
from compiled_programs import bits, random_program
from strata import export, nn
from strata.export import Graph

F = nn.functional
# They change the shape of a tensor itself; a graph leaves its inputs as they are, and returns the new tensor.
RESHAPES = ("resize_", "resize_as_", "squeeze_", "unsqueeze_", "t_", "transpose_")
PLAIN = [r for r in records.PUBLIC if r["samples"]]


def captured(call, arguments):
    """The graph of a call, whose inputs are the tensors of its arguments, and its results."""
    inputs = [t.detach() for t in records.tensors(arguments)]
    results = []

    def program(*tensors):
        rest = iter(tensors)
        results[:] = records.tensors(call(records.map_tensors(lambda _: next(rest), arguments)))
        return list(results)

    return Graph.capture(program, inputs), results


@pytest.mark.parametrize("record", PLAIN, ids=records.label)
def test_samples(record):
    """A graph of one op gives its results; also in place, and with what the op writes to."""
    for dtype in (strata.float32, strata.bfloat16, strata.int64, strata.complex64):
        try:
            cases = records.samples(record, dtype)
        except (RuntimeError, TypeError, NotImplementedError):
            continue
        for text, arguments in cases:
            what = f"{records.label(record)}({text}) of {dtype}"

            def call(given):
                return records.callable_of(record)(**given)

            try:
                strata.manual_seed(1)
                mine = records.map_tensors(lambda t: t.detach().clone(), arguments)
                with strata.no_grad():
                    want = records.tensors(call(mine)) + records.tensors(mine)
            except (RuntimeError, TypeError, NotImplementedError, IndexError, ValueError):
                continue
            try:
                with strata.no_grad():
                    graph, _ = captured(call, records.map_tensors(lambda t: t.detach().clone(), arguments))
            except (RuntimeError, NotImplementedError) as error:
                assert "capture:" in str(error), (
                    what
                )  # reads values, or shares memory in a form that graphs do not have
                continue
            strata.manual_seed(1)
            inputs = [t.detach().clone() for t in records.tensors(arguments)]
            got = list(graph.run(inputs)) + inputs
            if record["name"] in RESHAPES:
                got, want = got[:1], want[:1]
            if "empty" not in record["name"] and text != "f(2,3), [4, 5]":  # new memory has any values
                assert bits(got) == bits(want), f"{what}\n{graph}"
            again = Graph.from_json(graph.to_json(), {**graph.constants, **graph.states})
            assert str(again) == str(graph), what


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_random_programs(first):
    """Views, writes through views, sums and products, with the inputs of the capture and with others."""
    refused = 0
    for seed in range(first, first + 50):
        shapes, run = random_program(seed)
        strata.manual_seed(seed)
        inputs = [strata.randn(shape) for shape in shapes]

        def program(*tensors, run=run):
            return records.tensors(run(*tensors))

        try:
            graph = Graph.capture(program, [t.clone() for t in inputs])
        except RuntimeError as error:
            assert "reads values" in str(error) and "compiled_programs.py" in str(error)
            refused += 1
            continue
        for given in (inputs, [strata.randn(shape) for shape in shapes]):
            want = program(*[t.clone() for t in given])
            assert bits(graph.run(given)) == bits(want), f"seed {seed}\n{graph}"
            for name in ("merge_equal", "fold_constants", "remove_unused"):
                getattr(graph, name)()
                assert bits(graph.run(given)) == bits(want), f"seed {seed} after {name}\n{graph}"
    assert refused < 45


@pytest.mark.parametrize("record, number", module_samples.SAMPLES, ids=module_samples.LABELS)
def test_modules(record, number):
    """Every module, in evaluation mode: the program of one input serves another."""
    module = module_samples.made(record, number).eval()
    inputs = module_samples.inputs(record, number)
    program = export.export(module, tuple(inputs))
    others = [t.flip(0) if t.is_floating_point() and t.dim() else t for t in inputs]
    with strata.no_grad():
        for given in (inputs, others):
            strata.manual_seed(3)
            want = records.tensors(module(*given))
            strata.manual_seed(3)
            assert bits(records.tensors(program.module()(*given))) == bits(want), str(program)
    assert set(program.state_dict) == {n for n, _ in [*module.named_parameters(), *module.named_buffers()]}


# --- writes and views -------------------------------------------------------------------------------------------------


def check(f, *inputs):
    """The graph gives the results of f and its effects on the inputs, also for other values."""
    graph = Graph.capture(f, [t.clone() for t in inputs])
    for given in (inputs, [t * 2 + 1 for t in inputs]):
        mine, theirs = [t.clone() for t in given], [t.clone() for t in given]
        want = f(*mine)
        got = graph.run(theirs)
        assert bits(got) == bits([want] if isinstance(want, strata.Tensor) else want), str(graph)
        assert bits(theirs) == bits(mine), str(graph)
    return graph


def test_writes_through_views():
    def f(x):
        y = x * 2
        row, column = y[1], y[:, 0]
        row.add_(1)
        column.mul_(3)
        y[:, 1:].sub_(column.unsqueeze(1))
        return y, row + 1, column.clone(), y.t() @ y

    check(f, strata.randn(3, 4))


def test_writes_to_inputs():
    def f(x, y):
        x[0] = y
        x.add_(1)
        return x.sum()

    graph = check(f, strata.randn(3, 4), strata.randn(4))
    assert [target for target, _ in graph.writes] == ["input_0"]


def test_out_arguments_and_dtypes():
    def f(x):
        out = strata.empty(3, dtype=strata.float64)
        strata.add(x, 1, out=out)
        half = x.to(strata.float16)
        half += x
        return out, half, half.view(strata.int16)

    check(f, strata.randn(3))


def test_writes_to_tensors_of_the_program():
    kept, part, total = strata.zeros(3), strata.zeros(2, 3), strata.zeros(())

    def f(x):
        strata.add(x, 1, out=kept)
        strata.mul(x, 2, out=part[1])
        total.add_(x.sum())
        return x * 3

    graph = Graph.capture(f, [strata.ones(3)])
    for t in (kept, part, total):
        t.zero_()
    for _ in range(2):
        assert graph.run([strata.ones(3)])[0].tolist() == [3, 3, 3]
    assert kept.tolist() == [2, 2, 2] and part.tolist() == [[0, 0, 0], [2, 2, 2]] and total.item() == 6
    assert len(graph.writes) == 3


def test_views_that_change_their_shape_in_place():
    def f(x):
        y = x.exp()
        y.unsqueeze_(0)
        y.transpose_(1, 2)
        y.squeeze_(0)
        y.add_(1)
        return y

    check(f, strata.randn(3, 4))


def test_a_part_of_a_larger_tensor():
    whole = strata.randn(4, 6)
    graph = Graph.capture(lambda x: x.t().contiguous() + 1, [whole[1:3, ::2]])
    assert strata.equal(graph.run([whole[:2, :3]])[0], whole[:2, :3].t() + 1)


def test_random_numbers_are_drawn_anew():
    graph = Graph.capture(lambda x: F.dropout(x, 0.5) + strata.randn(3), [strata.ones(3)])
    strata.manual_seed(5)
    want = F.dropout(strata.ones(3), 0.5) + strata.randn(3)
    strata.manual_seed(5)
    assert strata.equal(graph.run([strata.ones(3)])[0], want)


def test_gradients_of_a_graph_are_those_of_the_program():
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))

    def f(x):
        with strata.no_grad():
            scale = net[0].weight.sum()
        return net(x) * scale + net[2].bias.detach()

    x = strata.randn(3, 4)
    graph = Graph.capture(f, [x], list(net.named_parameters()))
    want = strata.autograd.grad(f(x).square().sum(), list(net.parameters()))
    got = strata.autograd.grad(graph.run([x])[0].square().sum(), list(net.parameters()))
    assert bits(got) == bits(want)


def test_a_backward_pass_is_part_of_the_graph():
    def f(w, x):
        w = w.detach().requires_grad_()
        (g,) = strata.autograd.grad(F.gelu(x @ w).square().sum(), w)
        return w.detach() - 0.1 * g

    graph = check(f, strata.randn(4, 3), strata.randn(5, 4))
    assert len(graph.nodes) > 5


def test_training_mode_writes_running_statistics():
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True))
    x = strata.randn(2, 3, 8, 8)
    other = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True))
    other.load_state_dict(net.state_dict())
    program = export.export(other, (x,))
    other.load_state_dict(net.state_dict())  # the capture ran the program once
    for _ in range(3):
        with strata.no_grad():
            assert strata.equal(program.module()(x), net(x))
    assert bits(list(other.buffers())) == bits(list(net.buffers()))
    assert set(program.graph_signature.buffers_to_mutate.values()) == {
        "1.running_mean",
        "1.running_var",
        "1.num_batches_tracked",
    }


def test_autocast_is_part_of_the_graph():
    net = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8))
    x = strata.randn(3, 4)

    def f(x):
        with strata.autocast("cpu"):
            return net(x)

    with strata.no_grad():
        graph = Graph.capture(f, [x])
        assert bits(graph.run([x])) == bits([f(x)])


def test_devices():
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8, 3)).to("vgpu")
    x = strata.randn(2, 1, 4, 4, device="vgpu")
    program = export.export(net, (x,))
    with strata.no_grad():
        assert strata.equal(program.module()(x * 2), net(x * 2))
    with pytest.raises(ValueError, match="vgpu:0"):
        program.module()(x.cpu())


# --- what a graph cannot hold -----------------------------------------------------------------------------------------


def test_values_that_decide_are_refused_with_their_line():
    def branch(x):
        if x.sum() > 0:
            return x
        return -x

    for f in (
        branch,
        lambda x: x * x.max().item(),
        lambda x: strata.tensor(x.numpy() + 1),
        lambda x: x[x.tolist()[0] > 0],
    ):
        with pytest.raises(RuntimeError, match=r"reads values .*test_export\.py"):
            Graph.capture(f, [strata.ones(3)])
    graph = Graph.capture(branch, [strata.ones(3)], allow_reads=True)
    assert strata.equal(graph.run([-strata.ones(3)])[0], -strata.ones(3))  # as it was decided
    Graph.capture(lambda x: (print(x), x.data_ptr(), x + 1)[-1], [strata.ones(3)])  # these decide nothing here


def test_a_failed_capture_leaves_nothing_behind():
    with pytest.raises(ZeroDivisionError):
        Graph.capture(lambda x: x / (1 // 0), [strata.ones(3)])
    with pytest.raises(RuntimeError, match="size"):
        Graph.capture(lambda x: x + strata.ones(4), [strata.ones(3)])

    def nested(x):
        return Graph.capture(lambda y: y + 1, [x]).run([x])[0]

    with pytest.raises(RuntimeError, match="a capture is running"):
        Graph.capture(nested, [strata.ones(3)])
    assert strata.ones(3).sum().item() == 3
    assert Graph.capture(lambda x: x + 1, [strata.ones(3)]).run([strata.ones(3)])[0].tolist() == [2, 2, 2]


def test_wrong_inputs():
    graph = Graph.capture(lambda x: x + 1, [strata.ones(3)], input_names=["x"])
    for inputs in ([strata.ones(4)], [strata.ones(3, dtype=strata.float64)]):
        with pytest.raises(ValueError, match=r"input 'x' is .*; the graph was captured with float32\[3\]"):
            graph.run(inputs)
    with pytest.raises(ValueError, match="expected 1 inputs, found 0"):
        graph.run([])
    with pytest.raises(TypeError):
        graph.run([3])
    with pytest.raises(NotImplementedError, match="generator"):
        Graph.capture(lambda x: strata.rand(3, generator=strata.Generator()) + x, [strata.ones(3)])
    with pytest.raises(TypeError):
        Graph.capture(lambda x: 3, [strata.ones(3)])


# --- programs ---------------------------------------------------------------------------------------------------------


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.norm = nn.LayerNorm(8)
        self.register_buffer("scale", strata.full((8,), 2.0))
        self.offset = strata.ones(8)

    def forward(self, x, *, mask=None, twice=False):
        y = self.norm(F.relu(self.first(x))) * self.scale + self.offset
        y = y * 2 if twice else y
        return {"y": y if mask is None else y * mask, "n": (x.shape[0], None)}


def test_programs_have_the_trees_of_their_arguments_and_results():
    model, x, mask = Model(), strata.randn(3, 4), strata.rand(3, 1)
    program = export.export(model, (x,), {"mask": mask, "twice": True})
    want = model(x, mask=mask, twice=True)
    got = program.module()(x, mask=mask, twice=True)
    assert strata.equal(got["y"], want["y"]) and got["n"] == (3, None)
    assert set(program.state_dict) == {"first.weight", "first.bias", "norm.weight", "norm.bias", "scale"}
    assert [n for n, _ in program.named_buffers()] == ["scale"] and len(program.constants) == 1
    assert program.graph_signature.user_inputs == ("args_0", "mask")
    with pytest.raises(ValueError, match="was exported with True"):
        program.module()(x, mask=mask, twice=False)
    with pytest.raises(ValueError, match="another structure"):
        program.module()(x)
    with pytest.raises(RuntimeError, match="Unable to call ExportedProgram directly"):
        program(x)
    scopes = [n["scope"] for n in program.graph.nodes]
    assert scopes[:3] == ["first", "", "norm"] and all(
        "test_export.py" in n["source"] or n["scope"] for n in program.graph.nodes
    )


def test_programs_follow_their_parameters():
    model, x = Model(), strata.randn(3, 4)
    program = export.export(model, (x,))
    with strata.no_grad():
        model.first.weight.mul_(2)
    assert strata.equal(program.module()(x)["y"], model(x)["y"])
    loss = program.module()(x)["y"].sum()
    loss.backward()
    assert model.first.weight.grad is not None


def test_files():
    model, x = Model(), strata.randn(3, 4)
    program = export.export(model, (x,), {"twice": True})
    file = io.BytesIO()
    export.save(program, file)
    file.seek(0)
    again = export.load(file)
    assert str(again.graph) == str(program.graph)
    got, want = again.module()(x, twice=True), model(x, twice=True)
    assert strata.equal(got["y"], want["y"]) and got["n"] == want["n"]
    assert isinstance(again.state_dict["first.weight"], nn.Parameter) and again.state_dict["first.weight"].requires_grad
    with pytest.raises(TypeError):
        export.save(model, io.BytesIO())
    other = io.BytesIO()
    strata.save({"a": strata.ones(2)}, other)
    other.seek(0)
    with pytest.raises(ValueError, match="no exported program"):
        export.load(other)


def test_damaged_texts_are_refused():
    weight = strata.ones(2, 3)
    graph = Graph.capture(lambda x: F.linear(x, weight).relu_()[0], [strata.ones(4, 3)])
    text, states = graph.to_json(), graph.constants

    def refused(change, error=ValueError, match=None):
        data = json.loads(text)
        change(data)
        with pytest.raises(error, match=match):
            Graph.from_json(json.dumps(data), states)

    for cut in range(0, len(text), 7):
        with pytest.raises(ValueError):
            Graph.from_json(text[:cut], states)
    refused(lambda d: d.update(version=2), match="version")
    refused(lambda d: d["nodes"][0].update(op="nonsense"), NotImplementedError, "nonsense")
    refused(lambda d: d["nodes"][0]["args"].update(more=None), NotImplementedError, "more")
    refused(lambda d: d["nodes"].reverse(), match="not computed before")
    refused(lambda d: d["outputs"].append(10**6))
    refused(lambda d: d["outputs"].append(-1))
    refused(lambda d: d["nodes"][0]["results"].append(0))
    refused(lambda d: d["nodes"][0]["args"].update(input={"str": "x"}), match="another type")
    refused(lambda d: d["nodes"][0]["args"].update(weight={"float": 2.0}), match="another type")
    refused(lambda d: d["nodes"][0]["args"].update(weight=None), match="another type")
    refused(lambda d: d["nodes"][-1]["args"].update(dim={"float": 1e308}), match="another type")
    refused(lambda d: d["nodes"][0].update(form="out", results=[]), match="0 out= tensors")
    refused(lambda d: d["nodes"][1].update(results=[None]), match="is in place")
    refused(lambda d: d["values"][0].update(dtype="float33"), TypeError)
    refused(lambda d: d["values"][1].update(shape=[5, 5]), match="state")
    refused(lambda d: d["values"][0].update(shape=[1] * 99, strides=[1] * 99))
    refused(lambda d: d["writes"].append({"target": d["outputs"][0], "value": 0}), match="no input or state")
    with pytest.raises(ValueError, match="no tensor for its state"):
        Graph.from_json(text, {})
    for odd in ("", "[]", "null", "[" * 10000, '{"format":"strata.graph"}'):
        with pytest.raises(ValueError):
            Graph.from_json(odd, {})


def test_passes():
    table = strata.arange(4.0)

    def f(x):
        x.exp() @ strata.ones(4)  # unused
        a, b = x.sin() + table.cos() * 2, x.sin() + table.cos() * 2
        return a * b + strata.rand(4) * 0

    graph = Graph.capture(f, [strata.ones(3, 4)])
    before = len(graph.nodes)
    copy = graph.copy()
    assert graph.merge_equal() == 4 and graph.remove_unused() == 3 and graph.fold_constants() == 2
    assert len(graph.nodes) == before - 9 and len(copy.nodes) == before
    x = strata.randn(3, 4)
    assert bits(graph.run([x])) == bits([f(x)])
    assert "cos" not in str(graph) and "cos" in str(copy)


def test_composites_can_be_captured_as_the_ops_inside():
    net, x = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.BatchNorm1d(8)), strata.randn(3, 4)
    with strata.no_grad():
        whole = Graph.capture(net, [x])
        parts = Graph.capture(net, [x], composites=False)
        net.eval()
        inner = Graph.capture(net, [x], composites=False)
        assert bits(inner.run([x])) == bits([net(x)])
    assert [n["op"] for n in whole.nodes] == ["nn.functional.linear", "relu", "_batch_norm_layer"]
    assert "_batch_norm_layer" not in str(parts) and len(parts.nodes) > 3 and parts.writes


def test_the_names_of_torch_export():
    program = """
import torch
from torch.export import export, save, load, Dim, ExportedProgram
ep = torch.export.export(torch.nn.Linear(4, 2), (torch.ones(3, 4),))
assert isinstance(ep, ExportedProgram) and ep.module()(torch.ones(3, 4)).shape == (3, 2)
print([n for n, _ in ep.named_parameters()])
"""
    done = subprocess.run(
        [sys.executable, "-m", "strata.torch", "-c", program], capture_output=True, text=True, timeout=120
    )
    assert done.stdout.strip() == "['weight', 'bias']", done.stderr
