"""Engines: results, profiles, memory, threads, what cannot be a graph, options."""

import pickle
import threading

import models
import numpy as np
import pytest
import strata
from models import BOOL, FLOAT, INT64, constant, node, value
from strata import engine, nn

DEVICES = ["cpu", "vgpu"]


def network(seed=0):
    strata.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8 * 16, 5)
    ).eval()


def images(n, seed=0):
    return strata.randn(n, 3, 8, 8, generator=strata.Generator().manual_seed(seed))


def built(*arguments, device="cpu", options=None, **named):
    return engine.build(models.data(*arguments, **named), device=device, **(options or {}))


def same(got, want):
    assert got.shape == want.shape and got.dtype == want.dtype
    strata.testing.assert_close(got.cpu(), want.cpu(), rtol=1e-5, atol=1e-6)


# --- results ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("device", DEVICES)
def test_a_compiled_module_gives_its_results_for_all_sizes(device):
    net = network().to(device)
    fast = engine.compile(
        net, [engine.Input(min_shape=(1, 3, 8, 8), opt_shape=(2, 3, 8, 8), max_shape=(9, 3, 8, 8))], level=0
    )
    for n in (1, 2, 9, 2, 2):
        x = images(n, n).to(device)
        same(fast(x.cpu()), net(x))  # inputs may be on the host
        same(fast(x), net(x))
    assert fast._context.last_mode == ("graph" if device == "cpu" else "cuda graph")


@pytest.mark.parametrize("device", DEVICES)
def test_outputs_are_written_where_they_are_wanted(device):
    net = network().to(device)
    fast = engine.compile(net, [(2, 3, 8, 8)], level=0)
    name = fast.outputs[0].name
    for x in (images(2, 1), images(2, 2)):
        want = net(x.to(device)).cpu()
        for place in (
            strata.zeros(2, 5, device=device),
            strata.zeros(2, 5),
            strata.zeros(5, 2).t(),
            strata.zeros(3, 6)[1:, 1:],
        ):
            version = place._version
            (result,) = fast.run([x], {name: place})
            assert result is place and place._version > version
            same(place, want)
    with pytest.raises(ValueError, match=r"output 0 is float32\[2, 6\]; the output is float32\[2, 5\]"):
        fast.run([x], {name: strata.zeros(2, 6)})
    with pytest.raises(ValueError, match="requires a gradient"):
        fast.run([x], {name: strata.zeros(2, 5, requires_grad=True)})
    with pytest.raises(ValueError, match="no output 'z'"):
        fast.run([x], {"z": strata.zeros(2, 5)})


def test_an_output_may_be_the_memory_of_an_input():
    fast = engine.compile(lambda x: x.flip(0) + x, [(64,)], level=0)
    for _ in range(2):
        x = strata.arange(64.0)
        want = x.flip(0) + x
        fast.run([x], {"output_0": x})
        assert x.equal(want)


def test_inputs_may_have_any_strides_and_alignment():
    net = network()
    fast = engine.compile(net, [(2, 3, 8, 8)], level=0)
    x = images(2)
    want = net(x)
    same(fast(x.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)), want)
    buffer = strata.zeros(x.numel() + 1)[1:]
    buffer.copy_(x.flatten())
    same(fast(buffer.view(2, 3, 8, 8)), want)
    same(fast(x.numpy()), want)


@pytest.mark.parametrize("device", DEVICES)
def test_results_that_are_inputs_constants_or_the_same(device):
    table = strata.arange(3.0, device=device)
    fast = engine.compile(lambda x: (x, x.t(), table, x + 1, (x + 1) * 1), [(2, 3)], level=0, device=device)
    for seed in range(3):
        x = strata.randn(2, 3, generator=strata.Generator().manual_seed(seed)).to(device)
        results = fast(x)
        for got, want in zip(results, (x, x.t(), table, x + 1, x + 1), strict=True):
            same(got, want)
        results[0].fill_(7)
        results[2].fill_(7)
        assert not x.eq(7).any() and table.tolist() == [0, 1, 2]


def test_sizes_of_zero_and_one():
    fast = engine.compile(
        nn.Linear(4, 3).eval(), [engine.Input(min_shape=(0, 4), opt_shape=(2, 4), max_shape=(8, 4))], level=0
    )
    for n in (0, 1, 5):
        assert fast(strata.ones(n, 4)).shape == (n, 3)


