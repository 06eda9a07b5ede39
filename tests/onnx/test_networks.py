"""Networks: what flows between nodes, graphs inside of nodes, functions, ops of the user, threads."""

import threading

import models
import numpy as np
import pytest
import strata
import strata.onnx
from models import BOOL, FLOAT, INT64, constant, node, value

import onnx
from onnx import helper


def load(*arguments, device="cpu", **named):
    return strata.onnx.load(models.data(*arguments, **named), device)


def test_a_model_is_a_module_with_names_and_types():
    net = load(
        [node("Add", ["x", "w"], ["y"])], [value("x", FLOAT, ["n", 3])], weights=[constant("w", np.ones(3, np.float32))]
    )
    assert net.inputs == [("x", "tensor(float)", ["n", 3], False)]
    assert [v.name for v in net.outputs] == ["y"]
    assert net(strata.zeros(2, 3)).tolist() == [[1, 1, 1], [1, 1, 1]]
    assert net(x=np.zeros((1, 3), np.float32)).tolist() == [[1, 1, 1]]
    assert "x: tensor(float)" in repr(net) and isinstance(net, strata.nn.Module)
    with pytest.raises(ValueError, match="no input 'z'"):
        net(z=strata.ones(3))
    with pytest.raises(TypeError, match="given twice"):
        net(strata.ones(3), x=strata.ones(3))


def test_initializers_are_defaults_of_inputs():
    net = load([node("Mul", ["x", "w"], ["y"])], ["x", "w"], weights=[constant("w", np.float32(3))])
    assert net(strata.ones(1)).tolist() == [3]
    assert net(strata.ones(1), strata.tensor(5.0)).tolist() == [5]
    assert net(strata.ones(1)).tolist() == [3]


@pytest.mark.parametrize("device", ["cpu", "vgpu"])
def test_graphs_see_the_values_around_them(device):
    branches = [models.graph([node(op, ["x", "w"], ["r"])], [], ["r"]) for op in ("Add", "Sub")]
    nodes = [
        node("ReduceSum", ["x"], ["s"], keepdims=0),
        node("Greater", ["s", "zero"], ["c"]),
        node("If", ["c"], ["y"], then_branch=branches[0], else_branch=branches[1]),
    ]
    weights = [constant("w", np.float32(10)), constant("zero", np.float32(0))]
    net = load(nodes, weights=weights, device=device)
    assert net(strata.tensor([1.0, 2.0])).tolist() == [11, 12]
    assert net(strata.tensor([-1.0, -2.0])).tolist() == [-11, -12]


def test_loops_carry_and_collect():
    body = models.graph(
        [node("Add", ["v", "x"], ["v2"]), node("Less", ["v2", "limit"], ["go"]), node("Identity", ["v2"], ["row"])],
        [value("i", INT64, []), value("c", BOOL, []), value("v")],
        ["go", "v2", "row"],
    )
    net = load(
        [node("Loop", ["m", "", "start"], ["last", "rows"], body=body)],
        ["x"],
        ["last", "rows"],
        [constant("m", np.int64(100)), constant("start", np.float32(0)), constant("limit", np.float32(5))],
    )
    last, rows = net(strata.tensor(2.0))
    assert last.item() == 6 and rows.tolist() == [2, 4, 6]


def test_loops_that_never_run_have_typed_results():
    body = models.graph(
        [node("Identity", ["c"], ["go"]), node("Cast", ["x"], ["row"], to=INT64)],
        [value("i", INT64, []), value("c", BOOL, [])],
        [value("go", BOOL, []), value("row", INT64, ["n", 2])],
    )
    net = load([node("Loop", ["m", ""], ["y"], body=body)], ["x", value("m", INT64, [])], [value("y", INT64)])
    for trips, shape in ((0, (0, 0, 2)), (3, (3, 5, 2))):
        y = net(strata.ones(5, 2), trips)
        assert tuple(y.shape) == shape and y.dtype == strata.int64


