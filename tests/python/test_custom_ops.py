"""strata.library: custom ops in Python, with kernels per device, shape rules and gradients."""

import copy
import pickle
import threading
from collections.abc import Sequence
from typing import Optional

import numpy as np
import pytest
import strata
from gpu_tensors import DEVICE, host, on_gpu
from processes import run as run_process
from strata import Tensor, cuda, library
from strata.autograd import gradcheck, gradgradcheck

SINE = r"""
__global__ void sine(const float* x, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = sinf(x[i]);
}
"""


@library.custom_op("tests::numpy_sin", mutates_args=(), device_types="cpu")
def numpy_sin(x: Tensor) -> Tensor:
    """The sine of each element."""
    return strata.from_numpy(np.sin(x.detach().numpy()))


@numpy_sin.register_kernel("cuda")
def _(x):
    x = x.contiguous()
    out = strata.empty_like(x)
    if x.numel():
        cuda.RawKernel(SINE, "sine")(-(-x.numel() // 128), 128, (x, out, x.numel()))
    return out


@numpy_sin.register_fake
def _(x):
    return strata.empty_like(x)


numpy_sin.register_autograd(
    lambda ctx, grad: grad * ctx.saved_tensors[0].cos(),
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),
)


@pytest.mark.parametrize("shape", [(), (0,), (1,), (7,), (3, 5), (0, 4)], ids=str)
@pytest.mark.parametrize("device", ["cpu", DEVICE])
def test_an_op_with_kernels_per_device(shape, device):
    x = on_gpu(*shape).to(device).requires_grad_()
    y = numpy_sin(x)
    assert y.device.type == device and y.requires_grad
    np.testing.assert_allclose(host(y), np.sin(host(x)), rtol=1e-6, atol=1e-6)
    y.sum().backward()
    np.testing.assert_allclose(host(x.grad), np.cos(host(x)), rtol=1e-6, atol=1e-6)
    meta = strata.ops.tests.numpy_sin(x.to("meta"))
    assert meta.shape == x.shape and meta.device.type == "meta"


def test_gradients_of_gradients():
    x = strata.linspace(-2, 2, 5, dtype=strata.float64, requires_grad=True)
    assert gradcheck(numpy_sin, (x,)) and gradgradcheck(numpy_sin, (x,))


def test_non_contiguous_inputs():
    x = on_gpu(6, 4)
    for part in (x.t(), x[::2, 1:], x[:, :1].expand(6, 3)):
        np.testing.assert_allclose(host(numpy_sin(part)), np.sin(host(part)), rtol=1e-6, atol=1e-6)


# --- schemas ---------------------------------------------------------------------------------------------------------


def test_schemas_of_functions():
    def f(
        x: Tensor,
        y: Optional[Tensor],  # noqa: UP045
        z: Sequence[Tensor],
        w: "list[Tensor | None]",
        i: int,
        b: bool = True,
        s: str = "a",
        d: strata.dtype = strata.float32,
        *,
        sizes: Sequence[int] = (1, 2),
        scale: float = 2,
        number: int | float = 1,
        where: strata.device | None = None,
    ) -> tuple[Tensor, Tensor]:
        pass

    expected = (
        "(Tensor x, Tensor? y, Tensor[] z, Tensor?[] w, int i, bool b=True, str s='a', dtype d=float32, *, "
        "int[] sizes=[1, 2], float scale=2.0, Scalar number=1, device? where=None) -> (Tensor, Tensor)"
    )
    found = library.infer_schema(f, mutates_args=())
    assert found == expected
    assert str(library._schema.of_text(found)) == found  # reads what it prints
    assert library.infer_schema(f, mutates_args={"x", "z"}).startswith("(Tensor(a0!) x, Tensor? y, Tensor(a1!)[] z,")
    assert library.infer_schema(f, mutates_args="unknown").startswith("(Tensor(a0!) x, Tensor(a1!)? y, Tensor(a2!)[] z")


@pytest.mark.parametrize(
    ("function", "mutates", "text"),
    [
        (lambda x: x, (), "parameter x must have a type annotation"),
        (eval("lambda *x: x"), (), r"\*args"),
    ],
)
def test_functions_without_annotations(function, mutates, text):
    with pytest.raises(ValueError, match=text):
        library.infer_schema(function, mutates_args=mutates)


def with_annotations(**kinds):
    def f(x):
        pass

    f.__annotations__ = {**kinds}
    return f


@pytest.mark.parametrize(
    ("kinds", "mutates", "text"),
    [
        (dict(x=Tensor), (), "annotation of its result"),
        (dict(x=dict, **{"return": Tensor}), (), "supported are Tensor"),
        (dict(x=Sequence[Sequence[int]], **{"return": Tensor}), (), "supported are"),
        (dict(x=int | str, **{"return": Tensor}), (), "supported are"),
        (dict(x="NoSuchName", **{"return": Tensor}), (), "cannot be evaluated"),
        (dict(x=Tensor, **{"return": str}), (), "results are Tensor"),
        (dict(x=Tensor, **{"return": Tensor | None}), (), "results are Tensor"),
        (dict(x=int, **{"return": Tensor}), ("x",), "only tensors can be mutated"),
        (dict(x=Tensor, **{"return": Tensor}), ("y",), "'y', which is not a parameter"),
        (dict(x=Tensor, **{"return": Tensor}), "x", "must be a tuple of names"),
    ],
)
def test_wrong_annotations(kinds, mutates, text):
    with pytest.raises(ValueError, match=text):
        library.custom_op("tests::wrong", with_annotations(**kinds), mutates_args=mutates)
    assert not hasattr(strata.ops.tests, "wrong")


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ("", "expected"),
        ("x", "expected"),
        ("Tensor x -> Tensor", "expected"),
        ("(Tensor x)", "expected"),
        ("(Tensor) -> Tensor", "'type name'"),
        ("(Tensor x, Tensor x) -> Tensor", "twice"),
        ("(Zork x) -> Tensor", "unknown type 'Zork'"),
        ("(Tensor(a) x) -> Tensor", "is Tensor\\(a!\\)"),
        ("(int(a!) x) -> Tensor", "is Tensor\\(a!\\)"),
        ("(int x=abc) -> Tensor", "'abc' is no default"),
        ("(int x=1.5) -> Tensor", "no default"),
        ("(dtype x=zork) -> Tensor", "no default"),
        ("(int x=1, int y) -> Tensor", "without a default"),
        ("(Tensor x) -> Zork", "unknown type"),
        ("(Tensor x) -> str", "results are"),
        ("(Tensor x) -> (Tensor[], Tensor)", "results are"),
        ("(Tensor x,, Tensor y) -> Tensor", "'type name'"),
        ("(Tensor \0x) -> Tensor", "'type name'|unknown type"),
    ],
)
def test_wrong_schemas(schema, text):
    with pytest.raises(ValueError, match=text):
        library.define("tests::wrong", schema)