def test_writes_inside_a_program_are_no_writes_to_inputs():
    def program(x):
        y = x.clone()
        y[:, 0] = 5
        y.mul_(2)
        return y.cumsum(1), y

    fast = engine.compile(program, [(3, 4)], level=0)
    for seed in range(3):
        x = strata.randn(3, 4, generator=strata.Generator().manual_seed(seed))
        before = x.clone()
        for got, want in zip(fast(x), program(x), strict=True):
            same(got, want)
        assert x.equal(before)


# --- networks whose structure depends on values ----------------------------------------------------------------------
@pytest.mark.parametrize("device", DEVICES)
def test_shapes_that_depend_on_values_are_interpreted(device):
    nodes = [node("NonZero", ["x"], ["at"]), node("Shape", ["at"], ["n"]), node("Expand", ["one", "n"], ["y"])]
    fast = built(nodes, [value("x", FLOAT, [4])], weights=[constant("one", np.float32(1))], device=device)
    for x in ([0, 1, 2, 0], [0, 0, 0, 9], [1, 1, 1, 1], [0, 0, 0, 0]):
        got = fast(strata.tensor(x, dtype=strata.float32))
        assert got.shape == (1, sum(v != 0 for v in x))
    assert fast._context.last_mode == "interpreter"
    assert "depends on the values" in fast.describe([strata.ones(4)])["interpreted"]


@pytest.mark.parametrize("device", DEVICES)
def test_branches_by_values_are_taken_in_each_run(device):
    branches = [models.graph([node(op, ["x", "x"], ["r"])], [], ["r"]) for op in ("Add", "Sub")]
    nodes = [
        node("ReduceSum", ["x"], ["s"], keepdims=0),
        node("Greater", ["s", "zero"], ["c"]),
        node("If", ["c"], ["y"], then_branch=branches[0], else_branch=branches[1]),
    ]
    fast = built(nodes, [value("x", FLOAT, [2])], weights=[constant("zero", np.float32(0))], device=device)
    for _ in range(2):
        assert fast(strata.tensor([1.0, 2.0])).tolist() == [2, 4]
        assert fast(strata.tensor([-1.0, -2.0])).tolist() == [0, 0]
    assert fast._context.last_mode == "interpreter"


def test_what_constants_and_sizes_decide_is_decided_once():
    branches = [models.graph([node(op, ["x"], ["r"])], [], ["r"]) for op in ("Neg", "Abs")]
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "zero"], ["n"]),
        node("Greater", ["n", "three"], ["large"]),
        node("If", ["large"], ["z"], then_branch=branches[0], else_branch=branches[1]),
        node("Concat", ["n1", "minus"], ["shape"], axis=0),
        node("Unsqueeze", ["n", "zeros"], ["n1"]),
        node("Reshape", ["z", "shape"], ["y"]),
    ]
    nodes[4], nodes[5] = nodes[5], nodes[4]
    weights = [
        constant("zero", np.int64(0)),
        constant("three", np.int64(3)),
        constant("zeros", np.array([0])),
        constant("minus", np.array([-1])),
    ]
    fast = built(nodes, [value("x", FLOAT, ["n", 2, 2])], weights=weights)
    for n in (1, 3, 4, 7):
        x = strata.randn(n, 2, 2)
        same(fast(x), (-x if n > 3 else x.abs()).reshape(n, 4))
        assert fast._context.last_mode == "graph"
        assert fast.describe([x])["nodes"] == 2


def test_errors_are_those_of_the_network():
    fast = built([node("Gather", ["x", "i"], ["y"])], [value("x", FLOAT, [3]), value("i", INT64, [1])], outputs=["y"])
    x = strata.arange(3.0)
    assert fast(x, strata.tensor([2])).tolist() == [2]
    with pytest.raises(IndexError):
        fast(x, strata.tensor([5]))
    assert fast(x, strata.tensor([1])).tolist() == [1]


def test_integers_that_a_sample_cannot_have():
    fast = built([node("Mod", ["x", "d"], ["y"])], [value("x", INT64, [2]), value("d", INT64, [2])])
    assert fast(strata.tensor([7, 8]), strata.tensor([4, 3])).tolist() == [3, 2]
    assert fast._context.last_mode == "graph"


