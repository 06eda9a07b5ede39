"""strata.fx under its own name; tests/compat/test_fx.py compares programs with PyTorch's output."""

import copy
import gc
import pickle
import weakref

import pytest
import strata
import strata.nn.functional as F
from strata import fx, nn
from strata.fx._functional_arguments import _signatures


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin, self.scale, self.free = nn.Linear(4, 3), nn.Parameter(strata.ones(3)), strata.full((3,), 2.0)
        self.register_buffer("shift", strata.zeros(3))

    def forward(self, x, factor=2.0):
        y = F.relu(self.lin(x)) * self.scale + self.shift
        return y.sum(dim=-1) * factor + self.free.sum()


def test_code_and_results():
    net, x = Net(), strata.randn(5, 4)
    traced = fx.symbolic_trace(net)
    assert strata.equal(traced(x), net(x)) and strata.equal(traced(x, factor=3.0), net(x, 3.0))
    assert "strata.nn.functional.relu(lin, inplace = False)" in traced.code
    assert traced.code.startswith("\n\n\ndef forward(self, x, factor = 2.0):\n")
    assert list(traced.state_dict()) == ["scale", "shift", "_tensor_constant0", "lin.weight", "lin.bias"]
    traced.graph.lint()
    traced(x).sum().backward()
    assert net.lin.weight.grad is not None  # parameters are shared


def test_table(capsys):
    fx.symbolic_trace(lambda x: strata.relu(x) + 1).graph.print_tabular()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["opcode", "name", "target", "args", "kwargs"]
    assert [line.split()[0] for line in lines[2:]] == ["placeholder", "call_function", "call_function", "output"]


def test_readable(capsys):
    text = fx.symbolic_trace(Net()).print_readable()
    assert capsys.readouterr().out.strip() == text.strip()
    assert text.startswith("class Net(strata.nn.Module):\n    def forward(self, x, factor = 2.0):\n")


def test_every_normalized_function_accepts_its_arguments():
    """The generated code passes all arguments by name, so each of them must exist here."""
    for function, signature in _signatures().items():
        for name in signature.parameters:
            with pytest.raises(Exception) as caught:
                function(**{name: object()})
            assert "unexpected keyword" not in str(caught.value), (function, name)


def test_slices_by_proxies():
    traced = fx.symbolic_trace(lambda x: strata.arange(10)[: x.size(0)] + 1)
    assert traced(strata.ones(3)).tolist() == [1, 2, 3]


def test_methods_and_operators_of_tensors_with_proxies():
    constant = strata.full((2,), 3.0)
    traced = fx.symbolic_trace(lambda x: (constant + x) * constant.mul(x) - strata.stack([constant, x]).sum())
    x = strata.tensor([1.0, 2.0])
    assert strata.equal(traced(x), (constant + x) * constant.mul(x) - strata.stack([constant, x]).sum())


def test_copies_are_independent_and_freed():
    traced = fx.symbolic_trace(Net())
    copied = copy.deepcopy(traced)
    copied.graph.erase_node(copied.graph.output_node())
    copied.graph.output(next(iter(copied.graph.nodes)))
    copied.recompile()
    x = strata.ones(1, 4)
    assert copied(x) is x and traced(x).shape == (1,)
    watched = weakref.ref(copied)
    del copied
    gc.collect()
    assert watched() is None


def test_pickle_rebuilds_the_graph():
    traced = fx.symbolic_trace(Net())
    loaded = pickle.loads(pickle.dumps(traced))
    x = strata.randn(2, 4)
    assert strata.equal(loaded(x), traced(x)) and loaded.code == traced.code
    assert [n.name for n in loaded.graph.nodes] == [n.name for n in traced.graph.nodes]


