"""Matrix products on a device, each kernel by itself: small integers exactly, normal numbers against float64. All orders of both factors,
sizes and addresses off the vectors, batches, what is added, outputs with strides. On cuda with cuBLASLt, and on a Hopper (test_virtual_hopper.py
has a virtual one) with its kernels."""

import itertools
import os
import threading

import numpy as np
import pytest
import strata
from strata import _C

F = strata.nn.functional
DEVICE = os.environ.get("STRATA_TEST_DEVICE", "vgpu")
ON_CARD = DEVICE == "cuda"
GPU = getattr(strata, DEVICE)
ON_HOPPER = GPU.get_device_capability()[0] == 9
HALVES = [strata.bfloat16, strata.float16]
# The error of one rounding of the result, and of sums in float.
ERRORS = {strata.bfloat16: 4e-3, strata.float16: 5e-4, strata.float32: 2e-6, strata.float64: 1e-14}
SIZES = [(2, 3, 5), (17, 33, 65), (64, 64, 64), (65, 129, 31), (130, 70, 257)]
if ON_CARD:
    SIZES += [(1, 7, 300), (5, 260, 64), (16, 40, 100), (260, 259, 130), (512, 520, 256), (1023, 1025, 200)]
SCALE = 9 if ON_CARD else 1  # an odd factor for the other sizes, with which they are large enough for cuBLASLt
LEAST_FOR_CUBLASLT = 1 << 26  # multiplications


def entries(dtype):
    """Kernels for tensor cores and cuBLASLt that this device has."""
    size = 512 if ON_CARD else 64
    x = strata.ones(size, size, dtype=dtype, device=DEVICE)
    ready = []
    for name in ("hopper", "cublaslt", "tensor_cores", "tiles"):
        _C._prefer_kernel(name)
        try:
            lines = strata.explain(strata.mm, x, x)
        finally:
            _C._prefer_kernel(None)
        if lines[-1][1] == name:
            ready.append(name)
    return ready


KERNELS = [(dtype, name) for dtype in HALVES for name in entries(dtype) if name != "tiles"]
WIDE = [(d, name) for d in (strata.float32, strata.float64) for name in entries(d)]
every_kernel = pytest.mark.parametrize(("dtype", "kernel"), KERNELS)


def run_explained(kernel, f, *args, must=True, **kwargs):
    """The result of f, and what explain() says of the op that has this kernel; `must`: it is to be chosen."""
    results = []
    _C._prefer_kernel(kernel)
    try:
        lines = _C.explain(lambda: results.append(f(*args, **kwargs)))  # of several threads at once
    finally:
        _C._prefer_kernel(None)
    verdicts = [reason for _, name, reason in lines if name == kernel and reason.startswith("chosen")]
    assert len(verdicts) == 1 or not must, lines
    return results[0], verdicts


def run(kernel, f, *args, **kwargs):
    return run_explained(kernel, f, *args, **kwargs)[0]


def integers(rng, *shape, dtype):
    return strata.tensor(rng.integers(-4, 5, shape).astype(np.float32)).to(dtype).to(DEVICE)


def wide(t):
    return t.detach().cpu().to(strata.float64).numpy()


def rounded(values, dtype):
    return strata.tensor(values).to(dtype).to(strata.float64).numpy()


def same(got, want, dtype, kernel=None):
    """Rounded once. For some sizes cuBLASLt rounds the product before it adds to it: then up to two units apart."""
    apart = {strata.bfloat16: 2.0**-6, strata.float16: 2.0**-9}[dtype] if kernel == "cublaslt" else 0
    np.testing.assert_allclose(wide(got), rounded(want, dtype), rtol=apart, atol=8 * apart)


def ordered(t, transposed):
    """The same values, with the last two dimensions in the other order in memory."""
    return t.transpose(-2, -1).contiguous().transpose(-2, -1) if transposed else t


@every_kernel
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_all_orders_of_both_factors(size, dtype, kernel):
    m, n, k = size
    rng = np.random.default_rng(1)
    a, b = integers(rng, m, k, dtype=dtype), integers(rng, k, n, dtype=dtype)
    want = wide(a) @ wide(b)
    must = not {"tensor_cores": 1 in (m, n), "cublaslt": m * n * k < LEAST_FOR_CUBLASLT}.get(kernel, False)
    for left, right in itertools.product([False, True], repeat=2):
        same(run(kernel, strata.mm, ordered(a, left), ordered(b, right), must=must), want, dtype)