@pytest.mark.parametrize("name", ["", "f", "::f", "a::", "a::b::c", "a.b", "a::f.out", "1a::f", "a::f\n", "ä b::f"])
def test_wrong_names(name):
    with pytest.raises(ValueError, match="namespace::name"):
        library.custom_op(name, lambda: None, mutates_args=())
    with pytest.raises(TypeError, match="must be a str"):
        library.custom_op(None, lambda: None, mutates_args=())


# --- arguments -------------------------------------------------------------------------------------------------------


@library.custom_op(
    "tests::echo",
    mutates_args=(),
    schema="(Tensor x, Tensor?[] t, int i, float f=1.5, bool b=False, str s='q', int[]? l=None, *, dtype? d=None, "
    "device v='cpu', Scalar n=2) -> Tensor",
)
def echo(x, t, i, f, b, s, l, *, d, v, n):
    seen.append((t, i, f, b, s, l, d, v, n))
    return x.clone()


seen = []


def test_values_arrive_converted_and_with_defaults():
    x = strata.ones(2)
    seen.clear()
    echo(x, [None, x], np.int64(3))
    echo(x, (), 4, 2, True, s="z", l=(1, np.int32(2)), d=strata.int8, v="vgpu", n=0.5)
    assert seen[0] == ([None, x], 3, 1.5, False, "q", None, None, strata.device("cpu"), 2)
    assert seen[1] == ([], 4, 2.0, True, "z", [1, 2], strata.int8, strata.device("vgpu"), 0.5)
    assert type(seen[1][2]) is float and type(seen[0][1]) is int