def test_random_numbers_are_drawn_in_each_run():
    fast = engine.compile(lambda x: x + strata.rand(3), [(3,)], level=0)
    strata.manual_seed(3)
    first, second = fast(strata.zeros(3)), fast(strata.zeros(3))
    assert not first.equal(second)
    strata.manual_seed(3)
    assert fast(strata.zeros(3)).equal(first)


def test_what_is_no_tensor_passes():
    fast = built([node("SequenceConstruct", ["x", "x"], ["y"])], [value("x", FLOAT, [2])], outputs=["y"])
    (items,) = fast.run([strata.ones(2)])
    assert [t.tolist() for t in items] == [[1, 1], [1, 1]]


def test_ops_of_the_user():
    @strata.onnx.register("engine.test", "Twice")
    def twice(x):
        return x * 2

    fast = built(
        [node("Twice", ["x"], ["y"], domain="engine.test")],
        [value("x", FLOAT, [2])],
        opsets=[models.helper.make_opsetid("engine.test", 1)],
    )
    assert fast(strata.ones(2)).tolist() == [2, 2]


# --- inputs and profiles ---------------------------------------------------------------------------------------------
def test_sizes_outside_of_all_profiles_are_refused():
    fast = built(
        [node("Relu", ["x"], ["y"])],
        [value("x", FLOAT, ["n", 4])],
        options={"profiles": [{"x": ((1, 4), (2, 4), (4, 4))}, {"x": ((16, 4), (16, 4), (32, 4))}]},
    )
    for n in (1, 4, 16, 32):
        assert fast(strata.ones(n, 4)).shape == (n, 4)
    for n in (0, 5, 15, 33):
        with pytest.raises(
            ValueError, match=rf"x: {n}x4.*in no profile(.|\n)*1x4 to 4x4 \(tuned for 2x4\)(.|\n)*16x4 to 32x4"
        ):
            fast(strata.ones(n, 4))


@pytest.mark.parametrize(
    ("profile", "message"),
    [
        ({"z": ((1,), (1,), (1,))}, "names 'z', which is no input"),
        ({"x": ((2, 4), (1, 4), (4, 4))}, "expected min <= opt <= max"),
        ({"x": ((1, 4), (1, 4), (4, 5))}, "dimension 1 of 'x' is 4 in the network"),
        ({"x": ((1,), (1,), (4,))}, "has 1 dimensions, the input 2"),
        ({"x": ((1, 4), (1, 4, 4), (4, 4))}, "expected equally many"),
        ({"x": ((-1, 4), (1, 4), (4, 4))}, "expected min <= opt <= max"),
        ({"x": ((1, 4), (1, 4))}, r"expected \(min, opt, max\)"),
    ],
)
def test_profiles_that_do_not_fit(profile, message):
    with pytest.raises(ValueError, match=message):
        built([node("Relu", ["x"], ["y"])], [value("x", FLOAT, ["n", 4])], options={"profiles": profile})


def test_inputs_that_do_not_fit():
    fast = built([node("Add", ["x", "z"], ["y"])], [value("x", FLOAT, ["n", 4]), value("z", FLOAT, [4])])
    x, z = strata.ones(2, 4), strata.ones(4)
    with pytest.raises(TypeError, match=r"input 'x' is a tensor int64\[2, 4\]; expected a tensor of float"):
        fast(x.long(), z)
    with pytest.raises(ValueError, match=r"input 'x' has the shape \[2, 5\]; the network has x: float\[n, 4\]"):
        fast(strata.ones(2, 5), z)
    with pytest.raises(ValueError, match="input 'z' is missing"):
        fast(x)
    with pytest.raises(ValueError, match="no input 'q'"):
        fast(x, z, q=x)
    with pytest.raises(TypeError, match="given twice"):
        fast(x, z, x=x)
    with pytest.raises(TypeError, match="3 inputs were given"):
        fast(x, z, z)
    same(fast(x.requires_grad_(), z), strata.full((2, 4), 2.0))
    assert not fast(x, z).requires_grad