@pytest.mark.parametrize(("dtype", "kernel"), KERNELS + WIDE)
def test_normal_numbers(dtype, kernel):
    rng = np.random.default_rng(2)
    for m, n, k in [(300, 500, 4000), (1024, 1024, 1024)] if ON_CARD else [(64, 48, 500), (33, 72, 96)]:
        a = strata.tensor(rng.standard_normal((m, k))).to(dtype)
        b = strata.tensor(rng.standard_normal((k, n))).to(dtype)
        got = wide(run(kernel, strata.matmul, a.to(DEVICE), b.to(DEVICE)))
        want = wide(a) @ wide(b)
        assert np.linalg.norm(got - want) <= ERRORS[dtype] * np.linalg.norm(want)


@every_kernel
@pytest.mark.parametrize("offset", range(1, 9))
def test_addresses_and_rows_off_the_vectors(offset, dtype, kernel):
    m, n, k = 40 * SCALE, 56 * SCALE, 72 * SCALE
    rng = np.random.default_rng(offset)
    a = integers(rng, m * k + 16, dtype=dtype)[offset : offset + m * k].view(m, k)
    b = integers(rng, k, n + 16, dtype=dtype)[:, offset : offset + n]
    out = strata.full((m, n + 16), float("nan"), dtype=dtype, device=DEVICE)
    want = wide(a) @ wide(b)
    same(run(kernel, strata.mm, a, b), want, dtype)
    same(run(kernel, strata.mm, b.T, a.T), want.T, dtype)
    run(kernel, strata.mm, a, b, out=out[:, offset : offset + n])
    same(out[:, offset : offset + n], want, dtype)
    assert np.isnan(wide(out[:, :offset])).all() and np.isnan(wide(out[:, offset + n :])).all()


@every_kernel
def test_outputs_with_strides(dtype, kernel):
    rng = np.random.default_rng(3)
    m, n, k = 37 * SCALE, 100 * SCALE, 48 * SCALE
    a, b = integers(rng, m, k, dtype=dtype), integers(rng, k, n, dtype=dtype)
    want = wide(a) @ wide(b)
    columns = strata.zeros(n, m, dtype=dtype, device=DEVICE).T
    run(kernel, strata.mm, a, b, out=columns)
    same(columns, want, dtype)
    apart = strata.full((m, 2 * n), 7.0, dtype=dtype, device=DEVICE)
    strata.mm(a, b, out=apart[:, ::2])  # neither rows nor columns are dense: another kernel's
    same(apart[:, ::2], want, dtype)
    assert (wide(apart[:, 1::2]) == 7).all()