@pytest.mark.parametrize(
    ("args", "kwargs", "text"),
    [
        ((), {}, "missing required argument 'x'"),
        ((1, [], 1), {}, "'x' must be Tensor, not int"),
        ((None, [], 1), {}, "'x' must be Tensor, not NoneType"),
        (("x", None, 1), {}, "'t' must be Tensor\\?\\[\\], not NoneType"),
        (("x", ["x", 1], 1), {}, "'t' must be Tensor\\?\\[\\], not int"),
        (("x", [], 1.0), {}, "'i' must be int, not float"),
        (("x", [], "1"), {}, "'i' must be int"),
        (("x", [], 1, "2"), {}, "'f' must be float, not str"),
        (("x", [], 1, 2, 1), {}, "'b' must be bool, not int"),
        (("x", [], 1), {"s": b"q"}, "'s' must be str, not bytes"),
        (("x", [], 1), {"l": 3}, "'l' must be int\\[\\]\\?, not int"),
        (("x", [], 1), {"l": [None]}, "'l' must be"),
        (("x", [], 1), {"d": "int8"}, "'d' must be dtype\\?, not str"),
        (("x", [], 1), {"v": 1}, "'v' must be device, not int"),
        (("x", [], 1), {"n": 1j}, "'n' must be Scalar, not complex"),
        (("x", [], 1), {"zork": 1}, "unexpected keyword argument 'zork'"),
        (("x", [], 1), {"x": 1}, "multiple values for argument 'x'"),
        (("x", [], 1, 1.0, True, "s", [], strata.int8), {}, "takes 7 positional arguments but 8 were given"),
    ],
)
def test_wrong_arguments(args, kwargs, text):
    x = strata.ones(2)
    args = [x if a == "x" else [x if b == "x" else b for b in a] if isinstance(a, list) else a for a in args]
    with pytest.raises(TypeError, match=text):
        echo(*args, **kwargs)


# --- results ---------------------------------------------------------------------------------------------------------


def op_returning(value, schema="(Tensor x) -> Tensor"):
    return library.custom_op("tests::returning", lambda x: value(x), mutates_args=(), schema=schema)


@pytest.mark.parametrize(
    ("value", "schema", "text"),
    [
        (lambda x: None, "(Tensor x) -> Tensor", "returned NoneType, but its schema says Tensor"),
        (lambda x: 1.0, "(Tensor x) -> Tensor", "returned float"),
        (lambda x: (x.clone(),), "(Tensor x) -> Tensor", "a tuple of Tensor"),
        (lambda x: x.clone(), "(Tensor x) -> (Tensor, Tensor)", "returned Tensor"),
        (lambda x: (x.clone(),), "(Tensor x) -> (Tensor, Tensor)", "says \\(Tensor, Tensor\\)"),
        (lambda x: (x.clone(), 1), "(Tensor x) -> (Tensor, Tensor)", "a tuple of Tensor, int"),
        (lambda x: x.clone(), "(Tensor x) -> Tensor[]", "says Tensor\\[\\]"),
        (lambda x: [x.clone(), None], "(Tensor x) -> Tensor[]", "Tensor, NoneType"),
        (lambda x: x.clone(), "(Tensor x) -> ()", "says \\(\\)"),
        (lambda x: x.clone(), "(Tensor x) -> int", "says int"),
    ],
)
def test_results_are_checked(value, schema, text):
    with pytest.raises(TypeError, match=text):
        op_returning(value, schema)(strata.ones(2))