def test_tracing_restores_what_it_patched():
    call, get = nn.Module.__call__, nn.Module.__getattr__
    with pytest.raises(fx.TraceError, match="control flow"):
        fx.symbolic_trace(lambda x: 1 if x else 2)
    assert nn.Module.__call__ is call and nn.Module.__getattr__ is get
    assert not fx._symbolic_trace.is_fx_tracing()


def test_lint_finds_mistakes():
    graph = fx.Graph()
    x = graph.placeholder("x")
    y = graph.call_function(strata.relu, (x,))
    graph.output(y)
    graph.lint()
    y.append(x)
    with pytest.raises(RuntimeError, match="used before it has been defined"):
        graph.lint()
    module = fx.GraphModule(nn.Module(), fx.Graph())
    with pytest.warns(UserWarning, match="no underlying reference"):
        module.graph.call_module("nowhere", ())
    with pytest.raises(RuntimeError, match="nonexistent attribute"):
        module.graph.lint()
    with pytest.raises(ValueError, match="Callable"):
        graph.create_node("call_function", "text")
    with pytest.raises(AssertionError):
        graph.create_node("call_nothing", "text")


def test_assertions_stay():
    class Asserts(fx.Tracer):
        trace_asserts = True

    scope = {}  # compiled by hand, since pytest rewrites assert statements
    exec("def checked(x):\n    assert x.shape[0] == 2\n    return x * 2", scope)
    module = fx.GraphModule(nn.Module(), Asserts().trace(scope["checked"]))
    assert not module.graph.eliminate_dead_code()
    assert module(strata.ones(2)).tolist() == [2, 2]
    with pytest.raises(AssertionError):
        module(strata.ones(3))


def test_interpreter_says_which_node_failed():
    traced = fx.symbolic_trace(lambda x: strata.matmul(x, x))
    with pytest.raises(RuntimeError, match="While executing %matmul"):
        fx.Interpreter(traced).run(strata.ones(2, 3))
    with pytest.raises(RuntimeError, match="Expected positional argument for parameter x"):
        fx.Interpreter(traced).run()


def test_generated_lines_are_in_tracebacks():
    import traceback

    traced = fx.symbolic_trace(lambda x: strata.matmul(x, x))
    with pytest.raises(RuntimeError) as caught:
        traced(strata.ones(2, 3))
    assert "matmul = strata.matmul(x, x)" in "".join(traceback.format_exception(caught.value))


def test_rewrites_with_filters():
    traced = fx.symbolic_trace(lambda x: strata.relu(x) + strata.relu(x * 2))
    done = fx.subgraph_rewriter.replace_pattern_with_filters(
        traced,
        lambda a: strata.relu(a),
        lambda a: strata.sigmoid(a),
        match_filters=[
            lambda match, graph, pattern: any(
                n.op == "call_function" for n in match.nodes_map[match.anchor].all_input_nodes
            )
        ],
    )
    assert len(done) == 1 and [n.target for n in done[0].replacements] == [strata.sigmoid]
    x = strata.tensor([-1.0, 2.0])
    assert strata.equal(traced(x), strata.relu(x) + strata.sigmoid(x * 2))


def test_a_pattern_whose_inner_value_is_used_elsewhere_stays():
    def net(x):
        y = strata.relu(x)
        return strata.neg(y) + y

    traced = fx.symbolic_trace(net)
    assert fx.replace_pattern(traced, lambda a: strata.neg(strata.relu(a)), lambda a: a) == []
    with pytest.raises(AssertionError, match="inputs"):
        fx.replace_pattern(traced, lambda a: strata.relu(a), lambda a, b: a)


def test_a_module_as_replacement_brings_its_parameters():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.by = nn.Parameter(strata.full((1,), 5.0))

        def forward(self, a):
            return a * self.by

    traced = fx.symbolic_trace(lambda x: strata.relu(x) + 1)
    fx.replace_pattern(traced, lambda a: strata.relu(a), Scaled())
    assert traced(strata.ones(2)).tolist() == [6, 6] and list(traced.state_dict()) == ["by"]


