"""Functions of functions, as in torch.func: gradients and Jacobians of pure functions; they can be nested.

Each runs its function with inputs that record, and differentiates the result; with create_graph where an outer transform can
differentiate again. Where no argument records, results are detached: a tensor that the function takes from outside is a constant
for derivatives of the result, so pass it as an argument.

Inside of vmap() an input is given a copy per slice (in the same memory), so that its gradient is that of each slice: the
tape holds the batched ops, and knows nothing of vmap().
"""

from . import _C
from ._vmap.api import everywhere, plain_of, rewrapped, vmap
from ._vmap.core import VmapError, active_levels
from .autograd import enable_grad
from .autograd import grad as _grad
from .utils import _pytree

ops = _C.ops


def _tensors(tree):
    return [t for t in _pytree.tree_leaves(tree) if isinstance(t, _C.Tensor)]


def _is_recorded(tree):
    return any(t.requires_grad for t in _tensors(tree))


def _recording(tree):
    """The same values as tensors to differentiate with respect to."""
    levels = active_levels()

    def one(t):
        if not isinstance(t, _C.Tensor) or not (t.is_floating_point() or t.is_complex()):
            return t
        with _C.DisableTorchFunction():
            plain = everywhere(t, levels)
            plain = plain.view_as(plain) if plain.requires_grad else plain.detach().requires_grad_()
            return rewrapped(plain, levels)

    return _pytree.tree_map(one, tree)


def _finished(tree, outside):
    if outside:
        return tree
    return _pytree.tree_map(lambda t: t.detach() if isinstance(t, _C.Tensor) else t, tree)


def _pulled(outputs, inputs, cotangents=None, create_graph=True):
    """Gradients of a list of outputs with respect to each leaf of a tree of inputs; zeros for one that does not matter."""
    leaves, spec = _pytree.tree_flatten(inputs)
    with _C.DisableTorchFunction():
        of_inputs = [plain_of(t) for t in leaves]
        rows, weights = [], []
        for k, y in enumerate(outputs):
            plain, levels = plain_of(y)
            if not plain.requires_grad:
                continue
            rows.append(plain)
            vector = ops["ones_like"](plain) if cotangents is None else everywhere(cotangents[k], levels)
            if vector.dim() != plain.dim():
                raise VmapError("vjp: the vectors are batched by a vmap() that the function was not called in")
            weights.append(vector)
        plains = [t for t, _ in of_inputs]
        wanted = [i for i, t in enumerate(plains) if t.requires_grad]
        found = [None] * len(plains)
        if rows and wanted:
            slopes = _grad(
                rows, [plains[i] for i in wanted], weights, True, create_graph=create_graph, allow_unused=True
            )
            for i, g in zip(wanted, slopes, strict=True):
                found[i] = g
        filled = [ops["zeros_like"](t) if g is None else g for g, t in zip(found, plains, strict=True)]
        filled = [rewrapped(g, levels) for g, (_, levels) in zip(filled, of_inputs, strict=True)]
    return _pytree.tree_unflatten(filled, spec)


def _numbers(argnums, args):
    numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    for i in numbers:
        if not -len(args) <= i < len(args):
            raise RuntimeError(f"Got argnum={i}, but only {len(args)} positional inputs")
    return tuple(i % len(args) for i in numbers)


def _split_aux(result, has_aux):
    if not has_aux:
        return result, None
    if not isinstance(result, tuple) or len(result) != 2:
        raise RuntimeError(
            f"with has_aux=True the function must return a tuple (output, aux), found {type(result).__name__}"
        )
    return result