def test_results_that_share_memory_are_refused():
    for value in (lambda x: x, lambda x: x[1:], lambda x: x.detach(), lambda x: x.view(-1)):
        for x in (strata.ones(3), on_gpu(3), strata.ones(3, requires_grad=True)):
            with pytest.raises(RuntimeError, match="shares the memory of its argument 'x'"):
                op_returning(value)(x)
    twice = op_returning(lambda x: (lambda y: (y, y[:1]))(x.clone()), "(Tensor x) -> (Tensor, Tensor)")
    with pytest.raises(RuntimeError, match="memory of another result"):
        twice(strata.ones(3))
    empty = op_returning(lambda x: strata.empty(0))
    assert empty(strata.empty(0)).numel() == 0


@pytest.mark.parametrize("device", ["cpu", DEVICE])
def test_several_results_lists_and_numbers(device):
    @library.custom_op("tests::parts", mutates_args=())
    def parts(x: Tensor, others: Sequence[Tensor], by: float) -> tuple[Tensor, Tensor, int]:
        return x * by + sum(others), (x > 0).to(strata.int64), len(others)

    def setup(ctx, inputs, output):
        x, others, by = inputs
        ctx.by, ctx.needs = by, ctx.needs_input_grad
        assert output[2] == len(others)

    def backward(ctx, grad, of_integers, of_count):
        assert of_count is None and ctx.needs == (True, [True, False], False)
        return grad * ctx.by, [grad, None], None

    parts.register_autograd(backward, setup_context=setup)
    x, a, b = (on_gpu(4, seed=s).to(device) for s in range(3))
    x.requires_grad_()
    a.requires_grad_()
    y, positive, count = parts(x, [a, b], 3.0)
    assert count == 2 and y.requires_grad and not positive.requires_grad
    y.sum().backward()
    assert x.grad.tolist() == [3] * 4 and a.grad.tolist() == [1] * 4

    @library.custom_op("tests::split", mutates_args=())
    def split(x: Tensor) -> list[Tensor]:
        return [x[:1].clone(), x[1:].clone()]

    split.register_autograd(lambda ctx, grads: strata.cat(grads))
    x.grad = None
    first, second = split(x)
    (first.sum() + 2 * second.sum()).backward()
    assert x.grad.tolist() == [1, 2, 2, 2]
    x.grad = None
    split(x)[1].sum().backward()  # of the other part the gradient is zero
    assert x.grad.tolist() == [0, 1, 1, 1]


# --- devices ---------------------------------------------------------------------------------------------------------


def test_devices_without_a_kernel():
    only = library.custom_op(
        "tests::only_cpu", lambda x: x + 1, mutates_args=(), device_types="cpu", schema="(Tensor x) -> Tensor"
    )
    with pytest.raises(NotImplementedError, match=rf"tests::only_cpu: no kernel for device {DEVICE}; registered: cpu"):
        only(on_gpu(2))
    with pytest.raises(NotImplementedError, match="no rule for shapes.*register_fake"):
        only(strata.ones(2, device="meta"))
    only.register_kernel(["cuda"], lambda x: x + 2)  # serves vgpu too
    assert only(strata.zeros(1, device=DEVICE)).item() == 2
    only.register_kernel("vgpu", lambda x: x + 3)
    assert only(strata.zeros(1, device="vgpu")).item() == 3
    assert only(strata.zeros(1)).item() == 1
    library.define("tests::nothing", "(Tensor x) -> Tensor")
    with pytest.raises(NotImplementedError, match="registered: none"):
        strata.ops.tests.nothing(strata.ones(1))
    for kind, text in (("xpu", "there are cpu, cuda, vgpu"), ("meta", "use register_fake"), ((3,), "there are")):
        with pytest.raises(ValueError, match=text):
            only.register_kernel(kind, len)