def test_defaults_of_optional_inputs():
    fast = built(
        [node("Mul", ["x", "w"], ["y"])], [value("x", FLOAT, [1]), "w"], weights=[constant("w", np.float32(3))]
    )
    for _ in range(2):
        assert fast(strata.ones(1)).tolist() == [3]
        assert fast(strata.ones(1), strata.tensor(5.0)).tolist() == [5]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"level": 6}, ValueError),
        ({"level": -1}, ValueError),
        ({"most_specializations": 0}, ValueError),
        ({"speed": 1}, TypeError),
    ],
)
def test_options_that_do_not_fit(options, error):
    with pytest.raises(error):
        built([node("Relu", ["x"], ["y"])], [value("x", FLOAT, [4])], options=options)


def test_specialisations_are_bounded():
    fast = built([node("Relu", ["x"], ["y"])], [value("x", FLOAT, ["n"])], options={"most_specializations": 3})
    for n in list(range(1, 12)) * 2:
        assert fast(-strata.ones(n)).tolist() == [0] * n
    assert len(fast.describe()["graphs"]) <= 3


@pytest.mark.parametrize("device", DEVICES)
def test_graphs_share_what_passes_compute_of_weights(device):
    net = network().to(device)
    shapes = engine.Input(min_shape=(1, 3, 8, 8), opt_shape=(2, 3, 8, 8), max_shape=(9, 3, 8, 8))
    fast = engine.compile(net, [shapes], level=1)
    bytes_of_one = fast.describe()["constant_bytes"]
    for n in range(1, 10):
        same(fast(images(n, n).to(device)), net(images(n, n).to(device)))
    about = fast.describe()
    assert len(about["graphs"]) == 9 and about["constant_bytes"] <= 1.5 * bytes_of_one


def test_progress_is_told_and_can_stop_the_build():
    seen = []
    built(
        [node("Relu", ["x"], ["y"])],
        [value("x", FLOAT, [4])],
        options={"progress": lambda what, done: seen.append(done)},
    )
    assert seen[-1] == 1 and seen == sorted(seen)
    with pytest.raises(RuntimeError, match="was stopped"):
        built([node("Relu", ["x"], ["y"])], [value("x", FLOAT, [4])], options={"progress": lambda what, done: False})


# --- modules ---------------------------------------------------------------------------------------------------------
def test_weights_are_those_of_the_build():
    net = nn.Linear(2, 2).eval()
    fast = engine.compile(net, [(1, 2)], level=0)
    x = strata.ones(1, 2)
    want = net(x)
    with strata.no_grad():
        net.weight.fill_(0)
    same(fast(x), want)


def test_sizes_that_must_be_equal_and_sizes_that_need_not():
    both = engine.Input(min_shape=(1, 3), opt_shape=(2, 3), max_shape=(9, 3))
    added = engine.compile(lambda a, b: a + b, [both, both], level=0)
    assert added(strata.ones(5, 3), strata.ones(5, 3)).shape == (5, 3)
    outer = engine.compile(lambda a, b: a @ b.t(), [both, both], level=0)
    assert outer(strata.ones(5, 3), strata.ones(2, 3)).shape == (5, 2)


def test_a_module_in_training_mode_is_refused():
    with pytest.raises(ValueError, match=r"training mode; call eval\(\) first"):
        engine.compile(nn.Linear(2, 2), [(1, 2)])
    with pytest.raises(TypeError, match="inputs are missing"):
        engine.compile(nn.Linear(2, 2).eval())
    with pytest.raises(ValueError, match="enabled_precisions has"):
        engine.compile(nn.Linear(2, 2).eval(), [(1, 2)], enabled_precisions={strata.float64})
    with pytest.raises(ValueError, match=r"the module is on cpu, and device is vgpu.*move it with"):
        engine.compile(nn.Linear(2, 2).eval(), [(1, 2)], device="vgpu")


def test_programs_that_write_to_what_they_are_given_are_refused():
    with pytest.raises(NotImplementedError, match="only computes results"):
        engine.compile(lambda x: x.add_(1), [(2,)])


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"shape": (1,), "min_shape": (1,)},
        {"min_shape": (1,), "opt_shape": (2,)},
        {"min_shape": (2,), "opt_shape": (1,), "max_shape": (3,)},
    ],
)
def test_inputs_of_compile_that_do_not_fit(arguments):
    with pytest.raises(ValueError, match="Input: "):
        engine.Input(**arguments)


