"""Functions of functions, as in torch.func: gradients and Jacobians of pure functions; they can be nested.

Each runs its function with inputs that record, and differentiates the result with create_graph, so that an outer transform can
differentiate again. Where no argument records, results are detached: a tensor that the function takes from outside is a constant
for derivatives of the result, so pass it as an argument.
"""

from . import _C
from .autograd import enable_grad
from .autograd import grad as _grad
from .torch.functions import vmap
from .utils import _pytree

__all__ = ["grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "stack_module_state", "vjp", "vmap"]


def _is_recorded(tree):
    return any(isinstance(t, _C.Tensor) and t.requires_grad for t in _pytree.tree_leaves(tree))


def _recording(tree):
    """The same values as tensors to differentiate with respect to."""

    def one(t):
        if not isinstance(t, _C.Tensor) or not t.is_floating_point():
            return t
        return t.view_as(t) if t.requires_grad else t.detach().requires_grad_()

    return _pytree.tree_map(one, tree)


def _finished(tree, outside):
    if outside:
        return tree
    return _pytree.tree_map(lambda t: t.detach() if isinstance(t, _C.Tensor) else t, tree)


def _gradients(outputs, inputs, grads=None):
    """Gradients with respect to each leaf of a tree; zeros for one that does not matter."""
    leaves, spec = _pytree.tree_flatten(inputs)
    found = _grad(outputs, leaves, grads, create_graph=True, allow_unused=True)
    filled = [t.new_zeros(t.shape) if g is None else g for g, t in zip(found, leaves, strict=True)]
    return _pytree.tree_unflatten(filled, spec)


def grad_and_value(func, argnums=0, has_aux=False):
    """A function that returns (gradient, value) of func, whose value is one number."""

    def wrapped(*args, **kwargs):
        numbers = (argnums,) if isinstance(argnums, int) else argnums
        outside = _is_recorded((args, kwargs))
        with enable_grad():
            inputs = {i: _recording(args[i]) for i in numbers}
            result = func(*(inputs.get(i, a) for i, a in enumerate(args)), **kwargs)
            value, aux = result if has_aux else (result, None)
            if not isinstance(value, _C.Tensor) or value.dim() != 0:
                found = list(value.shape) if isinstance(value, _C.Tensor) else type(value).__name__
                raise RuntimeError(f"grad: expected a function that returns a tensor without dimensions, found {found}")
            slopes = _gradients(value, [inputs[i] for i in numbers])
        slopes = slopes[0] if isinstance(argnums, int) else tuple(slopes)
        return _finished((slopes, (value, aux) if has_aux else value), outside)

    return wrapped


def grad(func, argnums=0, has_aux=False):
    """A function that returns the gradient of func with respect to an argument.

    >>> strata.func.grad(lambda x: x.sin())(strata.tensor(0.0))
    tensor(1.)
    """
    both = grad_and_value(func, argnums, has_aux)

    def wrapped(*args, **kwargs):
        slopes, value = both(*args, **kwargs)
        return (slopes, value[1]) if has_aux else slopes

    return wrapped


def vjp(func, *primals, has_aux=False):
    """(value, function): the function multiplies a vector with the Jacobian of func from the left."""
    outside = _is_recorded(primals)
    with enable_grad():
        inputs = _recording(primals)
        result = func(*inputs)
    value, aux = result if has_aux else (result, None)
    outputs = _pytree.tree_leaves(value)

    def product(*cotangents):
        given = _pytree.tree_leaves(cotangents if len(cotangents) > 1 else cotangents[0])
        return _finished(tuple(_gradients(outputs, list(inputs), given)), outside or _is_recorded(cotangents))

    value = _finished(value, outside)
    return (value, product, aux) if has_aux else (value, product)


def jvp(func, primals, tangents, *, has_aux=False):
    """(value, the Jacobian of func times the tangents), by differentiating a product with vectors twice."""
    outside = _is_recorded((primals, tangents))
    with enable_grad():
        inputs = _recording(tuple(primals))
        result = func(*inputs)
        value, aux = result if has_aux else (result, None)
        outputs, spec = _pytree.tree_flatten(value)
        weights = [o.new_zeros(o.shape).requires_grad_() for o in outputs]
        slopes = _pytree.tree_leaves(_gradients(outputs, list(inputs), weights))
        products = _grad(slopes, weights, _pytree.tree_leaves(tuple(tangents)), create_graph=True, allow_unused=True)
        filled = [w.new_zeros(w.shape) if p is None else p for p, w in zip(products, weights, strict=True)]
    tangent = _pytree.tree_unflatten(filled, spec)
    done = _finished((value, tangent), outside)
    return (*done, aux) if has_aux else done


def jacrev(func, argnums=0, *, has_aux=False, chunk_size=None):
    """A function that returns the Jacobian of func: the shape of the result, then that of the argument."""

    def wrapped(*args, **kwargs):
        numbers = (argnums,) if isinstance(argnums, int) else argnums
        outside = _is_recorded((args, kwargs))
        with enable_grad():
            inputs = {i: _recording(args[i]) for i in numbers}
            result = func(*(inputs.get(i, a) for i, a in enumerate(args)), **kwargs)
            value, aux = result if has_aux else (result, None)
            leaves = [inputs[i] for i in numbers]

            def of_output(y):
                rows = [_gradients(row, leaves) for row in y.reshape(-1)]
                columns = [_C.ops["stack"]([r[k] for r in rows]) for k in range(len(leaves))]
                shaped = [c.reshape(*y.shape, *x.shape) for c, x in zip(columns, leaves, strict=True)]
                return shaped[0] if isinstance(argnums, int) else tuple(shaped)

            jacobian = _pytree.tree_map(of_output, value)
        jacobian = _finished(jacobian, outside)
        return (jacobian, aux) if has_aux else jacobian

    return wrapped


jacfwd = jacrev


def hessian(func, argnums=0):
    """A function that returns the second derivatives of func."""
    return jacrev(jacrev(func, argnums), argnums)


def stack_module_state(models):
    """(parameters, buffers) of several modules of one kind, each stacked along a new first dimension."""
    if not models:
        raise RuntimeError("stack_module_state: expected at least one model")

    def joined(tables):
        return {name: _C.ops["stack"]([t[name].detach() for t in tables]) for name in tables[0]}

    parameters = joined([dict(m.named_parameters()) for m in models])
    return {n: p.requires_grad_() for n, p in parameters.items()}, joined([dict(m.named_buffers()) for m in models])
