"""Replayed calls: gradients that a program cuts or starts, audits, errors, copies, threads, memory."""

import copy
import gc
import threading
import weakref

import pytest
import strata
from compiled_programs import same_bits
from strata import nn

X = strata.arange(12.0).reshape(3, 4) / 7


def gradient_after(f, x):
    x = x.detach().clone().requires_grad_()
    results = f(x)
    flags = [t.requires_grad for t in results]
    total = sum(t.sum() for t in results if t.requires_grad)
    return flags, x.tolist(), strata.autograd.grad(total, x)[0].tolist() if any(flags) else None


def test_gradients_that_a_program_cuts_or_starts():
    """detach(), .data, writes without gradients and requires_grad_(): replayed calls have the gradients of plain ones."""

    def detached(x):
        sought = x.detach()
        strata.searchsorted(x.flatten(), sought)  # calls an op that returns it
        return x * x.detach(), x.detach(), (x.detach() * 2 + x).sum(), (x * 3).data * x, sought

    def used_in_place(x):
        y = x * 2
        y.detach().mul_(3)
        return y * x, y

    def written(x):
        with strata.no_grad():
            x.mul_(2)
        return (x * x,)

    def written_in_part(x):
        with strata.no_grad():
            x[0] = 5
        return (x * x,)

    def written_at_the_end(x):
        y = x * x
        x.detach().add_(1)
        return (y,)

    def started(x):
        return x.detach().exp().requires_grad_(), x * 1

    def inside(x):
        w = (x * 2).detach().requires_grad_()
        (g,) = strata.autograd.grad((w * w).sum(), w)
        return (x * g,)

    for f, replays in (
        (detached, True),
        (used_in_place, False),
        (written, False),
        (written_in_part, False),
        (written_at_the_end, None),
        (started, False),
        (inside, True),
    ):
        fast = strata.compile(f, replay=True)
        for k in range(6):
            x = strata.arange(1.0, 5.0) + k
            want = got = None
            try:
                want = gradient_after(f, x)
            except RuntimeError as error:
                want = str(error)
            try:
                got = gradient_after(fast, x)
            except RuntimeError as error:
                got = str(error)
            assert got == want, f.__name__
        (graph,) = fast.variants().graphs
        if replays is not None:
            assert (graph["replayed"] > 0) == replays, (f.__name__, graph["refused"])


def test_an_audit_finds_what_is_not_guarded():
    hidden = {1.0}  # the contents of sets are not guarded
    f = strata.compile(lambda x: x * next(iter(hidden)), replay=True)
    f(X), f(X), f(X)
    hidden.clear()
    hidden.add(2.0)
    with pytest.raises(RuntimeError, match=r"audit.*mul at test_replay_calls.py:\d+ got other=2"):
        f(X)
    assert same_bits(f(X), X * 2)  # from now on the function runs


def test_fullgraph_names_the_line():
    f = strata.compile(lambda x: x * x.sum().item(), replay=True, fullgraph=True)
    with pytest.raises(RuntimeError, match=r"fullgraph=True.*reads values.*test_replay_calls.py"):
        f(X)


def test_the_mode_of_pytorch_replays():
    f = strata.compile(lambda x: x + 1, mode="reduce-overhead")
    for _ in range(4):
        f(X)
    assert f.variants().graphs[0]["replayed"] == 1 and "1 of 4 calls" in str(f.variants())
    assert "replay=True" in str(strata.compile(lambda x: x).variants())


def test_copies_record_their_own_graphs():
    f = strata.compile(nn.Linear(4, 4), replay=True)
    for _ in range(4):
        f(X)
    twin = copy.deepcopy(f)
    assert same_bits(twin(X), f(X)) and len(twin.variants().graphs) == 1
    assert twin.variants().graphs[0]["replayed"] == 0


def test_graphs_are_released_with_their_function():
    net = nn.Linear(4, 4)
    net.compiled = strata.compile(net.forward, replay=True)  # a cycle
    for _ in range(4):
        net.compiled(X)
    gone = weakref.ref(net)
    del net
    gc.collect()
    assert gone() is None


