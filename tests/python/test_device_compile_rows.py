"""strata.compile() on devices: ops on rows are in one kernel with the pointwise ops around them, with the bits of single ops."""

import pytest
import strata
from compiled_programs import bits, row_program, with_gradients
from gpu_tensors import DEVICE
from strata import _C

F = strata.nn.functional
FLOATS = (strata.float32, strata.float64, strata.bfloat16, strata.float16)


@pytest.fixture(autouse=True)
def _with_kernels():
    before = _C._set_fused_kernels(True)
    yield
    _C._set_fused_kernels(before)


def made(*shape, dtype=strata.float32, seed=1):
    strata.manual_seed(seed)
    return strata.randn(*shape).to(dtype).to(DEVICE)


def seeded(f, *args):
    strata.manual_seed(7)
    return bits(f(*args)), strata.get_rng_state().tolist()


def assert_same_bits(f, *args):
    assert seeded(strata.compile(f), *args) == seeded(f, *args)


def groups(f, *args):
    return [
        ([name.split(".")[-1].lstrip("_") for name in g["ops"]], g["how"])
        for g in strata.compile(f).explain(*args).groups
    ]


def one_kernel(f, *args):
    """The ops of the only group, which must be a kernel with the bits of single ops."""
    assert_same_bits(f, *args)
    ((ops, how),) = groups(f, *args)
    assert how == "one kernel", how
    return ops


# --- each op, between pointwise ops -----------------------------------------------------------------------------------

ROW_OPS = {
    "softmax": lambda x, w: F.softmax(x, -1),
    "log_softmax": lambda x, w: F.log_softmax(x, -1),
    "layer_norm": lambda x, w: F.layer_norm(x, w.shape),
    "layer_norm with weight and bias": lambda x, w: F.layer_norm(x, w.shape, w, w),
    "layer_norm with bias": lambda x, w: F.layer_norm(x, w.shape, None, w),
    "rms_norm": lambda x, w: F.rms_norm(x, w.shape),
    "rms_norm with weight": lambda x, w: F.rms_norm(x, w.shape, w, 1e-3),
    "sum": lambda x, w: x.sum(-1, keepdim=True),
    "mean": lambda x, w: x.mean(-1, keepdim=True),
    "amax": lambda x, w: x.amax(-1, keepdim=True),
    "amin": lambda x, w: x.amin(-1, keepdim=True),
    "dropout": lambda x, w: F.dropout(x, 0.3),
}
LENGTHS = (8, 16, 24, 64, 72, 1000, 2056)


@pytest.mark.parametrize("name", ROW_OPS)
def test_each_op_is_in_one_kernel(name):
    f = ROW_OPS[name]
    for n in LENGTHS:
        for dtype in (strata.float32, strata.bfloat16, strata.float16):
            x, w = made(6, n, dtype=dtype), made(n, dtype=dtype, seed=2)
            assert len(one_kernel(lambda x, w: f(x * 1.5 + 0.25, w) * 2 + x, x, w)) >= 5


@pytest.mark.parametrize("name", ROW_OPS)
def test_lengths_that_no_kernel_takes_run_as_usual(name):
    f = ROW_OPS[name]
    for n in (0, 1, 7, 31, 33, 1001):
        for dtype in FLOATS:
            x, w = made(3, n, dtype=dtype), made(n, dtype=dtype, seed=2)

            def run(x, w):
                return f(x * 1.5 + 0.25, w) * 2 + x

            try:
                want = seeded(run, x, w)
            except (RuntimeError, IndexError) as error:  # the maximum of no elements
                with pytest.raises(type(error)):
                    strata.compile(run)(x, w)
                continue
            assert seeded(strata.compile(run), x, w) == want, n


@pytest.mark.parametrize("shape", [(1, 64), (0, 64), (300, 8), (2, 16384), (1, 50304), (3, 3, 40), (64,), (70000, 8)])
def test_shapes(shape):
    x, w = made(*shape), made(shape[-1], seed=2)

    def f(x, w):
        y = F.layer_norm(x * 2, w.shape, w)
        return F.softmax(y, -1) - x.sum(-1, keepdim=True), F.rms_norm(x * x, w.shape), (x * 2).amax(-1)

    assert_same_bits(f, x, w)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_layouts(dtype):
    base, w = made(4, 6, 16, dtype=dtype), made(64, dtype=dtype, seed=2)

    def f(x, y):
        n = x.shape[-1]
        a = F.layer_norm(x + y, (n,)) * x
        return a, F.softmax(x * y, -1).sum(-1), F.rms_norm(x, (n,)) - y

    flat = base.reshape(-1)
    wide = made(6, 33, dtype=dtype)
    for x, y in [
        (base, base.flip(0)),
        (base.transpose(0, 1), base.transpose(0, 1) * 2),
        (made(16, 16, dtype=dtype).t(), made(16, 16, dtype=dtype)),
        (base, base[0]),
        (base, base[:, :1]),
        (base, base[:, :, :1]),
        (base, base[0, 0, 0]),
        (base[0, 0].expand(5, 16), base[0, :5]),
        (flat[1:257].reshape(16, 16), flat[3:259].reshape(16, 16)),
        (wide[:, 1:], wide[:, :-1]),
        (wide[:, :32], wide[:, 1:]),
        (base[:, ::2], base[:, 1::2]),
    ]:
        assert_same_bits(f, x, y)
    views = w[1:]
    assert_same_bits(lambda x: F.layer_norm(x * 2, (16,), views[:16], w[::4]) + x, base)