def test_ops_without_tensors_run_on_their_device():
    @library.custom_op("tests::make", mutates_args=())
    def make(n: int, device: strata.device | None = None) -> Tensor:
        return strata.ones(n, device=device)

    make.register_fake(lambda n, device=None: strata.empty(n, device="meta"))
    assert make(2).device.type == "cpu"
    assert make(2, device=DEVICE).device.type == DEVICE
    assert make(2, "meta").is_meta
    with strata.device("meta"):
        assert make(2).is_meta


# --- writes ----------------------------------------------------------------------------------------------------------


@library.custom_op("tests::add_one_", mutates_args={"x"})
def add_one_(x: Tensor, by: Tensor | None = None) -> None:
    x.data.add_(1 if by is None else by)


@pytest.mark.parametrize("device", ["cpu", DEVICE])
def test_ops_that_write(device):
    x = strata.zeros(3, device=device)
    version = x._version
    assert add_one_(x) is None
    assert x.tolist() == [1] * 3 and x._version > version
    w = strata.ones(3, device=device, requires_grad=True)
    y = (w * x).sum()
    add_one_(x)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()
    with pytest.raises(RuntimeError, match="x requires a gradient, but the op writes to it"):
        add_one_(w)
    with pytest.raises(RuntimeError, match="x requires a gradient"):
        add_one_(w * 2)
    with pytest.raises(RuntimeError, match="by requires a gradient, but the op writes to x without"):
        add_one_(x, w)
    with strata.no_grad():
        add_one_(w)
    assert w.tolist() == [2] * 3
    with pytest.raises(RuntimeError, match="writes to x: a gradient needs"):
        add_one_.register_autograd(lambda ctx: None)


def test_a_kernel_that_fails_counts_its_writes():
    def fails(x):
        x.data.fill_(7)
        raise KeyError("kept")

    op = library.custom_op("tests::fails", fails, mutates_args=(), schema="(Tensor(a!) x) -> ()")
    x = strata.zeros(2)
    with pytest.raises(KeyError, match="kept"):
        op(x)
    assert x._version > 0
    with pytest.raises(ValueError, match="mutates_args names y, but the schema says x"):
        library.custom_op("tests::fails", fails, mutates_args=("y",), schema="(Tensor(a!) x) -> ()")


# --- gradients -------------------------------------------------------------------------------------------------------


def scaled(backward, setup_context=None, **options):
    schema = options.pop("schema", "(Tensor x, float by=2.0) -> Tensor")
    op = library.custom_op("tests::scaled", lambda x, by=2.0: x * by, mutates_args=(), schema=schema)
    if backward:
        op.register_autograd(backward, setup_context=setup_context)
    return op


@pytest.mark.parametrize(
    ("backward", "error", "text"),
    [
        (lambda ctx, g: g, RuntimeError, "expected 2, one for each positional argument, got 1"),
        (lambda ctx, g: (g, None, None), RuntimeError, "got 3"),
        (lambda ctx, g: (), RuntimeError, "got 0"),
        (lambda ctx, g: (g, g), RuntimeError, "for 'by' must be None"),
        (lambda ctx, g: (1.0, None), TypeError, "must be a Tensor or None, got float"),
        (lambda ctx, g: (g.sum(), None), RuntimeError, "shape"),
        (None, NotImplementedError, "tests::scaled has no gradient"),
    ],
)
def test_wrong_gradients(backward, error, text):
    y = scaled(backward)(strata.ones(3, requires_grad=True))
    assert y.requires_grad
    with pytest.raises(error, match=text):
        y.sum().backward()


def test_contexts():
    seen = []

    def setup(ctx, inputs, output):
        ctx.save_for_backward(inputs[0], output)
        ctx.by = inputs[1]

    def backward(ctx, g):
        seen.append((ctx.needs_input_grad, [t.tolist() for t in ctx.saved_tensors]))
        return g * ctx.by, None

    op = scaled(backward, setup)
    x = strata.ones(2, requires_grad=True)
    y = op(x)
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    assert seen == [((True, False), [[1, 1], [2, 2]])] * 2 and x.grad.tolist() == [4, 4]
    with pytest.raises(RuntimeError, match="a second time"):
        y.sum().backward()
    assert y.grad_fn is not None and "TestsScaled" in str(y.grad_fn)
    z = op(x)
    with strata.no_grad():
        x.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()
    with strata.no_grad():
        assert not op(x).requires_grad
    with strata.inference_mode():
        assert op(x).is_inference()