def test_threads_share_a_function():
    net = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    f, wrong = strata.compile(net, replay=True), []

    def work(k):
        for n in range(50):
            x = X + n + k
            if not strata.equal(f(x), net(x)):
                wrong.append((k, n))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_on_the_virtual_gpu():
    net = nn.Sequential(nn.Linear(4, 4), nn.GELU()).to("vgpu")
    f = strata.compile(net, replay=True)
    x = X.to("vgpu")
    for step in range(6):
        assert same_bits(f(x + step).cpu(), net(x + step).cpu())
    assert f.variants().graphs[0]["replayed"] == 3


def test_large_pointwise_ops_are_still_fused():
    f = strata.compile(lambda x: (x * 2 + 1).tanh() * x, replay=True)
    x = strata.randn(300, 300)
    for _ in range(6):
        assert same_bits(f(x), (x * 2 + 1).tanh() * x)


POOLS = {
    "max_pool1d": lambda x: strata.nn.functional.max_pool1d(x, 2),
    "avg_pool1d": lambda x: strata.nn.functional.avg_pool1d(x, 2),
    "conv1d": lambda x: strata.nn.functional.conv1d(x, strata.ones(4, 4, 1, dtype=x.dtype)),
    "mean": lambda x: strata.stack([x, x]).mean(0),
    "modules": lambda x: nn.Unflatten(1, (4, 3))(nn.Flatten()(x * 1)),
}


@pytest.mark.parametrize("name", POOLS)
def test_writes_to_views_of_what_composites_return(name):
    """A composite may end with a view of memory that nobody else has; a followed one returns the same kind of tensor."""

    def program(x):
        y = POOLS[name](x)
        part = y.view_as(y)
        used = y.unflatten(1, (2, -1))
        kind = y._is_view(), y._base is None
        part.index_fill_(0, strata.zeros(1, dtype=strata.long), 2)
        y[..., :1] *= 3
        loss = (y * y).sum() + used.sum()
        grads = strata.autograd.grad(loss, [y, x], allow_unused=True)
        return kind, loss.detach(), [g for g in grads if g is not None], len([g for g in grads if g is None])

    f = strata.compile(program, replay=True)
    for k in range(5):
        x = (strata.arange(24.0).double().reshape(2, 4, 3) + k).requires_grad_()
        (kind, loss, grads, missing), want = f(x), program(x)
        assert (kind, missing) == (want[0], want[3]) and same_bits(loss, want[1])
        assert all(same_bits(a, b) for a, b in zip(grads, want[2], strict=True))