def test_fused_layers_give_the_same_results():
    from strata.fx.experimental.optimization import fuse

    for net, shape in (
        (nn.Sequential(nn.Conv1d(2, 4, 3, bias=False), nn.BatchNorm1d(4), nn.ReLU()), (3, 2, 8)),
        (nn.Sequential(nn.Conv3d(1, 2, 2), nn.BatchNorm3d(2, affine=False)), (2, 1, 4, 4, 4)),
        (nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)), (5, 3)),
    ):
        net.train()
        for _ in range(3):
            net(strata.randn(*shape) * 2 + 1)
        net.eval()
        x = strata.randn(*shape)
        fused = fuse(net)
        assert strata.allclose(fused(x), net(x), atol=1e-5)
        assert not any("BatchNorm" in type(m).__name__ for m in fused.modules())
    with pytest.raises(AssertionError, match="eval"):
        fuse(nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)))


def test_shapes_on_meta():
    traced = fx.symbolic_trace(nn.Sequential(nn.Linear(4, 3), nn.ReLU()).to("meta"))
    fx_passes = __import__("strata.fx.passes.shape_prop", fromlist=["ShapeProp"])
    fx_passes.ShapeProp(traced).propagate(strata.empty(7, 4, device="meta"))
    shapes = [tuple(n.meta["tensor_meta"].shape) for n in traced.graph.nodes]
    assert shapes == [(7, 4), (7, 3), (7, 3), (7, 3)]


def test_split_with_shared_values():
    from strata.fx.passes.split_module import split_module

    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.lin, self.w = nn.Linear(3, 3), nn.Parameter(strata.randn(3))

        def forward(self, x, y):
            a = self.lin(x)
            b = a * self.w + y
            return a + b, b

    net = Shared()
    names = {}
    parts = {"lin": 0, "mul": 1, "add": 1, "add_1": 2}
    split = split_module(fx.symbolic_trace(net), net, lambda n: parts[n.name], names)
    x, y = strata.randn(2, 3), strata.randn(2, 3)
    for ours, theirs in zip(split(x, y), net(x, y), strict=True):
        assert strata.equal(ours, theirs)
    assert names == {"submod_0.lin": "lin", "submod_1.w": "w"}
    with pytest.raises(RuntimeError, match="cycle"):
        split_module(fx.symbolic_trace(net), net, lambda n: n.name == "mul")


def test_constructions_are_recorded():
    class Pair(metaclass=fx.ProxyableClassMeta):
        def __init__(self, left, right):
            self.left, self.right = left, right

        def total(self):
            return self.left + self.right

    def uses(x, y):
        return Pair(x, y).total()

    traced = fx.symbolic_trace(uses)
    assert [n.target for n in traced.graph.nodes if n.op in ("call_function", "call_method")] == [Pair, "total"]
    assert traced(strata.ones(1), strata.ones(1)).item() == 2


def test_arguments_are_immutable():
    node = list(fx.symbolic_trace(lambda x: strata.cat([x, x], dim=0)).graph.nodes)[1]
    for change in (lambda: node.args[0].append(1), lambda: node.kwargs.update(dim=1), lambda: node.args[0].sort()):
        with pytest.raises(NotImplementedError, match="does not support mutation"):
            change()
    assert pickle.loads(pickle.dumps(fx.immutable_collections.immutable_list([1, 2]))) == [1, 2]


def test_a_walk_survives_changes():
    traced = fx.symbolic_trace(lambda x: strata.relu(x) + strata.relu(x))
    for node in traced.graph.nodes:
        if node.target is strata.relu:
            with traced.graph.inserting_after(node):
                new = traced.graph.call_function(strata.neg, (node.args[0],))
            node.replace_all_uses_with(new)
            traced.graph.erase_node(node)
    traced.recompile()
    assert traced(strata.ones(2)).tolist() == [-2, -2]
