"""Hooks and metadata of grad_fn. The numbers are those of PyTorch."""

import pytest
import strata
from strata.autograd.graph import (
    Node,
    get_gradient_edge,
    increment_version,
    queue_callback,
    register_multi_grad_hook,
    saved_tensors_hooks,
)


def leaf(*shape):
    n = strata.Size(shape).numel()
    return (strata.arange(float(n)).reshape(shape) * 0.5 + 1).requires_grad_()


def lists(tensors):
    return [None if t is None else t.tolist() for t in tensors]


CASES = [  # function, shapes of the inputs, grad_inputs
    (lambda a, b: a * b, [(2,), (2,)], [[1.0, 1.5], [1.0, 1.5]]),
    (lambda a, b: a + b, [(2,), (2,)], [[1.0, 1.0], [1.0, 1.0]]),
    (lambda a, b: a * b, [(2, 1), (2,)], [[[2.5], [2.5]], [2.5, 2.5]]),
    (lambda a, b: strata.cat([a, b]), [(2,), (1,)], [[1.0, 1.0], [1.0]]),
    (lambda a, b: a @ b, [(2, 2), (2,)], [[[1.0, 1.5], [1.0, 1.5]], [3.0, 4.0]]),
    (lambda a: a * 3, [(2,)], [[3.0, 3.0]]),
]


@pytest.mark.parametrize("function, shapes, expected", CASES)
def test_hooks_see_gradients(function, shapes, expected):
    inputs = [leaf(*s) for s in shapes]
    y = function(*inputs)
    log = []
    after = y.grad_fn.register_hook(lambda gi, go: log.append(("after", lists(gi), lists(go))))
    y.grad_fn.register_prehook(lambda go: log.append(("before", lists(go))))
    ones = strata.ones_like(y).tolist()
    y.sum().backward(retain_graph=True)
    assert log == [("before", [ones]), ("after", expected, [ones])]
    assert lists(x.grad for x in inputs) == expected
    after.remove()
    y.sum().backward()
    assert log[2:] == [("before", [ones])]


def test_returned_tuples_replace_gradients():
    a, b = leaf(2), leaf(2)
    y = a * b
    y.grad_fn.register_hook(lambda gi, go: (gi[0] * 10, None))
    y.grad_fn.register_prehook(lambda go: (go[0] * 2,))
    y.sum().backward()
    assert a.grad.tolist() == [20.0, 30.0] and b.grad is None
    y = leaf(2).exp()
    y.grad_fn.register_hook(lambda gi, go: (gi[0], gi[0]))
    with pytest.raises(RuntimeError, match="must return 1 gradients"):
        y.sum().backward()

    def broken(*_):
        raise KeyError("from the hook")

    y = leaf(2).exp()
    y.grad_fn.register_hook(broken)
    with pytest.raises(KeyError, match="from the hook"):
        y.sum().backward()


def test_second_derivatives_pass_through_nodes_with_hooks():
    def second(hooked):
        x = leaf(2)
        y = (x**3).exp()
        if hooked:
            y.grad_fn.register_hook(lambda gi, go: None)
            y.grad_fn.next_functions[0][0].register_hook(lambda gi, go: None)
        (g,) = strata.autograd.grad(y.sum(), x, create_graph=True)
        return strata.autograd.grad(g.sum(), x)[0]

    assert strata.allclose(second(True), second(False))


def test_freed_values_are_reported():
    y = leaf(2).exp()
    y.grad_fn.register_hook(lambda gi, go: None)
    y.sum().backward()
    with pytest.raises(RuntimeError, match="a second time"):
        y.sum().backward()
    z = leaf(2).exp()
    z.sum().backward()
    z.grad_fn.register_hook(lambda gi, go: None)  # too late, but no harm
    with pytest.raises(RuntimeError, match="a second time"):
        z.sum().backward()


def test_overwritten_values_are_reported():
    v = leaf(2).exp()
    v.grad_fn.register_hook(lambda gi, go: None)
    with strata.no_grad():
        v.add_(1)
    with pytest.raises(RuntimeError, match="inplace"):
        v.sum().backward()
    other = strata.ones(2)
    u = leaf(2) * other
    other.add_(1)
    with pytest.raises(RuntimeError, match="inplace"):
        u.grad_fn.register_hook(lambda gi, go: None)