def grad_and_value(func, argnums=0, has_aux=False):
    """A function that returns (gradient, value) of func, whose value is one number."""

    def wrapped(*args, **kwargs):
        numbers = _numbers(argnums, args)
        outside = _is_recorded((args, kwargs))
        with enable_grad():
            inputs = {i: _recording(args[i]) for i in numbers}
            value, aux = _split_aux(func(*(inputs.get(i, a) for i, a in enumerate(args)), **kwargs), has_aux)
            if not isinstance(value, _C.Tensor) or value.dim() != 0:
                found = list(value.shape) if isinstance(value, _C.Tensor) else type(value).__name__
                raise RuntimeError(f"grad: expected a function that returns a tensor without dimensions, found {found}")
            slopes = _pulled([value], [inputs[i] for i in numbers], create_graph=outside)
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
    state = _C.default_generator.get_state()
    with enable_grad():
        inputs = _recording(primals)
        value, aux = _split_aux(func(*inputs), has_aux)
    outputs = _pytree.tree_leaves(value)
    known = active_levels()

    def product(*cotangents):
        given = _pytree.tree_leaves(cotangents if len(cotangents) > 1 else cotangents[0])
        if len(given) != len(outputs):
            raise RuntimeError(f"vjp: expected {len(outputs)} vectors, one per output, got {len(given)}")
        recorded = outside or _is_recorded(cotangents)
        if any(level not in known for t in given for level in plain_of(t)[1]):
            return _finished(_again(given), recorded)
        return _finished(tuple(_pulled(outputs, list(inputs), given, create_graph=recorded)), recorded)

    def _again(given):
        """Inside of a newer vmap(): the function runs once more, with an input per vector, and the same random numbers."""
        now = _C.default_generator.get_state()
        levels = [level for level in active_levels() if level not in known]
        before = [level.randomness for level in levels]
        _C.default_generator.set_state(state)
        for level in levels:
            level.randomness = "same"
        try:
            with enable_grad():
                again = _recording(primals)
                second, _ = _split_aux(func(*again), has_aux)
                return tuple(_pulled(_pytree.tree_leaves(second), list(again), given))
        finally:
            for level, randomness in zip(levels, before, strict=True):
                level.randomness = randomness
            _C.default_generator.set_state(now)

    value = _finished(value, outside)
    return (value, product, aux) if has_aux else (value, product)


def jvp(func, primals, tangents, *, strict=False, has_aux=False):
    """(value, the Jacobian of func times the tangents), by differentiating a product with vectors twice."""
    outside = _is_recorded((primals, tangents))
    with enable_grad():
        inputs = _recording(tuple(primals))
        value, aux = _split_aux(func(*inputs), has_aux)
        outputs, spec = _pytree.tree_flatten(value)
        weights = _recording([ops["zeros_like"](o).detach() for o in outputs])
        slopes = _pytree.tree_leaves(_pulled(outputs, list(inputs), weights))
        filled = _pulled(slopes, weights, _pytree.tree_leaves(tuple(tangents)), create_graph=outside)
    tangent = _pytree.tree_unflatten(filled, spec)
    done = _finished((value, tangent), outside)
    return (*done, aux) if has_aux else done


def linearize(func, *primals):
    """(value, function): the function multiplies the Jacobian of func at the primals with tangents."""
    value = func(*primals)
    return value, lambda *tangents: jvp(func, primals, tangents)[1]


def _basis(leaves):
    """For each tensor [N, *shape]: the unit vectors of all of them, one after another."""
    total, start, found = sum(t.numel() for t in leaves), 0, []
    for t in leaves:
        n = t.numel()
        block = ops["zeros"]([total, n], dtype=t.dtype, device=t.device)
        block[start : start + n] = ops["eye"](n, dtype=t.dtype, device=t.device)
        found.append(block.reshape(total, *t.shape))
        start += n
    return found, total


