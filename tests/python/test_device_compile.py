"""strata.compile() on devices: a group of pointwise ops is one kernel, with the bits of single ops."""

import os
import subprocess
import sys
import threading

import pytest
import records
import strata
from compiled_programs import bits, random_program, trained_network
from gpu_tensors import DEVICE
from strata import _C

F = strata.nn.functional
FLOATS = (strata.float32, strata.float64, strata.bfloat16, strata.float16)
POINTWISE = [r for r in records.PUBLIC if r["kind"] == "pointwise"]
OTHERS = [r for r in records.PUBLIC if r["kind"] != "pointwise" and not r["random"] and "empty" not in r["name"]]


@pytest.fixture(autouse=True)
def _with_kernels():
    before = _C._set_fused_kernels(True)
    yield
    _C._set_fused_kernels(before)


@pytest.fixture
def _without_kernels(_with_kernels):
    _C._set_fused_kernels(False)


def gpu_module():
    return getattr(strata, strata.device(DEVICE).type)


def moved(arguments):
    return records.map_tensors(lambda t: t.to(DEVICE), arguments)


def assert_same_bits(f, *args):
    assert bits(strata.compile(f)(*args)) == bits(f(*args))


def check_samples(record, dtypes, how, most=None):
    """Samples on computed and on deferred arguments; `how` groups of several ops must be computed."""
    for dtype in dtypes:
        try:
            cases = records.samples(record, dtype)
        except (RuntimeError, TypeError):  # the op has no samples of this dtype
            continue
        for text, arguments in cases[:most]:
            given = moved(arguments)

            def run(given=given):
                deferred = records.map_tensors(lambda t: t.detach() * 1 if t.is_floating_point() else t, given)
                out = records.callable_of(record)(**deferred)
                return out, [o * 2 for o in records.tensors(out) if o.is_floating_point()]

            try:
                want = run()
            except (RuntimeError, NotImplementedError, TypeError, IndexError) as error:
                with pytest.raises(type(error)):
                    strata.compile(run)()
                continue
            assert bits(strata.compile(run)()) == bits(want), f"{record['name']}({text}) of {dtype}"
            for group in strata.compile(run).explain().groups:
                single = len(group["ops"]) - group["dropped"] <= 1
                assert single or group["device"] == "cpu" or group["how"] == how, group


@pytest.mark.parametrize("record", POINTWISE, ids=records.label)
def test_pointwise_ops_in_a_kernel_have_the_same_bits(record):
    check_samples(record, (strata.float32, strata.bfloat16), "one kernel", most=4)


@pytest.mark.usefixtures("_without_kernels")
@pytest.mark.parametrize("record", OTHERS, ids=records.label)
def test_other_ops_see_computed_arguments(record):
    check_samples(record, (strata.float32,), "op by op: kernels are switched off")


@pytest.mark.parametrize("seed", range(24))
def test_random_programs(seed):
    shapes, run = random_program(seed)
    for dtype in (strata.float32, strata.bfloat16):
        strata.manual_seed(seed)
        inputs = [strata.randn(shape).to(dtype).to(DEVICE) for shape in shapes]
        assert bits(strata.compile(run)(*inputs)) == bits(run(*inputs)), f"{dtype}"


@pytest.mark.usefixtures("_without_kernels")
@pytest.mark.parametrize("first", range(100, 300, 50))
def test_random_programs_op_by_op(first):
    for seed in range(first, first + 50):
        shapes, run = random_program(seed)

        def train(*values, run=run):
            leaves = [v.clone().requires_grad_() for v in values]
            kept, last = run(*leaves)
            loss = last.sum() + sum((k.sum() for k in kept), strata.zeros((), device=DEVICE))
            if loss.requires_grad:
                loss.backward()
            return loss, [t.grad for t in leaves if t.grad is not None]

        strata.manual_seed(seed)
        inputs = [strata.randn(shape, device=DEVICE) for shape in shapes]
        try:
            want = train(*inputs)
        except RuntimeError:  # a value that backward needs was overwritten
            with pytest.raises(RuntimeError):
                strata.compile(train)(*inputs)
            continue
        assert bits(strata.compile(train)(*inputs)) == bits(want), f"seed {seed}"


# --- layouts, dtypes, sizes ---------------------------------------------------------------------------------------------