def test_a_function_of_the_user_that_returns_a_view_of_its_own_memory():
    class Twice(strata.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return (x * 2).unsqueeze(0)

        @staticmethod
        def backward(ctx, g):
            return g[0] * 2

    def program(x):
        y = Twice.apply(x)
        y.mul_(3)
        return y._is_view(), strata.autograd.grad(y.sum(), x)[0]

    f = strata.compile(program, replay=True)
    for _ in range(4):
        x = strata.ones(3, requires_grad=True)
        (is_view, grad), want = f(x), program(x)
        assert is_view == want[0] and same_bits(grad, want[1])


def test_one_value_as_two_objects():
    """x and x.data have the same memory, but flags and histories of their own."""

    def program(x):
        drawn = strata.bernoulli(x.sigmoid())
        with strata.no_grad():
            y = x * 2
        (drawn * drawn).sum().backward()
        return drawn, drawn.data, y, y, y.data

    f = strata.compile(program, replay=True)
    for _ in range(5):
        x = strata.randn(3, requires_grad=True)
        got, want = f(x), program(x)
        assert [t.requires_grad for t in got] == [t.requires_grad for t in want]
        same = [[a is b for a in results] for results in (got, want) for b in results]
        assert same[:5] == same[5:]
        version = got[2]._version
        got[4].add_(1)  # counts its writes apart
        assert got[2]._version == version and strata.equal(got[2], got[4])
    assert f.variants().graphs[0]["replayed"] == 2


def test_hooks_are_guarded():
    """Hooks that a call registers, and those that its backward passes run: the function runs."""
    seen, x = [], strata.ones(3, requires_grad=True)

    def registers(x):
        x.register_hook(seen.append)
        return x * 2

    f = strata.compile(registers, replay=True)
    for _ in range(5):
        f(strata.ones(2, requires_grad=True)).sum().backward()
    assert len(seen) == 5 and "hook" in f.variants().graphs[0]["refused"]

    g = strata.compile(lambda x: strata.autograd.grad((x * x).sum(), x)[0], replay=True)
    for _ in range(5):
        assert g(x).tolist() == [2, 2, 2]
    handle = x.register_hook(lambda gradient: gradient * seen.append(1) if False else gradient * 3)
    for _ in range(5):
        assert g(x).tolist() == [6, 6, 6]
    handle.remove()
    assert g(x).tolist() == [2, 2, 2]


def test_writes_through_detached_views_leave_gradients_alone():
    def program(x):
        y = x * 1.0
        y.detach().diagonal().fill_(5)
        return y * 1.0, y

    def recorded(x):
        y = x * 1.0
        y.detach().mul_(x)  # of which the detached tensor has a gradient, and y has none
        return y * 1.0, y

    for run in (program, recorded):
        f = strata.compile(run, replay=True)
        for _ in range(5):
            x = strata.randn(3, 3, requires_grad=True)
            for got, want in zip(f(x), run(x), strict=True):
                assert same_bits(got, want)
                pair = [strata.autograd.grad(t.sum(), x, retain_graph=True)[0] for t in (got, want)]
                assert pair[0].tolist() == pair[1].tolist() == strata.ones(3, 3).tolist()


def test_overwritten_values_raise_in_backward():
    def program(x):
        y = x.exp()
        z = y * 2
        y.mul_(3)
        return z

    f = strata.compile(program, replay=True)
    for _ in range(5):
        x = strata.randn(3, requires_grad=True)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            f(x).sum().backward()
    assert "overwrites what exp has saved" in f.variants().graphs[0]["refused"]


@pytest.mark.parametrize("write", ["mul_(y)", "addcmul_(y, y)", "add_(y, alpha=3)", "sub_(y * 2).mul_(y)"])
def test_sums_of_gradients_keep_their_order(write):
    def program(x):
        y = strata.nn.functional.elu(x)
        drawn = y + 1
        eval(f"y.{write}", {"y": y})
        return y, drawn

    f = strata.compile(program, replay=True)
    for k in range(6):
        strata.manual_seed(k)
        x = strata.randn(50, requires_grad=True)
        g = strata.randn(50)
        pair = [strata.autograd.grad(p(x)[0], x, g)[0] for p in (f, program)]
        assert same_bits(*pair)
    assert f.variants().graphs[0]["replayed"] == 3


def test_memory_that_changes_hands():
    def exchanged(x):
        a, b = x * 2, x * 3
        b.data = a
        return a, b

    def data_of_arguments(x):
        return x.data, x.data.requires_grad_()

    for run in (exchanged, data_of_arguments):
        f = strata.compile(run, replay=True)
        for _ in range(5):
            x = strata.randn(3, requires_grad=True)
            for got, want in zip(f(x), run(x), strict=True):
                assert same_bits(got, want) and got is not x and got.is_leaf == want.is_leaf
                if want.requires_grad:
                    pair = [
                        strata.autograd.grad(t.sum(), x, allow_unused=True, retain_graph=True)[0] for t in (got, want)
                    ]
                    assert str(pair[0]) == str(pair[1])
    with strata.no_grad():
        f = strata.compile(lambda x: x.data, replay=True)
        x = strata.ones(3)
        assert all(f(x) is not x for _ in range(5))


def test_views_whose_tape_is_used_up():
    def program(x):
        y = x * 2
        part = y[:2]  # gets the history of the write when it is next used
        y.mul_(x)
        y.sum().backward()
        return part

    f = strata.compile(program, replay=True)
    for _ in range(5):
        with pytest.raises(RuntimeError, match="second time"):
            f(strata.randn(3, requires_grad=True)).sum().backward()