def test_norms_over_several_dimensions():
    x, w = made(5, 4, 6, 8), made(4, 6, 8, seed=2)
    assert one_kernel(lambda x, w: F.layer_norm(x + 1, w.shape, w, w) * x, x, w) == ["add", "layer_norm", "mul"]
    assert one_kernel(lambda x, w: F.rms_norm(x + 1, (6, 8), w[0]) * x, x, w) == ["add", "fused_rms_norm", "mul"]


def test_not_numbers_and_infinities():
    x = made(8, 64)
    inf = float("inf")
    x[0, 3], x[1, 5], x[2, 7], x[4], x[5], x[6] = float("nan"), inf, -inf, -inf, inf, 0.0
    for dtype in (strata.float32, strata.bfloat16):
        for f in ROW_OPS.values():
            assert_same_bits(lambda x, w, f=f: f(x * 1, w) * 1, x.to(dtype), made(64, dtype=dtype))


def test_one_kernel_serves_all_numbers_of_rows():
    def f(x, w):
        return F.layer_norm(x * 1.5, w.shape, w) + x

    sources = set()
    for rows in (2, 7, 64):
        (group,) = strata.compile(f).explain(made(rows, 256), made(256)).groups
        sources.add(group["source"])
    (source,) = sources
    assert source.startswith("// Mul, NormRow<true, true, cuda::Scaled>, Add\n"), source


# --- several rows ops, values of rows -----------------------------------------------------------------------------------


def test_a_norm_and_a_softmax_written_with_tensors():
    x, w = made(12, 512, dtype=strata.bfloat16), made(512, dtype=strata.bfloat16)
    ops = one_kernel(lambda x, w: x * strata.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * w, x, w)
    assert ops == ["mul", "mean", "add", "rsqrt", "mul", "mul"]

    def softmax(x):
        e = (x - x.amax(-1, keepdim=True)).exp()
        return e / e.sum(-1, keepdim=True)

    for n in (8, 320, 4096):
        for dtype in (strata.float32, strata.bfloat16):
            assert one_kernel(softmax, made(12, n, dtype=dtype)) == ["amax", "sub", "exp", "sum", "div"]


def test_several_folds_and_results():
    x, w = made(10, 96), made(96)

    def f(x, w):
        a = F.layer_norm(x, w.shape, w, w)
        b = F.layer_norm(a + x, w.shape, w)
        c = F.softmax(b * 0.5, -1) + F.softmax(a, -1)
        s = c.sum(-1), b.amax(-1, keepdim=True), (a * b).amin(-1)
        return a, c, F.dropout(c, 0.5), s[1] * 2 + 1, s

    assert_same_bits(f, x, w)


def test_two_sums_one_after_the_other():
    def f(x):
        for _ in range(5):
            x = x - x.sum(-1, keepdim=True) * 0.01
            x = x * F.rms_norm(x, x.shape[-1:])
        return x

    for n in (64, 1024, 4096):
        assert_same_bits(f, made(3, n))


def test_only_shared_bytes_join():
    x, y = made(16, 64), made(16, 64, seed=2)
    assert [ops for ops, _ in groups(lambda x, y: (F.softmax(x, -1), F.softmax(y, -1)), x, y)] == [["softmax"]] * 2
    assert [how for _, how in groups(lambda x: F.softmax(x, -1), x)] == ["op by op: a single op"]
    assert groups(lambda x: (F.softmax(x, -1), x.amax(-1)), x) == [(["softmax", "amax"], "one kernel")]


# --- random programs ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(60))
def test_random_programs(seed):
    run = row_program(seed)
    shape = ((6, 8), (5, 64), (3, 1), (0, 8), (4, 1032), (40, 24))[seed % 6]
    for dtype in (strata.float32, strata.bfloat16):

        def call(f, dtype=dtype):
            x, w = made(*shape, dtype=dtype), made(*shape[1:], dtype=dtype)
            try:
                return seeded(f, x, w)
            except (RuntimeError, IndexError) as error:  # e.g. the maximum of no elements
                return type(error), str(error)

        assert call(strata.compile(run)) == call(run), dtype