def chain(x, y):
    return F.gelu(x * 1.5 + y) * x, x > y


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_layouts(dtype):
    strata.manual_seed(1)
    base = strata.randn(6, 40, 24, device=DEVICE).to(dtype)
    row, column = base[0, 0], base[:, :, :1]
    plain = base[1]
    for x, y in [
        (base, base.flip(0)),
        (base, row),
        (base, column),
        (base, row[0]),
        (base, 0.25),
        (plain.t(), plain.t() * 2),
        (plain[:, 1:], plain[:, :-1]),
        (plain.t().contiguous(), plain.t()),
        (base[:, ::2], base[:, 1::2]),
        (base[::2].transpose(0, 2).contiguous(), base[::2].transpose(0, 2)),
        (row.expand(3, 24), row),
        (base[0, :1, :1].expand(5, 7), column[0, 0]),
        (base.reshape(-1)[3:1027], base.reshape(-1)[4:1028]),
    ]:
        assert_same_bits(lambda x, y: chain(x * 1, y), x, y)
        assert_same_bits(chain, x, y)


@pytest.mark.parametrize(
    "shape", [(1,), (0, 3), (1, 1), (7,), (255,), (256,), (2047,), (2048,), (2049,), (3, 5, 7), (1, 4096), ()]
)
def test_sizes(shape):
    x = strata.randn(shape, device=DEVICE)
    assert_same_bits(lambda x: (x * 2 + 1).tanh() * x, x)
    assert_same_bits(lambda x: (x.to(strata.bfloat16) * 2 + 1).tanh(), x)


def test_mixed_dtypes_and_numbers_from_the_host():
    x = strata.randn(33, 16, device=DEVICE)
    half, ints = x.to(strata.float16), strata.arange(16, device=DEVICE)
    mask, host = x > 0, strata.tensor(2.5)

    def f(x, half, ints, mask):
        y = strata.where(mask, x, half) * host + ints
        return (
            y,
            y.double() * x.double() + 1,
            strata.clamp(y, min=None, max=2.0),
            strata.lerp(x, y, 0.3),
            x + x.to(strata.uint8),
        )

    assert_same_bits(f, x, half, ints, mask)


def test_many_dimensions_and_many_ops():
    x = strata.randn(2, 3, 2, 2, 3, 2, 2, 2, 3, 2, 2, device=DEVICE)
    assert_same_bits(
        lambda x: (
            x.permute(10, 0, 2, 4, 6, 8, 1, 3, 5, 7, 9).contiguous() * 2 + x.permute(10, 0, 2, 4, 6, 8, 1, 3, 5, 7, 9)
        ),
        x,
    )

    def long(x):
        y = x
        for k in range(200):
            y = y * (1 + k * 1e-3) + x * k
        return y

    assert_same_bits(long, x[0, 0])
    many = [strata.randn(8, device=DEVICE) for _ in range(80)]
    assert_same_bits(lambda *t: sum(t[1:], t[0] * 2), *many)


def test_one_kernel_serves_all_sizes_and_numbers():
    sources = set()
    for n, factor in ((64, 2.0), (1000, 3.5), (31, -1.0)):
        x = strata.randn(n, device=DEVICE)
        compiled = strata.compile(lambda x, factor=factor: (x * factor).exp() + factor)
        (group,) = compiled.explain(x).groups
        assert (
            group["how"] == "one kernel"
            and group["ops"] == ["mul", "exp", "add"]
            and group["device"].startswith(DEVICE)
        )
        sources.add(group["source"])
    (source,) = sources
    assert source.startswith("// Mul, Exp, Add\n") and "__global__" in source
    text = str(compiled.explain(x))
    assert f"3 ops on [31] of {DEVICE}" in text and "one kernel" in text


def test_a_single_op_and_missing_compilers_run_op_by_op():
    x = strata.randn(8, device=DEVICE)
    (group,) = strata.compile(lambda x: x * 2).explain(x).groups
    assert group["how"] == "op by op: a single op" and group["source"] == ""
    script = f"""
import strata
x = strata.randn(50, device={DEVICE!r})
f = lambda x: (x * 2 + 1).tanh()
c = strata.compile(f)
assert strata.equal(c(x), f(x))
(group,) = c.explain(x).groups
assert group["how"].startswith("op by op: ") and "nvrtc" in group["how"].lower(), group["how"]
"""
    environment = dict(os.environ, STRATA_NVRTC="none")
    subprocess.run([sys.executable, "-c", script], check=True, env=environment, timeout=120)


# --- memory ----------------------------------------------------------------------------------------------------------------


