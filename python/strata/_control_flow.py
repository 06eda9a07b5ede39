"""cond, while_loop and scan: decisions and loops by values of tensors, as functions. Graphs hold them as nodes with both branches and
the body of the loop, so that a graph decides again in each run."""

import numbers
import sys

from . import _C
from .nn.parameter import Buffer, Parameter
from .utils import _pytree

__all__ = ["cond", "scan", "while_loop"]


def cond(pred, true_fn, false_fn, operands=()):
    """true_fn(*operands) if pred holds, else false_fn(*operands).

    `pred` is a tensor with one element, or a bool or number, which is decided at once. Both functions return tensors in the same
    structure (tuples, lists, dicts), with the same dtypes and shapes. They are pure: they write neither to their operands nor to tensors
    from outside, which they may use. In a capture (`strata.export`, `strata.compile(replay=True)`) both run, and the graph
    holds both. Gradients flow through the function that ran; results share no memory with operands.

    >>> strata.cond(strata.tensor(False), lambda x: x + 1, lambda x: x - 1, (strata.ones(2),))
    tensor([0., 0.])
    """
    _check_functions("cond", true_fn=true_fn, false_fn=false_fn)
    if not isinstance(operands, tuple | list):
        raise TypeError(f"cond: expected a tuple of operands, got {type(operands).__name__}")
    if not isinstance(pred, _C.Tensor):
        if not isinstance(pred, numbers.Number):
            raise TypeError(f"cond: expected pred to be a tensor with one element or a bool, got {type(pred).__name__}")
        return (true_fn if pred else false_fn)(*operands)
    arguments = _Tree(tuple(operands))
    if _runs_plainly(pred, *arguments.tensors):
        return (true_fn if pred else false_fn)(*operands)
    specs = {}

    def branch(taken, function):
        def call(tensors):
            leaves, specs[taken] = _flatten(function(*arguments.filled(tensors)))
            return _tensors(leaves, "cond: true_fn" if taken else "cond: false_fn")

        return call

    def mismatch():
        if specs[True] == specs[False]:
            return ""
        return (
            f"cond: true_fn returned {_shown(specs[True])}, false_fn {_shown(specs[False])}; in a graph they must have the "
            "same structure"
        )

    taken, results = _C._cond(pred, branch(True, true_fn), branch(False, false_fn), arguments.tensors, mismatch)
    return _unflatten(results, specs[taken])


def while_loop(cond_fn, body_fn, carried_inputs, *, max_trips=None):
    """Replaces `carried_inputs` by body_fn(*carried_inputs) while cond_fn(*carried_inputs) holds; returns them as a tuple.

    They are a tuple of tensors, or of lists and dicts of them; numbers become tensors. body_fn returns the same structure (of a
    single one also without the tuple), dtypes and shapes, cond_fn a tensor with one element (outside of captures also a bool). The
    functions are pure, as those of `cond`, and a graph holds both. `max_trips` ends the loop after so many trips.

    >>> strata.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (strata.tensor(0), strata.ones(2)))
    (tensor(3), tensor([8., 8.]))
    """
    _check_functions("while_loop", cond_fn=cond_fn, body_fn=body_fn)
    if not isinstance(carried_inputs, tuple | list) or not carried_inputs:
        raise TypeError(
            f"while_loop: expected a tuple of carried inputs that is not empty, got {type(carried_inputs).__name__}"
        )
    leaves, spec = _flatten(tuple(carried_inputs))
    carried = _tensors(leaves, "while_loop: carried_inputs")

    def go_on(tensors):
        value = cond_fn(*_unflatten(tensors, spec))
        if isinstance(value, _C.Tensor):
            return [value]
        if not isinstance(value, numbers.Number):
            raise TypeError(f"while_loop: cond_fn returned {type(value).__name__}; expected a tensor with one element")
        if _C._makes_graph():
            raise TypeError(
                f"while_loop: cond_fn returned {value!r}, which a graph cannot decide again in each trip; it must compute a tensor"
            )
        return [_C.ops["full"]([], bool(value))]

    def body(tensors):
        results = body_fn(*_unflatten(tensors, spec))
        if len(carried_inputs) == 1 and not isinstance(results, tuple | list):
            results = (results,)
        if not isinstance(results, tuple | list):
            raise TypeError(
                f"while_loop: body_fn returned {type(results).__name__}; expected a tuple of {len(carried_inputs)}"
            )
        new, new_spec = _flatten(tuple(results))
        _check_structure("while_loop: body_fn returned", new_spec, spec, "carried_inputs are")
        return _tensors(new, "while_loop: body_fn")

    if not _runs_plainly(*carried):
        results = _C._while_loop(go_on, body, carried, max_trips)
    else:
        results, trips = carried, 0
        while (max_trips is None or trips < max_trips) and go_on(results)[0]:
            results, trips = body(results), trips + 1
    return _unflatten(results, spec)


