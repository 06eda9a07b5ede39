"""strata.compile(): fused pointwise ops have the bits of single ones, and everything around them happens as in a plain call."""

import contextlib
import io
import threading

import numpy as np
import pytest
import records
import strata
from compiled_programs import bits, random_program, trained_network
from strata import _C

F = strata.nn.functional
FLOATS = (strata.float32, strata.float64, strata.bfloat16, strata.float16)
DETERMINISTIC = [r for r in records.PUBLIC if not r["random"] and "empty" not in r["name"]]


@pytest.fixture(autouse=True)
def _also_small_tensors():
    before = _C._set_least_deferred(1)
    yield
    _C._set_least_deferred(before)


def both(f, *args):
    """Results of a plain and of a compiled call."""
    return f(*args), strata.compile(f)(*args)


def assert_same_bits(f, *args):
    want, got = both(f, *args)
    assert bits(got) == bits(want)


@pytest.mark.parametrize("record", DETERMINISTIC, ids=records.label)
def test_samples_have_the_same_bits(record):
    """Every op, with deferred arguments: forward, and backward of what is differentiable."""
    for dtype in FLOATS:
        try:
            cases = records.samples(record, dtype)
        except (RuntimeError, TypeError):  # the op has no samples of this dtype
            continue
        for text, arguments in cases:

            def run(arguments=arguments):
                given = records.map_tensors(
                    lambda t: (t * 1).requires_grad_(t.requires_grad) if t.is_floating_point() and t.is_leaf else t,
                    arguments,
                )
                leaves = [t.detach().requires_grad_() for t in records.tensors(given) if t.is_floating_point()]
                rest = iter(leaves)
                given = records.map_tensors(lambda t: next(rest) * 1 if t.is_floating_point() else t, given)
                out = records.callable_of(record)(**given)
                sums = [o.float().sum() for o in records.tensors(out) if o.requires_grad and o.is_floating_point()]
                if sums and len({s.device for s in sums}) == 1:
                    sum(sums[1:], sums[0]).backward()
                return out, [t.grad for t in leaves if t.grad is not None]

            try:
                want = run()
            except (RuntimeError, NotImplementedError, TypeError, IndexError) as error:  # e.g. writes to a leaf's value
                with pytest.raises(type(error)):
                    strata.compile(run)()
                continue
            assert bits(strata.compile(run)()) == bits(want), f"{record['name']}({text}) of {dtype}"


# --- random programs ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", range(0, 400, 50))
def test_random_programs(first):
    for seed in range(first, first + 50):
        shapes, run = random_program(seed)
        for dtype in (strata.float32, strata.bfloat16):
            strata.manual_seed(seed)
            inputs = [strata.randn(shape).to(dtype) for shape in shapes]
            assert bits(strata.compile(run)(*inputs)) == bits(run(*inputs)), f"seed {seed}, {dtype}"


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_gradients_of_random_programs(first):
    for seed in range(first, first + 50):
        shapes, run = random_program(seed)

        def train(*values, run=run):
            leaves = [v.clone().requires_grad_() for v in values]
            kept, last = run(*leaves)
            loss = last.sum() + sum((k.sum() for k in kept), strata.zeros(()))
            if loss.requires_grad:
                loss.backward()
            return loss, [t.grad for t in leaves if t.grad is not None]

        strata.manual_seed(seed)
        inputs = [strata.randn(shape) for shape in shapes]
        try:
            want = train(*inputs)
        except RuntimeError as error:  # a value that backward needs was overwritten
            with pytest.raises(RuntimeError, match=str(error)[:40].replace("(", r"\(")):
                strata.compile(train)(*inputs)
            continue
        assert bits(strata.compile(train)(*inputs)) == bits(want), f"seed {seed}"


# --- values that are needed early, and memory that changes ----------------------------------------------------------


def test_values_can_be_read_at_any_time():
    def f(x):
        y = x * 2 + 1
        seen = [
            y.tolist(),
            float(y.sum()),
            repr(y),
            y.numpy().tolist(),
            y[0].item(),
            bytes(memoryview(y)),
            y.data_ptr() != 0,
        ]
        z = y * 3
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            print(z)
        return seen, out.getvalue(), np.asarray(z).tolist(), bool((z > 0).all()), list(strata.from_dlpack(z * 1))

    x = strata.arange(6.0)
    want, got = both(f, x)
    assert repr(got) == repr(want)


def test_an_argument_may_be_overwritten_after_its_use():
    def f(x):
        y = x * 2
        x.add_(1)
        z = x * 3
        x[0] = 7
        strata.exp(x, out=x)
        return y, z, x * 1

    assert_same_bits(lambda: f(strata.arange(6.0)))