def test_keyword_only_arguments():
    def setup(ctx, inputs, keyword_only_inputs, output):
        ctx.by = keyword_only_inputs["by"]
        assert len(inputs) == 1

    op = scaled(lambda ctx, g: g * ctx.by, setup, schema="(Tensor x, *, float by=2.0) -> Tensor")
    x = strata.ones(2, requires_grad=True)
    op(x, by=5).sum().backward()
    assert x.grad.tolist() == [5, 5]
    with pytest.raises(NotImplementedError, match="y is keyword-only"):
        library.define("tests::keyword", "(Tensor x, *, Tensor y) -> Tensor").register_autograd(lambda ctx, g: g)


def test_lists_of_gradients_are_checked():
    op = library.define("tests::join", "(Tensor?[] x) -> Tensor")
    op.register_kernel(None, lambda x: strata.stack([t for t in x if t is not None]))
    a, b = strata.ones(2, requires_grad=True), strata.ones(2, requires_grad=True)
    op.register_autograd(lambda ctx, g: ([g[0], None, 2 * g[1]],))
    op([a, None, b]).sum().backward()
    assert a.grad.tolist() == [1, 1] and b.grad.tolist() == [2, 2]
    for wrong, text in ((lambda ctx, g: g, "got Tensor"), (lambda ctx, g: ([g],), "a list of 3 gradients, got 1")):
        op.register_autograd(wrong)
        with pytest.raises(RuntimeError, match=text):
            op([a, None, b]).sum().backward()


def test_kernels_run_without_recording_and_autocast():
    states = []

    def kernel(x):
        states.append((strata.is_grad_enabled(), strata.is_autocast_enabled("cpu")))
        return x @ x

    op = library.custom_op("tests::product", kernel, mutates_args=(), schema="(Tensor x) -> Tensor")
    with strata.autocast("cpu", dtype=strata.bfloat16):
        assert op(strata.ones(2, 2, requires_grad=True)).dtype == strata.float32
    assert states == [(False, False)] and strata.is_grad_enabled()


# --- the registry ----------------------------------------------------------------------------------------------------


def test_names_and_copies():
    op = strata.ops.tests.numpy_sin
    assert op is numpy_sin is op.default and op.__name__ == "numpy_sin" and op.__doc__ == "The sine of each element."
    assert pickle.loads(pickle.dumps(op)) is op and copy.deepcopy(op) is op
    assert repr(op) == "<strata.library.CustomOpDef tests::numpy_sin(Tensor x) -> Tensor>"
    with pytest.raises(AttributeError, match="strata.ops.tests has no op 'zork'; it has .*numpy_sin"):
        strata.ops.tests.zork  # noqa: B018
    with pytest.raises(AttributeError, match="strata.ops.zork has no op 'f'; it has none"):
        strata.ops.zork.f  # noqa: B018
    for missing in ("tests::zork", "zork::f"):
        with pytest.raises(ValueError, match="there is no custom op"):
            library.register_fake(missing, len)
    for register in (op.register_fake, op.register_autograd, op.register_vmap, lambda f: op.register_kernel("cpu", f)):
        with pytest.raises(TypeError, match="must be a function, got int"):
            register(1)