def jacrev(func, argnums=0, *, has_aux=False, chunk_size=None, _preallocate_and_copy=False):
    """A function that returns the Jacobian of func: the shape of the result, then that of the argument.

    All rows are computed at once, or chunk_size of them: the function runs for one copy of the argument per row."""

    def wrapped(*args, **kwargs):
        numbers = _numbers(argnums, args)

        def inner(*these):
            given = dict(zip(numbers, these, strict=True))
            return func(*(given.get(i, a) for i, a in enumerate(args)), **kwargs)

        primals = tuple(args[i] for i in numbers)
        value, product, *aux = vjp(inner, *primals, has_aux=has_aux)
        outputs, spec = _pytree.tree_flatten(value)
        basis, total = _basis(outputs)
        rows = _rows(lambda *v: product(*v), basis, total, chunk_size)
        leaves, in_spec = _pytree.tree_flatten(rows)
        jacobians, start = [], 0
        for y in outputs:
            parts = [r[start : start + y.numel()].reshape(*y.shape, *r.shape[1:]) for r in leaves]
            tree = _pytree.tree_unflatten(parts, in_spec)
            jacobians.append(tree[0] if isinstance(argnums, int) else tuple(tree))
            start += y.numel()
        jacobian = _pytree.tree_unflatten(jacobians, spec)
        return (jacobian, aux[0]) if has_aux else jacobian

    return wrapped


def _rows(product, basis, total, chunk_size):
    """product for all unit vectors: batched, or one by one where the function cannot be batched."""
    if total > 1 and chunk_size != 1:
        try:
            return vmap(product, randomness="same", chunk_size=chunk_size)(*basis)
        except VmapError:
            pass
    each = [product(*(b[i] for b in basis)) for i in range(total)]
    if not each:
        found = product(*(b.new_zeros(b.shape[1:]) for b in basis))
        return _pytree.tree_map(lambda t: t.new_zeros([0, *t.shape]), found)
    leaves = [_pytree.tree_flatten(e) for e in each]
    joined = [ops["stack"](list(parts)) for parts in zip(*[flat for flat, _ in leaves], strict=True)]
    return _pytree.tree_unflatten(joined, leaves[0][1])


def jacfwd(func, argnums=0, has_aux=False, *, randomness="error"):
    """A function that returns the Jacobian of func, computed column by column: for functions of few numbers."""

    def wrapped(*args, **kwargs):
        numbers = _numbers(argnums, args)
        primals = tuple(args[i] for i in numbers)
        leaves, spec = _pytree.tree_flatten(list(primals))
        basis, total = _basis(leaves)
        last = []

        def column(*tangents):
            def inner(*these):
                given = dict(zip(numbers, these, strict=True))
                return func(*(given.get(i, a) for i, a in enumerate(args)), **kwargs)

            value, tangent, *aux = jvp(
                inner, primals, tuple(_pytree.tree_unflatten(list(tangents), spec)), has_aux=has_aux
            )
            last[:] = aux
            return tangent

        columns = _rows(column, basis, total, None)
        flat, out_spec = _pytree.tree_flatten(columns)
        results = []
        for c in flat:
            parts, start = [], 0
            for x in leaves:
                part = c[start : start + x.numel()].reshape(*x.shape, *c.shape[1:])
                lead = list(range(x.dim()))
                parts.append(part.movedim(lead, [d - x.dim() for d in lead]) if lead else part)
                start += x.numel()
            tree = _pytree.tree_unflatten(parts, spec)
            results.append(tree[0] if isinstance(argnums, int) else tuple(tree))
        jacobian = _pytree.tree_unflatten(results, out_spec)
        return (jacobian, _first_slice(last[0])) if has_aux else jacobian

    return wrapped


def _first_slice(tree):
    """Auxiliary results are the same for all columns."""
    return _pytree.tree_map(lambda t: plain_of(t)[0][0] if isinstance(t, _C.Tensor) and plain_of(t)[1] else t, tree)


def hessian(func, argnums=0):
    """A function that returns the second derivatives of func."""
    return jacfwd(jacrev(func, argnums), argnums)


def stack_module_state(models):
    """(parameters, buffers) of several modules of one kind, each stacked along a new first dimension."""
    if not models:
        raise RuntimeError("stack_module_state: expected at least one model")

    def joined(tables):
        return {name: ops["stack"]([t[name].detach() for t in tables]) for name in tables[0]}

    parameters = joined([dict(m.named_parameters()) for m in models])
    return {n: p.requires_grad_() for n, p in parameters.items()}, joined([dict(m.named_buffers()) for m in models])