def test_in_place_chains():
    def f():
        x = strata.arange(8.0, device=DEVICE).reshape(2, 4)
        y = x * 1
        y.mul_(2).add_(x).clamp_(max=9)
        half = y[0]
        y.sub_(1)
        half.mul_(3)
        y.add_(half)
        w = y.t()
        w.mul_(2)
        return x, y, half, w

    want = f()
    got = strata.compile(f)()
    assert bits(got) == bits(want) and [t._version for t in got] == [t._version for t in want]


def test_values_can_be_read_at_any_time():
    def f(x):
        y = x * 2 + 1
        seen = [y.tolist(), y[0].item(), repr(y), y.cpu().tolist(), float(y.sum()), (y * 1).data_ptr() != 0]
        z = y * 3
        x.add_(1)
        return seen, z.to("cpu") * 2, y.cpu().numpy().tolist(), (x.cpu() * 2).to(DEVICE) + y

    assert repr(strata.compile(f)(strata.arange(6.0, device=DEVICE))) == repr(f(strata.arange(6.0, device=DEVICE)))


def test_results_that_nobody_holds_are_not_stored():
    compiled = strata.compile(lambda x: strata.tanh((x * 2 + 1).exp()))
    (group,) = compiled.explain(strata.randn(64, 64, device=DEVICE)).groups
    assert group["stored"] == 1 and group["bytes"] == 2 * 4 * 64 * 64


def test_no_memory_grows():
    compiled = strata.compile(lambda x: (x * 2 + 1).tanh() * x)
    x = strata.randn(1000, device=DEVICE)
    gpu = gpu_module()
    compiled(x)
    before = gpu.memory_allocated()
    for _ in range(50):
        compiled(x)
    assert gpu.memory_allocated() == before


# --- streams, events, graphs, other kernels, threads ------------------------------------------------------------------------


def test_streams_events_and_synchronization():
    gpu = gpu_module()

    def f(x):
        y = x * 2 + 1
        side = gpu.Stream()
        side.wait_stream(gpu.current_stream())
        with gpu.stream(side):
            z = (y * 3).tanh()
            event = gpu.Event()
            event.record()
        event.synchronize()
        w = z + y
        gpu.synchronize()
        return y, z, w

    assert_same_bits(f, strata.randn(100, device=DEVICE))


def test_graphs_record_the_kernels():
    gpu = gpu_module()
    x = strata.ones(64, device=DEVICE)
    compiled = strata.compile(lambda x: (x * 2 + 1).exp() - x)
    compiled(x)
    graph = gpu.CUDAGraph()
    with gpu.graph(graph):
        y = compiled(x)
    x.fill_(0.5)
    graph.replay()
    gpu.synchronize()
    assert strata.equal(y, (x * 2 + 1).exp() - x)


def test_custom_kernels_see_computed_values():
    scale = strata.cuda.elementwise("out = a * 2")

    def f(x):
        y = x * 3 + 1
        z = scale(y)
        y.add_(1)
        return y, z, scale(y * 2 - 1)

    assert_same_bits(f, strata.randn(77, device=DEVICE))


def test_threads():
    compiled = strata.compile(lambda x: (x * 2 + 1).tanh() - x)
    inputs = [strata.randn(33, 7, device=DEVICE) for _ in range(4)]
    want = [bits((x * 2 + 1).tanh() - x) for x in inputs]
    got = [None] * len(inputs)

    def work(i):
        for _ in range(20):
            got[i] = bits(compiled(inputs[i]))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(inputs))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert got == want


def test_another_thread_reads_a_result():
    def f(x):
        y = x * 2 + 1
        seen = []
        thread = threading.Thread(target=lambda: seen.append(y.tolist()))
        thread.start()
        thread.join()
        return seen

    x = strata.arange(4.0, device=DEVICE)
    assert strata.compile(f)(x) == f(x)


def test_a_network_trains_alike():
    assert bits(trained_network(strata.compile, DEVICE)) == bits(trained_network(lambda f: f, DEVICE))


def test_out_of_memory_leaves_the_device_usable():
    gpu = gpu_module()
    x = strata.ones(16, device=DEVICE)

    def f(x):
        y = x * 2 + 1
        return y, strata.empty(1 << 38, device=DEVICE)

    with pytest.raises(RuntimeError, match="memory"):
        strata.compile(f)(x)
    assert strata.compile(lambda x: (x * 2 + 1).exp())(x).tolist() == ((x * 2 + 1).exp()).tolist()
    gpu.synchronize()