def test_memory_that_others_can_write_to():
    def f():
        array = np.arange(6.0, dtype=np.float32)
        x = strata.from_numpy(array)
        y = x * 2
        array[0] = 100
        own = strata.arange(6.0)
        z = own * 2
        own.numpy()[1] = 50
        return y, z, own + 1

    assert_same_bits(f)


def test_a_tensor_may_get_other_memory():
    def f():
        x = strata.ones(4)
        y = x * 2
        x.data = strata.zeros(4)
        z = x + 1
        x.resize_(8)
        return y, z, x[:4] * 2

    assert_same_bits(f)


def test_in_place_chains():
    def f():
        x = strata.arange(8.0).reshape(2, 4)
        y = x * 1
        y.mul_(2).add_(x).clamp_(max=9)
        half = y[0]
        y.sub_(1)
        half.mul_(3)
        y.add_(half)
        w = y.t()
        w.mul_(2)
        return x, y, half, w, y._version

    want, got = both(f)
    assert bits(got) == bits(want) and got[-1] == want[-1]


def test_results_that_nobody_holds_are_not_stored():
    compiled = strata.compile(lambda x: strata.tanh((x * 2 + 1).exp()))
    x = strata.randn(64, 64)
    (group,) = compiled.explain(x).groups
    assert group["ops"] == ["mul", "add", "exp", "tanh"]
    assert group["stored"] == 1 and group["dropped"] == 0 and group["ended_by"] == "return"
    assert group["bytes"] == 2 * 4 * 64 * 64 and group["bytes_one_by_one"] == 8 * 4 * 64 * 64

    def unused(x):
        (x * 2 + 1).exp()
        return x.sum()

    groups = strata.compile(unused).explain(x).groups
    assert [g["dropped"] for g in groups] == [3] and groups[0]["stored"] == 0


def test_peak_memory_is_not_above_the_plain_call():
    def f(x):
        for _ in range(20):
            x = x * 1.01 + 0.5
        return x

    x = strata.randn(1 << 18)
    peaks = []
    for call in (f, strata.compile(f)):
        strata.reset_peak_memory_stats()
        before = strata.memory_stats()["allocated_bytes"]
        call(x)
        peaks.append(strata.memory_stats()["peak_allocated_bytes"] - before)
    assert peaks[1] <= peaks[0]


def test_explain_is_text():
    text = str(strata.compile(lambda x: x * 2 + x.sum()).explain(strata.ones(4, 4)))
    assert "1. 2 ops on [4, 4]: mul, add" in text and "ended by" in text and "less than one by one" in text
    assert "no ops were fused" in str(strata.compile(lambda x: x.sum()).explain(strata.ones(4)))


# --- what happens around a call -------------------------------------------------------------------------------------


def test_surroundings_may_change():
    class Net(strata.nn.Module):
        scale = 2.0

        def forward(self, x):
            return x * self.scale + SHIFT[0]

    SHIFT = [1.0]
    net = Net()
    compiled = strata.compile(net)
    x = strata.ones(3)
    assert compiled(x).tolist() == [3.0] * 3
    Net.scale = 5.0
    SHIFT[0] = 0.0
    assert compiled(x).tolist() == [5.0] * 3
    net.scale = 1.0
    assert compiled(x).tolist() == [1.0] * 3
    handle = net.register_forward_hook(lambda module, args, out: out * 10)
    assert compiled(x).tolist() == [10.0] * 3
    handle.remove()
    compiled.scale = 4.0
    assert net.scale == 4.0 and compiled(strata.ones(2, 2)).tolist() == [[4.0] * 2] * 2


def test_a_network_trains_alike():
    assert bits(trained_network(strata.compile)) == bits(trained_network(lambda f: f))


def test_errors_are_those_of_the_plain_call():
    def f(x):
        y = x * 2
        return y + strata.ones(5)

    with pytest.raises(RuntimeError, match="size"):
        strata.compile(f)(strata.ones(4))
    y = strata.compile(lambda x: x * 2)(strata.ones(3))
    assert y.tolist() == [2.0] * 3

    def fails(x, out=[]):  # noqa: B006
        out.append(x * 2 + 1)
        raise KeyError("half-way")

    out = []
    with pytest.raises(KeyError, match="half-way"):
        strata.compile(fails)(strata.ones(3), out)
    assert out[0].tolist() == [3.0] * 3