def test_user_functions_and_packed_nodes():
    class Square(strata.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            return ctx.saved_tensors[0] * 2 * g

    x = leaf(2)
    y = Square.apply(x)
    y.grad_fn.register_hook(lambda gi, go: (gi[0] + 1,))
    y.sum().backward()
    assert x.grad.tolist() == [3.0, 4.0]
    x = leaf(2)
    with saved_tensors_hooks(lambda t: t * 1, lambda t: t):
        y = x * x
    y.grad_fn.register_hook(lambda gi, go: (gi[0], gi[1] * 2))
    y.sum().backward()
    assert x.grad.tolist() == [3.0, 4.5]


def test_accumulation():
    x = leaf(2)
    end = x.view_as(x).grad_fn.next_functions[0][0]
    seen = []
    end.register_prehook(lambda go: (go[0] * 2,))
    handle = end.register_hook(lambda gi, go: seen.append((gi, lists(go), x.grad is not None)))
    (x * 3).sum().backward()
    assert seen == [((), [[6.0, 6.0]], True)] and x.grad.tolist() == [6.0, 6.0]
    handle.remove()
    (x * 3).sum().backward()
    assert len(seen) == 1
    assert end == x.view_as(x).grad_fn.next_functions[0][0]


def test_identity_and_metadata():
    y = leaf(2) * 2
    y.grad_fn.metadata["k"] = 1
    assert y.grad_fn.metadata == {"k": 1}
    assert y.grad_fn == y.grad_fn and len({y.grad_fn, y.grad_fn}) == 1 and y.grad_fn != (leaf(2) * 2).grad_fn
    y.sum().backward()
    assert repr(y.grad_fn) == "<MulBackward0>"


def test_multi_grad_hooks():
    a, b, c = leaf(2), leaf(2), strata.ones(2)
    seen = []
    handle = register_multi_grad_hook((a, c, b), lambda gradients: seen.append(lists(gradients)))
    first = register_multi_grad_hook((a, b), lambda gradient: seen.append(gradient.tolist()), mode="any")
    (a * 2 + b * 3).sum().backward()
    assert [2.0, 2.0] in seen or [3.0, 3.0] in seen
    assert [[2.0, 2.0], None, [3.0, 3.0]] in seen and len(seen) == 2
    first.remove()
    (a * 2).sum().backward()  # b has no gradient: the pass ends with what there is
    assert seen[2:] == [[[2.0, 2.0], None, None]]
    (a * 2 + b * 4).sum().backward()
    assert seen[3:] == [[[2.0, 2.0], None, [4.0, 4.0]]]
    handle.remove()
    (a + b).sum().backward()
    assert len(seen) == 4
    with pytest.raises(ValueError, match="mode"):
        register_multi_grad_hook((a,), print, mode="some")


def test_callbacks_at_the_end_of_a_pass():
    seen = []
    a = leaf(2)
    a.register_hook(lambda g: queue_callback(lambda: seen.append(a.grad.tolist())))
    (a * 3).sum().backward()
    assert seen == [[3.0, 3.0]]
    with pytest.raises(RuntimeError, match="during backward"):
        queue_callback(print)

    def broken():
        raise KeyError("from the callback")

    b = leaf(2)
    b.register_hook(lambda g: queue_callback(broken))
    with pytest.raises(KeyError, match="from the callback"):
        b.sum().backward()
    with pytest.raises(KeyError, match="from the callback"):
        strata.autograd.grad(b.sum(), b)
    (a * 3).sum().backward()
    assert seen == [[3.0, 3.0], [6.0, 6.0]]


def test_gradient_edges_and_versions():
    a = leaf(2)
    y = a * 2
    edge = get_gradient_edge(y)
    assert edge.node == y.grad_fn and isinstance(edge.node, Node) and edge.output_nr == 0
    assert isinstance(get_gradient_edge(a).node, Node) and get_gradient_edge(a).node.variable is a
    with pytest.raises(RuntimeError, match="does not require gradients"):
        get_gradient_edge(strata.ones(1))
    z = (y * y).sum()
    increment_version(y)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()


def test_types_of_nodes_have_their_names():
    class Twice(strata.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    x = leaf(2)
    y = Twice.apply(x)
    assert type(y.grad_fn).__name__ == y.grad_fn.name() == "TwiceBackward"
    assert type((y * 2).grad_fn).__name__ == "MulBackward0" and "TwiceBackward" in repr(y)
    assert type(y.grad_fn.next_functions[0][0]).__name__ == "AccumulateGrad"