def test_functions_have_attributes_and_call_functions():
    ids = [helper.make_opsetid("", 18), helper.make_opsetid("f", 1)]

    def refer(made, name):
        made.attribute.append(onnx.AttributeProto(name=name, type=onnx.AttributeProto.FLOAT, ref_attr_name="slope"))
        return made

    leaky = refer(node("LeakyRelu", ["a"], ["b"]), "alpha")
    inner = helper.make_function("f", "Inner", ["a"], ["b"], [leaky], ids, ["slope"])
    outer_call = refer(node("Inner", ["a"], ["m"], domain="f"), "slope")
    outer = helper.make_function(
        "f", "Outer", ["a"], ["b", "a"], [outer_call, node("Neg", ["m"], ["b"])], ids, ["slope"]
    )
    net = load(
        [node("Outer", ["x"], ["y", "same"], domain="f", slope=0.5), node("Outer", ["x"], ["z"], domain="f")],
        ["x"],
        ["y", "z", "same"],
        functions=[inner, outer],
        opsets=ids[1:],
    )
    y, z, same = net(strata.tensor([-2.0, 3.0]))
    assert y.tolist() == [1, -3] and same.tolist() == [-2, 3]
    np.testing.assert_allclose(z.numpy(), [0.02, -3], rtol=1e-6)


def test_ops_of_the_user():
    seen = []

    @strata.onnx.register("my.domain", "Scale")
    def scale(x, y, factor=1.0, names=()):
        seen.append((y, names))
        return x * factor, x

    source = models.data(
        [node("Scale", ["x", ""], ["y", "same"], domain="my.domain", factor=3.0, names=["a", "b"])],
        outputs=["y", "same"],
        opsets=[helper.make_opsetid("my.domain", 1)],
    )
    y, same = strata.onnx.load(source)(strata.ones(2))
    assert y.tolist() == [3, 3] and same.tolist() == [1, 1] and seen == [(None, ["a", "b"])]

    strata.onnx.register("my.domain", "Fails", lambda x: 1 / 0)
    bad = models.data([node("Fails", ["x"], ["y"], domain="my.domain")], opsets=[helper.make_opsetid("my.domain", 1)])
    with pytest.raises(ZeroDivisionError):
        strata.onnx.load(bad)(strata.ones(2))
    strata.onnx.register("my.domain", "Text", lambda x: object())
    bad = models.data([node("Text", ["x"], ["y"], domain="my.domain")], opsets=[helper.make_opsetid("my.domain", 1)])
    with pytest.raises(TypeError, match="expected a tensor"):
        strata.onnx.load(bad)(strata.ones(2))


def test_sequences_optionals_and_texts():
    kinds = [helper.make_tensor_sequence_value_info("s", FLOAT, None), value("i", INT64, [])]
    net = load([node("SequenceAt", ["s", "i"], ["y"])], kinds)
    assert net([strata.ones(1), strata.zeros(2)], -1).tolist() == [0, 0]
    with pytest.raises(IndexError, match="outside of a sequence of 1"):
        net([strata.ones(1)], 1)
    texts = load([node("StringConcat", ["a", "b"], ["y"])], [value("a", 8), value("b", 8)], [value("y", 8)], opset=20)
    assert texts(np.array(["ä", "b"]), "!") == (8, (2,), ["ä!", "b!"])


def test_the_newest_version_that_the_model_has_is_used():
    x = strata.arange(6, dtype=strata.float32).reshape(1, 2, 3)
    old, new = (load([node("Softmax", ["x"], ["y"], axis=1)], opset=v)(x) for v in (12, 13))
    assert old.sum().item() == pytest.approx(1) and new.sum().item() == pytest.approx(3)


def test_threads_get_the_bits_of_one():
    rng = np.random.default_rng(0)
    weights = [constant(f"w{i}", rng.standard_normal((64, 64)).astype(np.float32)) for i in range(3)]
    nodes = [node("MatMul", [f"h{i}" if i else "x", f"w{i}"], [f"m{i}"]) for i in range(3)]
    nodes = [n for i in range(3) for n in (nodes[i], node("Tanh", [f"m{i}"], ["y" if i == 2 else f"h{i + 1}"]))]
    net = load(nodes, weights=weights)
    inputs = [strata.tensor(rng.standard_normal((8, 64)).astype(np.float32)) for _ in range(8)]
    expected = [net(x) for x in inputs]
    wrong = []

    def work(k):
        for _ in range(50):
            if not strata.equal(net(inputs[k]), expected[k]):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_runs_keep_no_memory():
    net = load(
        [node("MatMul", ["x", "w"], ["a"]), node("Relu", ["a"], ["y"])],
        weights=[constant("w", np.ones((32, 32), np.float32))],
    )
    x = strata.ones(32, 32)
    for _ in range(10):
        net(x)
    before = strata.memory_stats()["allocated_bytes"]
    for _ in range(10_000):
        net(x)
    assert strata.memory_stats()["allocated_bytes"] == before


def test_large_models_are_imported():
    count = 100_000
    nodes = [node("Relu", [f"v{i}" if i else "x"], [f"v{i + 1}" if i + 1 < count else "y"]) for i in range(count)]
    assert load(nodes).about["nodes"] == count