@every_kernel
def test_batches(dtype, kernel):
    rng = np.random.default_rng(4)
    m, n, k = 33 * SCALE, 47 * SCALE, 40 * SCALE
    a, b = integers(rng, 5, m, k, dtype=dtype), integers(rng, 5, k, n, dtype=dtype)
    for left, right in itertools.product([False, True], repeat=2):
        same(run(kernel, strata.bmm, ordered(a, left), ordered(b, right)), wide(a) @ wide(b), dtype)
    one = integers(rng, k, n, dtype=dtype)
    same(run(kernel, strata.matmul, a.transpose(1, 2), a), wide(a).transpose(0, 2, 1) @ wide(a), dtype)
    same(run(kernel, strata.matmul, a, one), wide(a) @ wide(one), dtype)
    same(run(kernel, strata.matmul, one.T, a.transpose(1, 2)), wide(one).T @ wide(a).transpose(0, 2, 1), dtype)
    two = integers(rng, 2, 1, m // 2, k, dtype=dtype)
    same(run(kernel, strata.matmul, two, b), wide(two) @ wide(b), dtype)


@every_kernel
@pytest.mark.parametrize("width", [16, 20])
def test_heads_of_attention_without_copies(width, dtype, kernel):
    rng = np.random.default_rng(5)
    q, k = (integers(rng, 3, 37 * SCALE, 4, width * SCALE, dtype=dtype).transpose(1, 2) for _ in range(2))
    same(run(kernel, strata.matmul, q, k.transpose(-2, -1)), wide(q) @ wide(k).swapaxes(-2, -1), dtype)


@every_kernel
def test_what_is_added(dtype, kernel):
    rng = np.random.default_rng(6)
    m, n, k = 45 * SCALE, 70 * SCALE, 33 * SCALE
    a, b = integers(rng, m, k, dtype=dtype), integers(rng, k, n, dtype=dtype)
    product = wide(a) @ wide(b)
    for shape in [(m, n), (n,), (1, n), (m, 1), (1,), ()]:
        c = integers(rng, *shape, dtype=dtype)
        same(run(kernel, strata.addmm, c, a, b), product + wide(c), dtype, kernel)
        same(run(kernel, strata.addmm, c, a, b, beta=3, alpha=-2), 3 * wide(c) - 2 * product, dtype, kernel)
        columns = strata.empty(n, m, dtype=dtype, device=DEVICE).T
        same(run(kernel, strata.addmm, c, a, b, out=columns), product + wide(c), dtype, kernel)
    nothing = strata.full((m, n), float("nan"), dtype=dtype, device=DEVICE)
    same(run(kernel, strata.addmm, nothing, a, b, beta=0), product, dtype)
    c = integers(rng, n, m, dtype=dtype).T
    want = wide(c) + product
    run(kernel, c.addmm_, a, b)
    same(c, want, dtype, kernel)
    x, y = integers(rng, 3, m, k, dtype=dtype), integers(rng, 3, k, n, dtype=dtype)
    for shape in [(3, m, n), (m, n), (n,), (3, 1, n), (3, m, 1)]:
        c = integers(rng, *shape, dtype=dtype)
        same(run(kernel, strata.baddbmm, c, x, y, beta=2), wide(x) @ wide(y) + 2 * wide(c), dtype, kernel)


@every_kernel
def test_linear_layers(dtype, kernel):
    rng = np.random.default_rng(7)
    outputs, inputs = 80 * SCALE, 70 * SCALE
    weight, bias = integers(rng, outputs, inputs, dtype=dtype), integers(rng, outputs, dtype=dtype)
    for shape in [(17 * SCALE,), (3, 11 * SCALE)]:
        x = integers(rng, *shape, inputs, dtype=dtype)
        same(run(kernel, F.linear, x, weight, bias), wide(x) @ wide(weight).T + wide(bias), dtype)
        same(run(kernel, F.linear, x, weight), wide(x) @ wide(weight).T, dtype)
        same(
            run(kernel, F.linear, x, weight, bias[3:4].expand(outputs)), wide(x) @ wide(weight).T + wide(bias[3]), dtype
        )


@pytest.mark.parametrize("dtype", [strata.bfloat16, strata.float16, strata.float32, strata.float64])
def test_matrices_times_vectors(dtype):
    rng = np.random.default_rng(10)
    for m, k in [(1, 1), (70, 130), (65, 128), (1000, 16), (4099, 40)]:
        a, x = integers(rng, m, k, dtype=dtype), integers(rng, k, dtype=dtype)
        want = wide(a) @ wide(x)
        for transposed in (False, True):
            y = ordered(a, transposed)
            same(strata.mv(y, x), want, dtype)
            same(strata.matmul(y, x), want, dtype)
            same(strata.matmul(x, y.T), want, dtype)
        same(strata.dot(x, x), (wide(x) ** 2).sum(), dtype)


@pytest.mark.parametrize("dtype", [strata.bfloat16, strata.float16, strata.float32, strata.float64])
@pytest.mark.parametrize("n", [64, 129, 4100])
def test_the_kernel_for_vectors(n, dtype):
    rng = np.random.default_rng(11)
    piece = 16 // dtype.itemsize
    for k in [1, piece, 5 * piece + 1, 300]:
        room = -(-k // piece) * piece  # rows start at multiples of 16 bytes
        w, x, c = (integers(rng, *shape, dtype=dtype) for shape in [(n, room), (k,), (n,)])
        w = w[:, :k]
        want = wide(w) @ wide(x)
        same(run("matrix_vector", strata.mv, w, x), want, dtype)
        same(run("matrix_vector", F.linear, x.view(1, k), w, c)[0], want + wide(c), dtype)
        same(
            run("matrix_vector", strata.addmm, c, x.view(1, k), w.T, beta=3, alpha=-2)[0], 3 * wide(c) - 2 * want, dtype
        )
    out = strata.full((2, n), 7.0, dtype=dtype, device=DEVICE)
    lines = strata.explain(strata.mv, w[:, 1:], x[1:])  # rows off the vectors: another kernel's
    assert lines[-1][1] != "matrix_vector"
    strata.mv(w, x, out=out[1])
    same(out[1], want, dtype)
    assert (wide(out[0]) == 7).all()


def test_gradients_agree_with_the_cpu():
    rng = np.random.default_rng(8)
    values = [rng.integers(-3, 4, shape).astype(np.float32) for shape in ((9, 30), (50, 30), (50,))]
    grads = []
    for device in ("cpu", DEVICE):
        leaves = [strata.tensor(v).to(strata.bfloat16).to(device).requires_grad_() for v in values]
        F.linear(*leaves).sum().backward()
        grads.append([wide(leaf.grad) for leaf in leaves])
    for here, there in zip(*grads, strict=True):
        np.testing.assert_array_equal(there, here)


@pytest.mark.parametrize("dtype", HALVES)
def test_empty_sizes(dtype):
    for m, n, k in [(0, 4, 5), (4, 0, 5), (4, 5, 0), (0, 0, 0)]:
        a, b = strata.ones(m, k, dtype=dtype, device=DEVICE), strata.ones(k, n, dtype=dtype, device=DEVICE)
        got = strata.mm(a, b)
        assert got.shape == (m, n) and (wide(got) == 0).all()
        c = strata.ones(m, n, dtype=dtype, device=DEVICE)
        assert (wide(strata.addmm(c, a, b)) == 1).all()


def test_every_entry_tells_its_reason():
    x = strata.ones(64, 64, dtype=strata.bfloat16, device=DEVICE)
    _C._prefer_kernel("tiles")
    try:
        lines = {name: reason for _, name, reason in strata.explain(strata.mm, x, x)}
    finally:
        _C._prefer_kernel(None)
    elsewhere = "for GPUs of compute capability 9.0 (Hopper)"
    assert (
        lines["hopper_ahead"]
        == lines["hopper"]
        == ("ready, but tiles is preferred; plan medium" if ON_HOPPER else elsewhere)
    )
    if not ON_CARD:
        assert lines["cublaslt"] == "cuBLASLt runs on device cuda"
    assert lines["tensor_cores"] == "ready, but tiles is preferred; plan 64x64"
    assert strata.explain(strata.mm, x, x)[-1][1] == ("hopper_ahead" if ON_HOPPER else "tensor_cores")
    assert "for float16" in dict(line[1:] for line in strata.explain(strata.mm, x.float(), x.float()))["tensor_cores"]


# Sizes for which kernels choose each of their shapes of tiles.
PLANS = {
    "tensor_cores": ({"64x64", "128x128"}, [(48, 64, 40), (1600, 1592, 40)]),
    "hopper": (
        {"huge", "wide", "large", "medium", "small", "flat"},
        [(16, 4096, 512), (20000, 50, 100), (1024, 1024, 256), (1280, 1280, 520), (1536, 1536, 520), (4096, 4096, 64)]
        + [(200, 3000, 520), (8192, 2048, 72), (4100, 4097, 65), (129, 20000, 65), (2047, 130, 1030), (64, 640, 64)]
        if ON_CARD  # otherwise for a virtual Hopper of 4 multiprocessors
        else [
            (16, 256, 128),
            (300, 50, 100),
            (250, 190, 72),
            (500, 120, 512),
            (600, 400, 65),
            (500, 520, 72),
            (512, 512, 64),
        ],
    ),
}


@pytest.mark.parametrize(("dtype", "kernel"), [pair for pair in KERNELS if pair[1] in PLANS])
def test_every_shape_of_tiles(dtype, kernel):
    rng = np.random.default_rng(9)
    plans, sizes = PLANS[kernel]
    seen = set()
    for m, n, k in sizes:
        a, b = integers(rng, m, k, dtype=dtype), integers(rng, k, n, dtype=dtype)
        want = wide(a) @ wide(b)
        for left, right in itertools.product([False, True], repeat=2) if ON_HOPPER else [(False, False)]:
            x, y = ordered(a, left), ordered(b, right)
            got, verdicts = run_explained(kernel, strata.mm, x, y)
            seen |= {plan for plan in plans if f"plan {plan}" in verdicts[0]}
            same(got, want, dtype)
    assert seen == plans


@pytest.mark.parametrize(("dtype", "kernel"), KERNELS + WIDE)
def test_graphs_and_threads(dtype, kernel):
    k = 512 if ON_CARD else 64
    a, w = (strata.full((n, k), value, dtype=dtype, device=DEVICE) for n, value in [(256, 1.0), (640, 1 / k)])
    bias = strata.full((640,), 2.0, dtype=dtype, device=DEVICE)
    graph = GPU.CUDAGraph()
    with GPU.graph(graph):
        got = run(kernel, F.linear, a, w, bias)
    for value in (2.0, 5.0):
        a.fill_(value)
        graph.replay()
        GPU.synchronize()
        assert (wide(got) == value + 2).all()
    wrong = []

    def work(number):
        with GPU.stream(GPU.Stream()):
            own = strata.full((640,), float(number), dtype=dtype, device=DEVICE)
            for _ in range(20):
                if not (wide(run(kernel, F.linear, a, w, own)) == 5 + number).all():
                    wrong.append(number)

    a.fill_(5.0)
    GPU.synchronize()
    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