@pytest.mark.parametrize("seed", range(200, 320))
def test_random_programs_op_by_op(seed):
    _C._set_fused_kernels(False)
    run = row_program(seed)
    x, w = made(6, 16), made(16)
    assert_same_bits(run, x, w)


@pytest.mark.parametrize("seed", range(30))
def test_gradients_of_random_programs(seed):
    run = row_program(seed)
    shape = ((6, 8), (5, 64), (4, 1032), (40, 24))[seed % 4]

    train = with_gradients(run)

    for dtype in (strata.float32, strata.bfloat16):

        def call(f, dtype=dtype):
            try:
                return seeded(f, made(*shape, dtype=dtype), made(*shape[1:], dtype=dtype))
            except RuntimeError as error:  # a value that backward needs was overwritten
                return str(error)[:60]

        assert call(strata.compile(train)) == call(train), dtype


# --- gradients ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", (strata.float32, strata.bfloat16), ids=str)
@pytest.mark.parametrize("norm", ("layer_norm", "rms_norm"))
def test_a_norm_of_a_sum_with_dropout_and_its_gradients(norm, dtype):
    x, r, g = (made(40, 256, dtype=dtype, seed=k) for k in range(3))
    w = made(256, dtype=dtype, seed=4)

    def step(x, r, w, g):
        leaves = [t.detach().requires_grad_() for t in (x, r, w, w * 0.5)]
        x, r, w, b = leaves
        y = x + F.dropout(r, 0.1)
        y = F.layer_norm(y, w.shape, w, b) if norm == "layer_norm" else F.rms_norm(y, w.shape, w)
        wanted = leaves if norm == "layer_norm" else leaves[:3]
        return y, strata.autograd.grad(y, wanted, g)

    assert_same_bits(step, x, r, w, g)
    made_groups = groups(step, x, r, w, g)
    (whole,) = [ops for ops, how in made_groups if how == "one kernel"]
    assert whole[:3] == ["native_dropout", "add", norm if norm == "layer_norm" else "fused_rms_norm"]
    assert "row_norm_backward" in whole and whole[-2:] == ["mul", "mul"], whole


def test_gradients_of_softmax():
    x, g = made(9, 128), made(9, 128, seed=2)

    def step(x, g):
        x = x.detach().requires_grad_()
        return strata.autograd.grad(F.softmax(x * 2, -1) + F.log_softmax(x, -1), x, g)

    assert_same_bits(step, x, g)


def loss_and_gradient(x, target, factor=1.0, **options):
    x = x.detach().requires_grad_()
    y = x if factor == 1 else x * factor
    loss = F.cross_entropy(y, target, **options)
    loss.backward()
    return loss, x.grad


@pytest.mark.parametrize("classes", (8, 64, 1000, 4104, 50304))
def test_cross_entropy_and_its_gradient_are_one_kernel(classes):
    targets = strata.randint(0, classes, (5,)).to(DEVICE)
    some = targets.clone()
    some[1] = -100
    for dtype in (strata.float32, strata.bfloat16, strata.float16):
        x = made(5, classes, dtype=dtype)
        for target, options in ((some, {}), (some, {"reduction": "sum"}), (targets, {"ignore_index": int(targets[0])})):
            for factor in (1.0, 1.5):

                def step(x, target, factor=factor, options=options):
                    return loss_and_gradient(x, target, factor, **options)

                assert_same_bits(step, x, target)
                if classes == 50304 and dtype == strata.float32:
                    continue  # a row does not fit the registers
                ((ops, how),) = groups(step, x, target)
                assert how == "one kernel" and ops[-2 - (factor != 1) :][:2] == [
                    "cross_entropy",
                    "cross_entropy_backward",
                ]


def test_other_cross_entropies():
    x, weight = made(6, 64), made(64, seed=2).abs()
    target = strata.randint(0, 64, (6,)).to(DEVICE)

    def steps(x, target, weight):
        whole = loss_and_gradient(x, target, weight=weight), loss_and_gradient(x, target.to(strata.int32).long())
        y = x.detach().requires_grad_()
        each = F.cross_entropy(y * 2, target, reduction="none")
        (grad,) = strata.autograd.grad(each, y, each.detach() * 2)
        loss = F.cross_entropy(x * 2, target, label_smoothing=0.1)
        return whole, each, grad, loss, F.cross_entropy(x[:, 1:] * 2, target % 63), F.cross_entropy(x + 1, target) * 2

    assert_same_bits(steps, x, target, weight)
    ignored = strata.full((6,), -100, dtype=strata.int64, device=DEVICE)
    inf = made(6, 64)
    inf[0, 3], inf[1], inf[2, 5], inf[3, :] = float("nan"), -float("inf"), float("inf"), 7.0
    for values, t in ((x, ignored), (inf, target), (inf, ignored)):
        assert_same_bits(lambda x, t: loss_and_gradient(x, t, 2.0), values, t)