def test_nested_calls_and_recursion():
    @strata.compile
    def f(x, depth):
        y = x * 2 + 1
        return y if depth == 0 else f(y, depth - 1) - x

    def plain(x, depth):
        y = x * 2 + 1
        return y if depth == 0 else plain(y, depth - 1) - x

    x = strata.randn(5)
    assert strata.equal(f(x, 5), plain(x, 5))


def test_other_threads_see_computed_values():
    def f(x):
        y = x * 2 + 1
        seen = []
        thread = threading.Thread(target=lambda: seen.append((y * 1).tolist()))
        thread.start()
        thread.join()
        holder = [y * 5]
        dropped = threading.Thread(target=holder.clear)
        dropped.start()
        dropped.join()
        return y, seen

    want, got = both(f, strata.arange(4.0))
    assert bits(got[0]) == bits(want[0]) and got[1] == want[1]


def test_threads_compile_independently():
    compiled = strata.compile(lambda x: (x * 2 + 1).tanh() - x)
    inputs = [strata.randn(33, 7) for _ in range(8)]
    want = [(x * 2 + 1).tanh() - x for x in inputs]
    got = [None] * len(inputs)

    def work(i):
        for _ in range(50):
            got[i] = compiled(inputs[i])

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(inputs))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert bits(got) == bits(want)


def test_modes():
    x = strata.randn(6)

    def modes(x):
        with strata.inference_mode():
            a = x * 2 + 1
        with strata.no_grad():
            b = (x * 2).tanh()
        with strata.autocast("cpu", dtype=strata.bfloat16):
            c = x * 2 @ strata.ones(6, 6)
        with strata.autograd.detect_anomaly(check_nan=False):
            d = x * 2
        return a, b, c, d

    want, got = both(modes, x)
    assert bits(got) == bits(want) and got[0].is_inference() and not got[1].requires_grad


def test_hooks_custom_functions_and_second_derivatives():
    class Cube(strata.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 3 * x * x

    def f(values):
        x = values.clone().requires_grad_()
        y = Cube.apply(x * 2) + x.exp()
        seen = []
        y.register_hook(lambda g: seen.append(g * 1) or g * 2)
        (g,) = strata.autograd.grad(y.sum(), x, create_graph=True)
        (h,) = strata.autograd.grad(g.sum(), x)
        saved = strata.utils.checkpoint.checkpoint(lambda t: (t * 2).tanh() * t, x, use_reentrant=False)
        saved.sum().backward()
        return y, g, h, seen, x.grad

    assert_same_bits(f, strata.randn(5))


def test_meta_is_left_alone():
    assert strata.compile(lambda x: x * 2)(strata.ones(3, device="meta")).shape == (3,)


# --- the interface --------------------------------------------------------------------------------------------------


def test_wrong_arguments():
    async def coroutine(x):
        return x

    for bad in (3, "x", strata.ones(2)):
        with pytest.raises(TypeError, match="expected a function or a module"):
            strata.compile(bad)
    with pytest.raises(TypeError, match="coroutine"):
        strata.compile(coroutine)
    with pytest.raises(ValueError, match="no backend 'tvm'"):
        strata.compile(strata.relu, backend="tvm")
    with pytest.raises(ValueError, match="no mode 'fast'"):
        strata.compile(strata.relu, mode="fast")


def test_forms_of_the_call():
    @strata.compile(fullgraph=True, dynamic=False, mode="max-autotune")
    def f(x, *, scale=2):
        """Doubles."""
        return x * scale

    class Holder:
        @strata.compile
        def double(self, x):
            return x * 2

    x = strata.ones(3)
    assert f.__name__ == "f" and f.__doc__ == "Doubles." and f(x, scale=3).tolist() == [3.0] * 3
    assert Holder().double(x).tolist() == [2.0] * 3
    assert strata.compile(f) is f and strata.compile(strata.relu, disable=True) is strata.relu


def test_modules():
    net = strata.nn.Sequential(strata.nn.Linear(4, 4), strata.nn.BatchNorm1d(4), strata.nn.Tanh())
    compiled = strata.compile(net)
    assert isinstance(compiled, strata.nn.Module) and compiled._orig_mod is net
    assert list(compiled.state_dict()) == ["_orig_mod." + name for name in net.state_dict()]
    assert list(compiled.parameters())[0] is net[0].weight
    compiled.eval()
    assert not net.training and not compiled.training
    x = strata.randn(5, 4)
    assert bits(compiled(x)) == bits(net(x))
    file = io.BytesIO()
    strata.save(compiled.state_dict(), file)
    file.seek(0)
    compiled.load_state_dict(strata.load(file))
    compiled.to(strata.float64)
    assert net[0].weight.dtype == strata.float64
