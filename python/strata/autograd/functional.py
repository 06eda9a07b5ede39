"""Derivatives of functions: jacobian, hessian, and their products with vectors. The arguments are PyTorch's."""

from .. import _C
from .modes import enable_grad

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]


def _as_tuple(x, what, who):
    single = isinstance(x, _C.Tensor)
    items = (x,) if single else tuple(x)
    for i, t in enumerate(items):
        if not isinstance(t, _C.Tensor):
            raise TypeError(
                f"{who}: {what} must be a Tensor or a tuple of Tensors; entry {i} is of type {type(t).__name__}"
            )
    return single, items


def _unwrap(items, single):
    return items[0] if single else tuple(items)


def _leaves(inputs, create_graph):
    """The inputs as leaves of a graph; with create_graph results stay connected to the caller's tensors."""
    return tuple(t.view_as(t) if create_graph and t.requires_grad else t.detach().requires_grad_() for t in inputs)


def _run(func, inputs, who):
    single, outputs = _as_tuple(func(*inputs), "the result of func", who)
    return single, outputs


def _grads(outputs, inputs, grad_outputs, create_graph, strict, who):
    from . import grad

    used = [(o, g) for o, g in zip(outputs, grad_outputs, strict=True) if o.requires_grad]
    if strict and len(used) < len(outputs):
        raise RuntimeError(f"{who}: an output of func does not depend on the inputs; strict=True does not allow that")
    found = (None,) * len(inputs)
    if used:
        found = grad(
            [o for o, _ in used],
            inputs,
            [g for _, g in used],
            retain_graph=True,
            create_graph=create_graph,
            allow_unused=True,
        )
    if strict and any(g is None for g in found):
        raise RuntimeError(f"{who}: the outputs do not depend on one of the inputs; strict=True does not allow that")
    return tuple(i.new_zeros(i.shape) if g is None else g for g, i in zip(found, inputs, strict=True))


def _finished(items, create_graph):
    return items if create_graph else tuple(t.detach() for t in items)


def _checked_v(v, like, who):
    """The vector of a product, with the shapes of `like`; None means 1 if there is a single element."""
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise RuntimeError(f"{who}: the vector v can only be None if there is a single value of one element")
        return (like[0].detach().new_ones(like[0].shape),)
    _, v = _as_tuple(v, "v", who)
    if len(v) != len(like):
        raise RuntimeError(f"{who}: v has {len(v)} tensors, expected {len(like)}")
    for i, (a, b) in enumerate(zip(v, like, strict=True)):
        if a.shape != b.shape:
            raise RuntimeError(f"{who}: v[{i}] has shape {tuple(a.shape)}, expected {tuple(b.shape)}")
    return v


def jacobian(func, inputs, create_graph=False, strict=False, vectorize=False, strategy="reverse-mode"):
    """The derivatives of every element of func(*inputs) with respect to every element of the inputs.

    The result for one output and one input has the shape of the output followed by that of the input; for tuples it is a
    tuple per output of one per input.
    """
    if strategy != "reverse-mode":
        raise NotImplementedError(f"jacobian: strategy '{strategy}' is not available; use 'reverse-mode'")
    with enable_grad():
        single_in, given = _as_tuple(inputs, "inputs", "jacobian")
        leaves = _leaves(given, create_graph)
        single_out, outputs = _run(func, leaves, "jacobian")
        rows = []
        for out in outputs:
            by_element = []
            for i in range(out.numel()):
                seed = out.detach().new_zeros(out.numel())
                seed[i] = 1
                by_element.append(_grads((out,), leaves, (seed.view(out.shape),), create_graph, strict, "jacobian"))
            shapes = [tuple(out.shape) + tuple(t.shape) for t in leaves]
            if by_element:
                columns = [
                    _C.ops["stack"](list(c)).view(s) for c, s in zip(zip(*by_element, strict=True), shapes, strict=True)
                ]
            else:
                columns = [out.new_zeros(s) for s in shapes]
            rows.append(_unwrap(_finished(tuple(columns), create_graph), single_in))
    return _unwrap(rows, single_out)


def _single_value(outputs, who):
    if len(outputs) != 1 or outputs[0].numel() != 1:
        raise RuntimeError(f"{who}: func must return a single tensor of one element")
    return outputs[0].reshape(())


def hessian(func, inputs, create_graph=False, strict=False, vectorize=False, outer_jacobian_strategy="reverse-mode"):
    """The second derivatives of a function with a single value: for two inputs, the shape of one followed by the other's."""
    single_in, given = _as_tuple(inputs, "inputs", "hessian")

    def slopes(*values):
        value = _single_value(_run(func, values, "hessian")[1], "hessian")
        return _grads((value,), values, (value.detach().new_ones(()),), True, strict, "hessian")

    rows = jacobian(slopes, given, create_graph, strict, vectorize, outer_jacobian_strategy)
    return rows[0][0] if single_in else rows


def vjp(func, inputs, v=None, create_graph=False, strict=False):
    """func(*inputs), and the vector v times its Jacobian."""
    with enable_grad():
        single_in, given = _as_tuple(inputs, "inputs", "vjp")
        leaves = _leaves(given, create_graph)
        single_out, outputs = _run(func, leaves, "vjp")
        found = _grads(outputs, leaves, _checked_v(v, outputs, "vjp"), create_graph, strict, "vjp")
    return _unwrap(_finished(outputs, create_graph), single_out), _unwrap(_finished(found, create_graph), single_in)


def _push(func, inputs, v, create_graph, strict, who):
    """The Jacobian times v by two reverse passes: the vjp is linear in its vector, and its own vjp is the jvp."""
    _, given = _as_tuple(inputs, "inputs", who)
    leaves = _leaves(given, create_graph)
    v = _checked_v(v, leaves, who)
    single_out, outputs = _run(func, leaves, who)
    seeds = tuple(o.detach().new_zeros(o.shape).requires_grad_() for o in outputs)
    pulled = _grads(outputs, leaves, seeds, True, strict, who)
    return single_out, outputs, _grads(pulled, seeds, v, create_graph, False, who)


def jvp(func, inputs, v=None, create_graph=False, strict=False):
    """func(*inputs), and its Jacobian times the vector v."""
    with enable_grad():
        single_out, outputs, found = _push(func, inputs, v, create_graph, strict, "jvp")
    return _unwrap(_finished(outputs, create_graph), single_out), _unwrap(_finished(found, create_graph), single_out)


def _second_order(func, inputs, v, create_graph, strict, who):
    with enable_grad():
        single_in, given = _as_tuple(inputs, "inputs", who)
        leaves = _leaves(given, create_graph)
        value = _single_value(_run(func, leaves, who)[1], who)
        slopes = _grads((value,), leaves, (value.detach().new_ones(()),), True, strict, who)
        found = _grads(slopes, leaves, _checked_v(v, leaves, who), create_graph, strict, who)
    return value if create_graph else value.detach(), _unwrap(_finished(found, create_graph), single_in)


def hvp(func, inputs, v=None, create_graph=False, strict=False):
    """func(*inputs), and its Hessian times the vector v."""
    return _second_order(func, inputs, v, create_graph, strict, "hvp")


def vhp(func, inputs, v=None, create_graph=False, strict=False):
    """func(*inputs), and the vector v times its Hessian, which is symmetric."""
    return _second_order(func, inputs, v, create_graph, strict, "vhp")