def test_functions_of_the_module():
    library.define("tests::twice", "(Tensor x) -> Tensor")

    @library.impl("tests::twice", "default")
    def _(x):
        return 2 * x

    library.register_kernel("tests::twice", "cpu", lambda x: x + x)
    library.register_fake("tests::twice")(strata.empty_like)
    library.register_autograd("tests::twice", lambda ctx, g: 2 * g)
    assert library.opcheck("tests::twice", (strata.ones(2, dtype=strata.float64, requires_grad=True),))
    lib = library.Library("tests", "FRAGMENT")
    assert lib.define("thrice(Tensor x) -> Tensor") == "thrice"
    lib.impl("thrice", lambda x: 3 * x, "CPU")
    lib.impl("thrice", lambda x: x * 3, "CUDA")
    lib.impl("thrice", strata.empty_like, "Meta")
    for device in ("cpu", DEVICE):
        assert strata.ops.tests.thrice(strata.ones(1, device=device)).item() == 3
    lib.define("tripled_sine(Tensor x, *, float by=3.0) -> Tensor")
    lib.impl("tripled_sine", lambda x, by=3.0: x.sin() * by, "CompositeImplicitAutograd")
    x = strata.zeros(1, requires_grad=True)
    strata.ops.tests.tripled_sine(x, by=2.0).backward()  # the gradient is that of the ops inside
    assert x.grad.item() == 2 and strata.ops.tests.tripled_sine(strata.ones(1, device=DEVICE)).device.type == DEVICE
    with pytest.raises(NotImplementedError, match="dispatch key 'Autograd'"):
        lib.impl("thrice", len, "Autograd")


def test_importing_the_module_changes_no_names():
    run_process("import strata.library\nassert callable(strata.autograd.gradcheck) and callable(strata.tracing)")


def test_threads_define_and_call():
    def work(i):
        op = library.custom_op(f"tests::thread{i}", lambda x: x + i, mutates_args=(), schema="(Tensor x) -> Tensor")
        found.append(op(strata.zeros(1)).item() == i and getattr(strata.ops.tests, f"thread{i}") is op)

    found = []
    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert found == [True] * 8


def test_traces_and_explanations_show_the_kernel():
    with strata.tracing() as t:
        numpy_sin(strata.ones(2))
    assert [(e["layer"], e["name"]) for e in t.events][-2:] == [("kernel", "cpu"), ("op", "tests::numpy_sin")]
    assert strata.explain(numpy_sin, strata.ones(2))[0] == ("tests::numpy_sin", "cpu", "chosen")


# --- opcheck ---------------------------------------------------------------------------------------------------------


def test_opcheck_accepts_a_correct_op():
    samples = [
        strata.ones(3),
        on_gpu(2, 2),
        strata.linspace(0, 1, 3, dtype=strata.float64).requires_grad_(),
        strata.ones(0),
    ]
    for x in samples:
        found = library.opcheck(numpy_sin, (x,))
        assert set(found.values()) == {"SUCCESS"} and len(found) == 4
    assert library.opcheck(add_one_, (strata.ones(2),), test_utils="test_schema") == {"test_schema": "SUCCESS"}


def test_opcheck_finds_mistakes():
    def writes(x):
        x.data[0] = 5
        return x.clone()

    x = strata.linspace(0, 1, 3, dtype=strata.float64)
    bad = library.custom_op("tests::bad", writes, mutates_args=(), schema="(Tensor x) -> Tensor")
    with pytest.raises(library.OpCheckError, match="wrote to its argument 'x'"):
        library.opcheck(bad, (x,))
    assert x.tolist() == [0, 0.5, 1]
    bad = library.custom_op("tests::bad", lambda x: x.clone(), mutates_args=(), schema="(Tensor x) -> Tensor")
    with pytest.raises(library.OpCheckError, match="test_faketensor: .*no rule for shapes"):
        library.opcheck(bad, (x,))
    for fake in (lambda x: x.new_empty(2), lambda x: strata.empty_like(x, dtype=strata.float32)):
        bad.register_fake(fake)
        with pytest.raises(library.OpCheckError, match="but the rule for meta says"):
            library.opcheck(bad, (x,), test_utils="test_faketensor")
    bad.register_fake(strata.empty_like)
    x.requires_grad_()
    with pytest.raises(library.OpCheckError, match="no gradient, but x requires one"):
        library.opcheck(bad, (x,))
    bad.register_autograd(lambda ctx, g: 2 * g)
    found = library.opcheck(bad, (x,), raise_exception=False)
    assert isinstance(found.pop("test_gradients"), library.OpCheckError) and set(found.values()) == {"SUCCESS"}
    with pytest.raises(ValueError, match="no check 'zork'"):
        library.opcheck(bad, (x,), test_utils="zork")