# --- memory and threads ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("device", DEVICES)
def test_runs_take_no_new_memory(device):
    net = network().to(device)
    fast = engine.compile(net, [(2, 3, 8, 8)], level=0, cuda_graphs=False)
    x, place = images(2).to(device), strata.zeros(2, 5, device=device)
    name = fast.outputs[0].name

    def allocations():
        on_device = strata.vgpu.memory_stats()["allocated_bytes.all.peak"] if device == "vgpu" else 0
        host = strata.memory_stats()
        return host["system_allocations"], host["reserved_bytes"], on_device, fast._context.memory

    for _ in range(2):
        fast.run([x], {name: place})
    before = allocations()
    for _ in range(20):
        fast.run([x], {name: place})
    assert allocations() == before


def test_eight_threads_give_the_bits_of_one():
    net = network()
    fast = engine.compile(
        net, [engine.Input(min_shape=(1, 3, 8, 8), opt_shape=(2, 3, 8, 8), max_shape=(9, 3, 8, 8))], level=0
    )
    inputs = [images(1 + i % 9, i) for i in range(40)]
    want = [fast(x) for x in inputs]
    wrong = []

    def work(start):
        context = fast.create_context()
        for k in range(120):
            i = (start * 7 + k) % len(inputs)
            if not context(inputs[i]).equal(want[i]):
                wrong.append((start, i))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []


def test_threads_that_share_a_context_wait_for_each_other():
    net = network()
    fast = engine.compile(
        net, [engine.Input(min_shape=(1, 3, 8, 8), opt_shape=(2, 3, 8, 8), max_shape=(9, 3, 8, 8))], level=0
    )
    context = fast.create_context()
    inputs = [images(1 + i % 4, i) for i in range(8)]
    want = [context(x) for x in inputs]
    wrong = []

    def work(i):
        for _ in range(60):
            wrong.extend([i] * (not context(inputs[i]).equal(want[i])))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []


def test_outputs_that_cannot_be_written():
    fast = engine.compile(network(), [(2, 3, 8, 8)], level=0)
    name = fast.outputs[0].name
    with pytest.raises(RuntimeError):
        fast.run([images(2)], {name: strata.zeros(1, 5).expand(2, 5)})
    place = strata.zeros(2, 5)
    fast.run([images(2)], {name: place})
    same(place, fast(images(2)))


# --- reports ---------------------------------------------------------------------------------------------------------
def test_reports_name_the_layers():
    fast = engine.compile(network(), [(2, 3, 8, 8)], level=1)
    profile = fast.profile(times=2, form="json")
    assert all(layer["milliseconds"] >= 0 for layer in profile["layers"])
    (convolution,) = [layer for layer in profile["layers"] if "conv" in layer["op"]]
    assert convolution["flops"] == 2 * 2 * 8 * 8 * 8 * 27 and convolution["kernel"]
    assert all(r["reason"] for r in convolution["rejected"])
    assert "convolution" in fast.profile(times=1)
    about = fast.describe(fast.sample_inputs())
    assert (
        about["kernels"] + about["views"] + about["calls"] == about["nodes"]
        and about["arena_bytes"] >= about["least_bytes"]
    )


def test_accuracy_of_an_exact_engine():
    fast = engine.compile(network(), [(2, 3, 8, 8)], level=0)
    rows = fast.accuracy([images(2)], form="json")["layers"]
    assert rows and all(row["max_error"] <= 1e-5 and row["first_nan"] == -1 for row in rows)


def test_names_of_files_stay_text():
    name = "<script>alert(1)</script>\x00\x1b[31m"
    fast = built([node("Relu", [name], ["y"], name=name)], [value(name, FLOAT, [2])])
    page = fast.profile({name: strata.ones(2)}, times=1, form="html", title=name)
    assert "<script>" not in page and "&lt;script&gt;" in page and "\x00" not in page
    text = fast.profile({name: strata.ones(2)}, times=1)
    assert "\x1b" not in text and "\x00" not in text
    assert fast.describe()["inputs"][0]["name"].startswith("<script>")


def test_engines_can_be_pickled():
    net = network()
    fast = engine.compile(net, [(2, 3, 8, 8)], level=0)
    again = pickle.loads(pickle.dumps(fast))
    assert again(images(2)).equal(fast(images(2)))


def test_bools_go_in_and_out():
    fast = built([node("Not", ["x"], ["y"])], [value("x", BOOL, [2])], outputs=[value("y", BOOL, [2])])
    assert fast(strata.tensor([True, False])).tolist() == [False, True]