def scan(combine_fn, init, xs, *, dim=0, reverse=False, length=None):
    """The loop `carry = init; for x in xs: carry, y = combine_fn(carry, x)`; returns the last carry and all y, stacked.

    `init` and `xs` are tensors or tuples, lists and dicts of them. All of xs have the same size along `dim`, along which they are
    sliced and the results stacked. With `reverse`, the last slice is the first; results are in the order of xs. xs may be
    None if `length` is given. The carry keeps its structure, dtypes and shapes; combine_fn is pure, as the functions of `cond`.

    >>> strata.scan(lambda carry, x: (carry + x, carry * x), strata.tensor(0.0), strata.arange(4.0))
    (tensor(6.), tensor([0., 0., 2., 9.]))
    """
    _check_functions("scan", combine_fn=combine_fn)
    carried, carry_spec = _flatten(init)
    given, x_spec = ([], None) if xs is None else _flatten(xs)
    for x in given:
        if not isinstance(x, _C.Tensor):
            raise TypeError(f"scan: expected tensors as xs, got {type(x).__name__}")
    if not given and length is None:
        raise ValueError("scan: without tensors in xs, expected a length")
    y_spec = None

    def combine(tensors):
        nonlocal y_spec
        carry = _unflatten(tensors[: len(carried)], carry_spec)
        x = None if xs is None else _unflatten(tensors[len(carried) :], x_spec)
        pair = combine_fn(carry, x)
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise TypeError(f"scan: combine_fn returned {type(pair).__name__}; expected (carry, y)")
        new, new_spec = _flatten(pair[0])
        _check_structure("scan: combine_fn returned a carry", new_spec, carry_spec, "init is")
        ys, spec = ([], 0) if pair[1] is None else _flatten(pair[1])
        if y_spec is not None:
            _check_structure("scan: combine_fn returned y", spec, y_spec[0], "in the first call it was")
        y_spec = spec, pair[1] is None
        return _tensors(new, "scan: the carry") + _tensors(ys, "scan: y")

    carried = _tensors(carried, "scan: init")
    if _runs_plainly(*carried, *given):
        results = _scan_plainly(combine, carried, given, dim, reverse, length)
    else:
        results = _C._scan(combine, carried, given, dim, reverse, length)
    ys = None if y_spec[1] else _unflatten(results[len(carried) :], y_spec[0])
    return _unflatten(results[: len(carried)], carry_spec), ys


def _flatten(tree):
    """The leaves and the structure: None for a leaf, a number for a tuple of so many leaves, else a TreeSpec."""
    if type(tree) is tuple:
        for item in tree:
            if not isinstance(item, _LEAVES):
                return _pytree.tree_flatten(tree)
        return list(tree), len(tree)
    return ([tree], None) if isinstance(tree, _LEAVES) else _pytree.tree_flatten(tree)


def _unflatten(leaves, spec):
    if spec is None:
        return leaves[0]
    return tuple(leaves) if type(spec) is int else _pytree.tree_unflatten(list(leaves), spec)


class _Tree:
    """Arguments of which the tensors are passed on; what else there is stays."""

    def __init__(self, tree):
        self.leaves, self.spec = _flatten(tree)
        self.tensors = [leaf for leaf in self.leaves if isinstance(leaf, _C.Tensor)]

    def filled(self, tensors):
        rest = iter(tensors)
        leaves = [next(rest) if isinstance(leaf, _C.Tensor) else leaf for leaf in self.leaves]
        return _unflatten(leaves, self.spec)


def _check_functions(name, **functions):
    for argument, function in functions.items():
        if not callable(function):
            raise TypeError(f"{name}: expected {argument} to be a function, got {type(function).__name__}")


def _check_structure(what, found, expected, where):
    if found != expected:
        raise ValueError(f"{what} {_shown(found)}; {where} {_shown(expected)}")


class _Leaf:
    def __repr__(self):
        return "Tensor"


def _shown(spec):
    count = 1 if spec is None else spec if type(spec) is int else spec.num_leaves
    return repr(_unflatten([_Leaf()] * count, spec))


def _tensors(leaves, what):
    """The leaves; numbers become tensors."""
    for leaf in leaves:
        if type(leaf) not in _PLAIN:
            return [_tensor_of(leaf, what) for leaf in leaves]
    return leaves


def _tensor_of(leaf, what):
    if isinstance(leaf, _C.Tensor):
        if type(leaf) not in _PLAIN and not _runs_plainly():
            kind = type(leaf).__name__
            raise TypeError(f"{what}: a tensor of type {kind} can only be returned if one is an argument")
        return leaf
    if isinstance(leaf, numbers.Number):
        return _C.ops["full"]([], leaf)
    raise TypeError(f"{what}: expected tensors, got {type(leaf).__name__}")


_PLAIN = (_C.Tensor, Parameter, Buffer)
_VMAP, _FORWARD = f"{__package__}._vmap.core", f"{__package__}.autograd.forward_ad"
_LEAVES = (_C.Tensor, int, float, numbers.Number)


def _runs_plainly(*tensors):
    """Whether the functions must run in Python: for tensors that see the ops themselves (vmap, forward mode, other subclasses)."""
    for t in tensors:
        if type(t) not in _PLAIN:
            return True
    vmap, forward = sys.modules.get(_VMAP), sys.modules.get(_FORWARD)  # imported on first use
    return (vmap is not None and bool(vmap.active_levels())) or (forward is not None and forward._level is not None)


def _scan_plainly(combine, carry, xs, dim, reverse, length):
    slices = list(zip(*(x.unbind(dim) for x in xs), strict=True)) if xs else [()] * length
    if not slices:
        raise ValueError("scan: a length of 0 is not possible for tensors of this type")
    rows = []
    for x in reversed(slices) if reverse else slices:
        results = combine([*carry, *x])
        carry = results[: len(carry)]
        rows.append(results[len(carry) :])
    if reverse:
        rows.reverse()
    return [*carry, *(_C.ops["stack"](list(y), dim) for y in zip(*rows, strict=True))]