def test_a_target_out_of_range_is_an_error():
    x, target = made(6, 64), strata.full((6,), 64, dtype=strata.int64, device=DEVICE)
    for f in (loss_and_gradient, strata.compile(loss_and_gradient)):
        with pytest.raises(IndexError, match="cross_entropy"):
            f(x, target)[0].item()


def test_a_change_of_the_targets_comes_after_the_loss():
    x, target = made(6, 64), strata.arange(6, device=DEVICE)

    def step(x, target):
        x, target = x.detach().requires_grad_(), target.clone()
        loss = F.cross_entropy(x * 2, target)
        target.fill_(1)
        loss.backward()
        return loss, x.grad, target

    with pytest.raises(RuntimeError):
        step(x, target)
    with pytest.raises(RuntimeError):
        strata.compile(step)(x, target)

    def forward(x, target):
        target = target.clone()
        loss = F.cross_entropy(x * 2, target)
        target.fill_(1)
        return loss, target

    assert_same_bits(forward, x, target)


def test_what_the_sums_over_rows_read_is_not_overwritten():
    x, g, w = made(24, 64), made(24, 64, seed=2), made(64, seed=3)

    def step(x, g, w):
        h = (x * 2).requires_grad_()
        w = w.detach().requires_grad_()
        y = F.layer_norm(h, w.shape, w)
        grads = strata.autograd.grad(y, (h, w), g)
        with strata.no_grad():
            h.detach().mul_(3)
            g.add_(1)
        return grads, h, g

    assert seeded(strata.compile(step), x, g.clone(), w) == seeded(step, x, g.clone(), w)


# --- memory -----------------------------------------------------------------------------------------------------------


def test_results_that_nobody_holds_are_not_stored():
    f = strata.compile(lambda x, w: F.layer_norm(x * 2 + 1, w.shape, w).exp())
    (group,) = f.explain(made(64, 64), made(64)).groups
    assert group["stored"] == 1 and group["bytes"] == 2 * 4 * 64 * 64 + 4 * 64


def test_in_place_writes_and_views():
    x, w = made(6, 32), made(32)

    def f(x, w):
        y = x * 1
        a = F.softmax(y, -1)
        y.mul_(2)
        b = F.layer_norm(y, w.shape, w)
        half = y[:3]
        half.add_(b[3:])
        w2 = w * 1
        c = F.rms_norm(y, w.shape, w2)
        w2.zero_()
        return y, a, b, c, w2, F.rms_norm(y + 1, w.shape, w2 + 1)

    assert_same_bits(f, x, w)


def test_values_can_be_read_at_any_time():
    x, w = made(6, 32), made(32)

    def f(x, w):
        y = F.layer_norm(x * 2, w.shape, w)
        first = y.tolist(), float(y.sum())
        z = F.softmax(y, -1) * y
        return first, z.cpu().tolist(), z.amax(-1).cpu()

    assert repr(strata.compile(f)(x, w)) == repr(f(x, w))


def test_out_of_memory_is_an_error_and_leaves_nothing_behind():
    gpu = getattr(strata, strata.device(DEVICE).type)
    x, r, g, w = made(512, 2048), made(512, 2048), made(512, 2048), made(2048)
    target = strata.zeros(512, dtype=strata.int64, device=DEVICE)

    def step():
        a, b = x.detach().requires_grad_(), w.detach().requires_grad_()
        y = F.layer_norm(a + F.dropout(r, 0.1), w.shape, b)
        grads = strata.autograd.grad(y, (a, b), g, retain_graph=True)
        loss = F.cross_entropy(y * 2, target)
        return loss, grads, strata.autograd.grad(loss, a)

    compiled = strata.compile(step)
    strata.manual_seed(7)
    want = [t.clone() for t in (lambda s: (s[0], *s[1], *s[2]))(step())]
    total, failed = gpu.get_device_properties().total_memory, 0
    try:
        for megabytes in (22, 30, 40, 50, 60, 80, 120, 200):
            gpu.empty_cache()
            gpu.set_per_process_memory_fraction((gpu.memory_reserved() + (megabytes - 20) * 1e6) / total)
            strata.manual_seed(7)
            try:
                compiled()
            except strata.OutOfMemoryError:
                failed += 1
    finally:
        gpu.set_per_process_memory_fraction(1.0)
    assert 0 < failed < 8
    strata.manual_seed(7)
    loss, grads, last = compiled()
    assert all(strata.equal(a, b) for a, b in zip((loss, *grads, *last), want, strict=True))
    before = gpu.memory_allocated()
    del loss, grads, last
    compiled()
    gpu.synchronize()
    assert gpu.memory_allocated() <= before
