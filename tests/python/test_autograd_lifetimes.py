"""Lifetimes of hooks, contexts and graphs, threads that share them, and exceptions in backward."""

import gc
import threading
import weakref

import pytest
import strata
from strata import nn
from strata.autograd import Function


class Keeps(Function):
    """Its context holds its own output."""

    @staticmethod
    def forward(ctx, x):
        ctx.y = x * 2
        return ctx.y

    @staticmethod
    def backward(ctx, g):
        return g * 2


class Watched(nn.Module):
    """A hook of its parameter holds the module."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(strata.ones(10))
        self.w.register_hook(lambda g: g if self.training else g)


def hooked_leaf():
    t = strata.ones(10, requires_grad=True)
    t.register_hook(lambda g: t)
    return t


def hooked_after():
    t = strata.ones(10, requires_grad=True)
    t.register_post_accumulate_grad_hook(lambda _: t)
    return t


def hooked_result():
    t = strata.ones(10, requires_grad=True) * 2
    t.register_hook(lambda g: t)
    return t


def hooked_subclass():
    t = nn.Parameter(strata.ones(3))
    t.itself = t
    t.register_hook(lambda g: t)
    return t


def after_backward():
    t = hooked_leaf()
    (t * 2).sum().backward()
    return t


@pytest.mark.parametrize(
    "make",
    [
        hooked_leaf,
        hooked_after,
        hooked_result,
        hooked_subclass,
        after_backward,
        Watched,
        lambda: Keeps.apply(strata.ones(10, requires_grad=True)),
    ],
)
def test_cycles_through_hooks_and_contexts_are_collected(make):
    gone = weakref.ref(make())
    gc.collect()
    assert gone() is None


def test_a_hook_stays_while_a_graph_needs_it():
    seen = []

    def loss():
        t = strata.ones(3, requires_grad=True)

        def hook(g):
            seen.append((t is not None, g.tolist()))

        t.register_hook(hook)
        return (t * 2).sum()

    value = loss()
    gc.collect()
    value.backward()
    assert seen == [(True, [2, 2, 2])]


def test_a_context_stays_while_a_graph_needs_it():
    x = strata.ones(3, requires_grad=True)
    value = (Keeps.apply(x) * 3).sum()
    gc.collect()
    value.backward()
    assert x.grad.tolist() == [6, 6, 6]


def test_collecting_at_every_step_of_backward():
    before = gc.get_threshold()
    gc.set_threshold(1)
    try:
        for _ in range(50):
            x = strata.ones(3, requires_grad=True)
            x.register_hook(lambda g, x=x: g * x.detach())
            y = Keeps.apply(x)
            y.register_hook(lambda g, y=y: g * 1)
            y.sum().backward()
            assert x.grad.tolist() == [2, 2, 2]
    finally:
        gc.set_threshold(*before)


# --- threads -----------------------------------------------------------------------------------------------------------------


def in_threads(*bodies):
    """Runs the functions in threads of their own; the first exception of any is raised here."""
    errors = []

    def run(body):
        try:
            body()
        except BaseException as e:
            errors.append(e)

    threads = [threading.Thread(target=run, args=(body,)) for body in bodies]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if errors:
        raise errors[0]


def test_hooks_come_and_go_while_others_run_backward():
    w = strata.ones(40000, requires_grad=True)
    y = w * 1

    def backward():
        for _ in range(100):
            (y * 2).sum().backward(retain_graph=True)

    def register():
        for t in (w, y) * 300:
            t.register_hook(lambda g: g).remove()

    in_threads(backward, backward, register, register)
    assert w.grad[0].item() == 400


def test_threads_share_a_graph():
    w = strata.ones(40000, requires_grad=True)
    y = (w * 2).exp().sum()
    in_threads(*[lambda: [y.backward(retain_graph=True) for _ in range(30)]] * 4)
    once = strata.autograd.grad(y, w)[0]
    strata.testing.assert_close(w.grad, once * 120)


def test_a_graph_is_freed_once_however_many_threads_run_it():
    def run(y, done):
        try:
            y.backward()
            done.append(1)
        except RuntimeError as e:
            assert "second time" in str(e)

    for _ in range(30):
        w, done = strata.ones(40000, requires_grad=True), []
        y = (w * 2).exp().sum()
        in_threads(*[lambda y=y, done=done: run(y, done)] * 4)
        assert done


def test_gradients_are_dropped_while_others_run_backward():
    w = strata.ones(40000, requires_grad=True)

    def drop():
        for _ in range(2000):
            w.grad = None
            seen = w.grad  # once: another thread may change it in between
            assert seen is None or seen.shape == w.shape

    in_threads(drop, drop, *[lambda: [(w * 2).sum().backward() for _ in range(100)]] * 3)
    w.grad = None
    (w * 2).sum().backward()
    assert (w.grad == 2).all()


def test_threads_write_to_one_tensor_in_place():
    y = strata.ones(100000, requires_grad=True) * 1
    in_threads(
        lambda: [y[10:].mul_(1.0) for _ in range(100)],
        lambda: [y[:5].add_(1) for _ in range(100)],
        lambda: [y.mul_(1.0) for _ in range(100)],
        lambda: [(y * 2).sum() for _ in range(100)],
    )
    assert y.requires_grad and not y.is_leaf


# --- exceptions --------------------------------------------------------------------------------------------------------------


class Stop(BaseException):
    pass


def fails_in_hook(error):
    x = strata.ones(3, requires_grad=True)
    y = x * 2

    def hook(_):
        raise error

    y.register_hook(hook)
    y.sum().backward()


def fails_in_leaf_hook(error):
    x = strata.ones(3, requires_grad=True)

    def hook(_):
        raise error

    x.register_post_accumulate_grad_hook(hook)
    (x * 2).sum().backward()


def fails_in_backward(error):
    class Fails(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            raise error

    Fails.apply(strata.ones(3, requires_grad=True)).sum().backward()


def fails_in_forward(error):
    class Fails(Function):
        @staticmethod
        def forward(ctx, x):
            raise error

    Fails.apply(strata.ones(3, requires_grad=True))


@pytest.mark.parametrize("error", [KeyboardInterrupt("a"), Stop("a"), ValueError("a"), StopIteration("a")], ids=repr)
@pytest.mark.parametrize("place", [fails_in_hook, fails_in_leaf_hook, fails_in_backward, fails_in_forward])
def test_an_exception_keeps_its_type_and_harms_nothing(place, error):
    with pytest.raises(type(error)) as caught:
        place(error)
    assert caught.value is error
    assert strata.is_grad_enabled()
    x = strata.ones(2, requires_grad=True)
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2, 2]


def test_a_graph_is_still_good_after_an_exception_in_a_hook():
    x = strata.ones(3, requires_grad=True)
    y = (x * 2).exp()
    errors = [KeyboardInterrupt()]

    def hook(_):
        if errors:
            raise errors.pop()

    y.register_hook(hook)
    loss = y.sum()
    with pytest.raises(KeyboardInterrupt):
        loss.backward()
    loss.backward()
    strata.testing.assert_close(x.grad, 2 * (2 * strata.ones(3)).exp())


@pytest.mark.parametrize("result", [5, strata.ones(1), strata.ones(3, dtype=strata.float64)])
def test_what_a_hook_returns_must_look_like_the_gradient(result):
    x = strata.ones(3, requires_grad=True)
    x.register_hook(lambda _: result)
    with pytest.raises((TypeError, RuntimeError), match="hook"):
        (x * 2).sum().backward()


# --- anomaly mode ------------------------------------------------------------------------------------------------------------


def test_anomaly_mode_blames_only_what_computes():
    nan = float("nan")
    scrap = strata.full((1000,), nan)
    del scrap
    with strata.autograd.detect_anomaly():
        strata.empty(1000)
        strata.empty_like(strata.ones(1000))
        strata.ones(2).new_empty(1000)
        strata.full((2,), nan)
        strata.ones(2).fill_(nan)
        strata.ones(2).masked_fill(strata.tensor([True, False]), nan)
        for dtype in (strata.float8_e4m3fn, strata.float8_e5m2):
            strata.ones(2).to(dtype).to(strata.float32)
        strata.cat([strata.full((2,), nan), strata.ones(2)])
        with pytest.raises(RuntimeError, match="returned nan values"):
            strata.zeros(2) / 0
