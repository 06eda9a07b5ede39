"""Replayed calls on a GPU: the work of a call is recorded as one CUDA graph, and later calls launch that.

STRATA_TEST_DEVICE names the device: vgpu (the default) or cuda.
"""

import threading

import pytest
import strata
from gpu_tensors import DEVICE
from strata import nn

GPU = getattr(strata, DEVICE)  # strata.cuda or strata.vgpu
X = strata.arange(24.0).reshape(6, 4) / 7


def replayed(function, **options):
    return strata.compile(function, replay=True, **options)


def facts(f):
    graphs = f.variants().graphs
    return [(g["calls"], g["replayed"], g["launched"]) for g in graphs]


def same_bits(a, b):
    assert a.dtype == b.dtype and a.shape == b.shape and a.stride() == b.stride() and a.device == b.device
    return strata.equal(a.cpu().reshape(-1).view(strata.uint8), b.cpu().reshape(-1).view(strata.uint8))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 3))

    def forward(self, x, scale=1.0):
        return self.layers(x).softmax(-1) * scale, x + 1


def nets():
    """A network and its twin."""
    strata.manual_seed(3)
    net = Net().to(DEVICE)
    twin = Net().to(DEVICE)
    twin.load_state_dict(net.state_dict())
    return net, twin


def compare(f, twin, calls, x=X, **kwargs):
    for k in range(calls):
        results = []
        for function in (f, twin):
            strata.manual_seed(k)
            with strata.no_grad():
                results.append([*function((x + k).to(DEVICE), **kwargs), strata.rand(2)])
        assert all(same_bits(a, b) for a, b in zip(*results, strict=True))


def test_launches_have_the_bits_of_plain_calls():
    net, twin = nets()
    f = replayed(net)
    compare(f, twin, 12)
    assert facts(f) == [(12, 8, 7)]  # of calls 3, 5, 6, 7, 9, ...: the first replayed call runs op by op
    assert "7 as one CUDA graph" in str(f.variants())
    for (name, mine), (_, other) in zip(net.named_buffers(), twin.named_buffers(), strict=True):
        assert same_bits(mine, other), name  # running statistics


def test_weights_that_change_in_place_are_read_and_others_make_a_variant():
    net, twin = nets()
    f = replayed(net)
    compare(f, twin, 6)
    with strata.no_grad():
        for m in (net, twin):
            m.layers[0].weight.mul_(2)
    compare(f, twin, 3)
    assert len(facts(f)) == 1
    for m in (net, twin):
        m.layers[0].weight.data = strata.ones(8, 4, device=DEVICE)
    compare(f, twin, 6)
    net.eval(), twin.eval()
    compare(f, twin, 6)
    compare(f, twin, 6, scale=2.0)
    compare(f, twin, 6, x=X[:1])
    assert len(facts(f)) == 5 and all(launched for _, _, launched in facts(f))


def test_results_that_somebody_holds_are_never_overwritten():
    f = replayed(lambda x: x.exp() * 2)
    held = [(k, f((X + k).to(DEVICE))) for k in range(12)]
    assert facts(f)[0][2] == 7
    for k, y in held:
        assert same_bits(y, ((X + k).to(DEVICE)).exp() * 2)


def test_versions_count_the_writes():
    count = strata.zeros(4, device=DEVICE)

    def program(x):
        count.add_(1)
        return x * count

    f = replayed(program)
    for k in range(1, 13):
        before = count._version
        assert same_bits(f(X.to(DEVICE)), X.to(DEVICE) * k)
        assert count._version == before + 1
    assert facts(f)[0][2] == 7


def test_other_layouts_of_arguments():
    for x in (X.t(), X[:, :1], X[::2], X[:0], X[0, 0], X.to(strata.int32), X.to(strata.bfloat16)):
        f = replayed(lambda x: (x * 2 + 1).sum() + x)
        for k in range(6):
            mine = (x + k).to(DEVICE)
            assert same_bits(f(mine), (mine * 2 + 1).sum() + mine)


@pytest.mark.parametrize(
    ("program", "why"),
    [
        (lambda x: x.add_(1) * 2, "it writes to an argument"),
        (lambda x: (x * W).sum(), "gradients are recorded"),
        (lambda x: (lambda y: (y[0], y[1]))(x * 2), "its results share memory"),
        (lambda x: x.t(), "a result is a view of an argument or a parameter"),
        (lambda x: x.cpu() * 2, "it has tensors on several devices"),
    ],
)
def test_what_is_not_launched_says_why(program, why):
    f = replayed(program)
    for k in range(6):
        x = (X + k).to(DEVICE)
        expected = program(x.clone())
        results = f(x)
        both = zip(results, expected, strict=True) if isinstance(results, tuple) else [(results, expected)]
        assert all(same_bits(a, b) for a, b in both)
    (graph,) = f.variants().graphs
    assert graph["replayed"] == 3 and graph["launched"] == 0
    assert why in graph["not_launched"]


W = strata.ones(4, device=DEVICE).requires_grad_()


def test_other_streams_and_settings_call_the_ops():
    f = replayed(lambda x: x @ x.t() + 1)
    x = X.to(DEVICE)
    expected = x @ x.t() + 1
    for _ in range(6):
        f(x)
    launched = facts(f)[0][2]
    assert launched
    side = GPU.Stream()
    side.wait_stream(GPU.current_stream())
    with GPU.stream(side):
        assert same_bits(f(x), expected)
    assert facts(f)[0][2] == launched
    side.synchronize()
    was = strata.backends.cuda.matmul.allow_tf32
    strata.backends.cuda.matmul.allow_tf32 = not was  # kernels are chosen by it
    try:
        f(x)
        assert facts(f)[0][2] == launched
    finally:
        strata.backends.cuda.matmul.allow_tf32 = was
    assert same_bits(f(x), expected)
    assert facts(f)[0][2] == launched + 1


def test_threads_share_the_recorded_work():
    f = replayed(lambda x: (x * 2 + 1).tanh() @ x.t())
    for _ in range(4):
        f(X.to(DEVICE))
    wrong = []

    def work(k):
        for n in range(10):
            x = (X + n + k).to(DEVICE)
            if not same_bits(f(x), (x * 2 + 1).tanh() @ x.t()):
                wrong.append((k, n))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong and facts(f)[0][2] > 10


def test_memory_is_returned():
    before = GPU.memory_allocated()
    f = replayed(lambda x: (x * 2).exp())
    for _ in range(6):
        f(X.to(DEVICE))
    assert facts(f)[0][2]
    del f
    GPU.synchronize()
    assert GPU.memory_allocated() == before


def test_draws_of_work_that_cannot_be_launched():
    """Recording it may draw numbers before it fails."""
    fast = strata.compile(lambda x: x + strata.randperm(4, device="vgpu") + strata.rand(4, device="vgpu"), replay=True)
    for k in range(8):
        x = strata.ones(4, device="vgpu") * k
        strata.manual_seed(k)
        want = x + strata.randperm(4, device="vgpu") + strata.rand(4, device="vgpu")
        strata.manual_seed(k)
        assert strata.equal(fast(x), want)
    assert "not pinned" in fast.variants().graphs[0]["not_launched"]