@pytest.mark.parametrize("device", ["cpu", DEVICE])
def test_autocast_casts_arguments(device):
    seen = []

    def product(x: strata.Tensor, ys: list[strata.Tensor], by: float = 1.0) -> strata.Tensor:
        seen.append([x.dtype, *(y.dtype for y in ys), strata.is_autocast_enabled(x.device.type)])
        return x * by + sum(y.to(x.dtype) for y in ys)

    op = library.custom_op("tests::autocast", product, mutates_args=())
    op.register_autograd(lambda ctx, g: (g, [g] * ctx.count, None), setup_context=_count_list)
    x = strata.ones(3, device=device, requires_grad=True)
    ys = [strata.ones(3, device=device, dtype=strata.float64), strata.ones(3, device=device)]
    kind = x.device.type
    with strata.autocast(kind, dtype=strata.bfloat16):
        assert op(x, ys).dtype is strata.float32  # without a rule
        library.register_autocast("tests::autocast", "cuda" if kind == "vgpu" else kind, strata.float16)
        y = op(x, ys)
    assert y.dtype is strata.float16
    assert seen[-1] == [strata.float16, strata.float64, strata.float16, False]
    y.float().sum().backward()
    assert x.grad.dtype is strata.float32 and x.grad.tolist() == [1, 1, 1]
    assert op(x, ys).dtype is strata.float32  # outside of the scope
    with pytest.raises(ValueError, match="no autocast for device type 'meta'"):
        op.register_autocast("meta", strata.float16)
    with pytest.raises(TypeError, match="floating-point dtype"):
        op.register_autocast("cpu", strata.int8)


def _count_list(ctx, inputs, output):
    ctx.count = len(inputs[1])


def test_a_number_for_a_list_of_known_length():
    library.define("tests::pair", "(Tensor x, int[2] size, float[3] by=1.0) -> Tensor")
    library.impl("tests::pair", "default", lambda x, size, by: x.new_zeros(size) + sum(by))
    op = strata.ops.tests.pair
    assert "int[2] size, float[3] by" in repr(op)
    assert op(strata.ones(1), 2).tolist() == [[3, 3]] * 2
    assert op(strata.ones(1), [1, 2], by=[1.0, 2.0]).tolist() == [[3, 3]]
    with pytest.raises(TypeError, match=r"'size' must be int\[2\], not float"):
        op(strata.ones(1), 2.5)


@pytest.mark.parametrize("device", ["cpu", DEVICE])
def test_kernels_can_be_disabled(device):
    def op_for(name, with_default):
        op = library.custom_op(
            name,
            lambda x: x * 2,
            mutates_args=(),
            schema="(Tensor x) -> Tensor",
            device_types=None if with_default else "cpu",
        )
        op.register_kernel(("cpu", "cuda"), lambda x: x * 3)
        return op

    kind = "cuda" if device == "vgpu" else device
    x = strata.ones(1, device=device)
    op = op_for("tests::disabled", True)
    assert op(x).item() == 3
    with op.set_kernel_enabled(kind, False):
        assert op(x).item() == 2
        with op.set_kernel_enabled(kind, True):
            assert op(x).item() == 3
        assert op(x).item() == 2
    assert op(x).item() == 3
    with pytest.raises(KeyError), op.set_kernel_enabled(kind, False):
        raise KeyError
    assert op(x).item() == 3
    with op_for("tests::disabled_all", False).set_kernel_enabled(kind, False) as none:
        assert none is None
        with pytest.raises(NotImplementedError, match="no kernel for device"):
            strata.ops.tests.disabled_all(x)
    with pytest.raises(ValueError, match="no kernels for device type 'meta'"), op.set_kernel_enabled("meta"):
        pass
