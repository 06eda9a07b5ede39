"""The tensors that vmap() passes to its function, and the mode that sees every call with them.

A BatchedTensor has the shape of one slice and holds all slices, the batch as the first dimension. Each call of vmap() is a
Level, a function mode: it replaces its batched arguments by what they hold and runs the rule of the op. Levels nest: what a
batched tensor of an inner level holds may be a batched tensor of an outer one, whose mode sees the ops of the inner rules.
"""

import threading
import warnings

from .. import _C
from .._held import HoldingTensor

Tensor, ops = _C.Tensor, _C.ops
_set_handlers = _C._set_override_handlers
_empty, _make = ops["empty"], Tensor._make_subclass

RULES = {}  # name of an op: rule(level, func, args, kwargs)
RANDOM = {}  # the same for ops that draw random numbers; called without batched arguments too
_warned = set()
_state = threading.local()


class VmapError(RuntimeError):
    """Something that cannot be batched: what a program does depends on the values of one slice."""


def active_levels():
    """The levels of this thread, the innermost one last."""
    return getattr(_state, "levels", ())


class BatchedTensor(HoldingTensor):
    """One tensor per slice, inside of a function that vmap() calls. Its shape is that of one slice."""

    @property
    def grad(self):
        return None

    def backward(self, *args, **kwargs):
        """Raises: use func.grad inside of vmap."""
        raise VmapError("backward() is not possible inside of vmap(); use func.grad() or func.vjp()")

    def __iter__(self):
        return iter(self.unbind(0))

    def __repr__(self, *, tensor_contents=None):
        return f"BatchedTensor(level={self._level.depth}, value=\n{self._held!r}\n)"

    __str__ = __repr__

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if name_of(func) in _OF_THE_SHAPE:  # asked by a rule
            return _without_handlers(func, args, kwargs or {})
        raise RuntimeError(
            "a tensor of vmap() was used after its function had returned; return it from the function instead"
        )


def _without_handlers(func, args, kwargs):
    before = _set_handlers(2)
    try:
        return func(*args, **kwargs)
    finally:
        _set_handlers(before)


def wrap(held, level):
    """A batched tensor of a level: the first dimension of held is the batch."""
    before = _set_handlers(2)
    try:
        made = _make(BatchedTensor, _empty(held.shape[1:], dtype=held.dtype, device="meta"), False)
    finally:
        _set_handlers(before)
    made._held, made._level = held, level
    return made


def wrap_tree(result, level):
    """The tensors of a rule's result as batched ones."""
    if isinstance(result, Tensor):
        return wrap(result, level)
    if isinstance(result, (tuple, list)):
        items = [wrap_tree(r, level) for r in result]
        return items if type(result) is list else type(result)(items)
    return result


_names = {}


def name_of(func):
    """The name under which the tables know a function: add, linalg.norm, get shape."""
    try:
        return _names[func]
    except (KeyError, TypeError):
        pass
    if isinstance(func, _C.Op):
        name = repr(func)[4:-1]
        for space in ("nn.functional.", "special."):
            if name.startswith(space) and name not in RULES:
                name = name.removeprefix(space)
        _names[func] = name
        return name
    name = getattr(func, "__name__", str(func))
    return f"get {func.__self__.__name__}" if name == "__get__" else name


# What an object without memory knows by itself.
_OF_THE_SHAPE = frozenset(
    "dim ndimension size numel nelement element_size is_floating_point is_complex is_signed __hash__ __len__".split()
    + "is_tensor is_same_size __index__".split()
) | {f"get {n}" for n in "shape dtype ndim itemsize names is_nested is_quantized layout nbytes is_sparse".split()}
_VALUES = {
    "item": "calling .item() on a Tensor",
    "tolist": "calling .tolist() on a Tensor",
    "numpy": "calling .numpy() on a Tensor",
    "__float__": "converting a Tensor to a number",
    "__int__": "converting a Tensor to a number",
    "__complex__": "converting a Tensor to a number",
    "__bool__": "attempting to use a Tensor in some data-dependent control flow",
}


class Level:
    """One running call of vmap(): the size of the batch, and what random ops do."""

    def __init__(self, size, randomness):
        self.size, self.randomness = size, randomness
        self.depth = 0

    def __enter__(self):
        _C._push_function_mode(self)
        return self

    def __exit__(self, *_):
        _C._pop_function_mode()

    def is_batched(self, x):
        return type(x) is BatchedTensor and x._level is self

    def held(self, x):
        """All slices of a batched tensor; another value as it is."""
        return x._held if type(x) is BatchedTensor and x._level is self else x

    def full(self, x):
        """All slices of a tensor, those of one that is not batched all the same, in the same memory."""
        if type(x) is BatchedTensor and x._level is self:
            return x._held
        return x.unsqueeze(0).expand(self.size, *x.shape)

    def wrap(self, held):
        return wrap(held, self)

    def rank(self, x):
        """The number of dimensions of one slice."""
        return x._held.dim() - 1 if self.is_batched(x) else x.dim()

    def has_batched(self, args, kwargs):
        for x in args:
            if self.is_batched(x):
                return True
            if isinstance(x, (tuple, list)) and self.has_batched(x, ()):
                return True
        return bool(kwargs) and self.has_batched(kwargs.values(), ())

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if type(func) is _C._overridable:  # written in Python: its own calls come here
            rule = RULES.get("python " + func.__name__)
            if rule is not None and self.has_batched(args, kwargs):
                return rule(self, func, args, kwargs)
            with self:
                return func.__wrapped__(*args, **kwargs)
        name = name_of(func)
        random = RANDOM.get(name)
        if random is not None:
            return random(self, func, args, kwargs)
        if name in _OF_THE_SHAPE:
            return _without_handlers(func, args, kwargs)
        if not self.has_batched(args, kwargs):
            return func(*args, **kwargs)
        if kwargs.get("out") is not None:
            raise VmapError(f"vmap: {name}(out=) cannot be batched; assign the result instead")
        if name in _VALUES:
            raise VmapError(
                f"vmap: It looks like you're {_VALUES[name]}. We don't support vmap over that, please try to rewrite what "
                "you're doing with other operations."
            )
        rule = RULES.get(name)
        if rule is not None:
            return rule(self, func, args, kwargs)
        return by_slices(self, func, args, kwargs)


_OPERATORS_IN_PLACE = frozenset(
    f"__i{n}__" for n in "add sub mul truediv floordiv mod pow and or xor lshift rshift matmul".split()
)


def is_inplace(name):
    """Whether an op of this name writes to its first argument."""
    if name.endswith("__"):
        return name == "__setitem__" or name in _OPERATORS_IN_PLACE
    return name.endswith("_")


def not_inplace(name):
    """The error of a write of many slices into one tensor."""
    return VmapError(
        f"vmap: {name}(self, *extra_args) is not possible because there exists a Tensor in extra_args that has more "
        "elements than `self`: it is batched and self is not. Use an operation that is not in-place, or make self "
        "from a batched tensor, such as x.new_zeros(shape)."
    )


def by_slices(level, func, args, kwargs):
    """Runs an op without a rule once per slice, and says so once."""
    name = name_of(func)
    if name not in _warned:
        _warned.add(name)
        warnings.warn(
            f"There is a performance drop because there is no batching rule for {name}: vmap() calls it once per slice.",
            UserWarning,
            stacklevel=3,
        )
    return run_slices(level, func, args, kwargs, is_inplace(name))


def run_slices(level, func, args, kwargs, inplace=False):
    """func for each slice, the results stacked."""
    from ..utils import _pytree

    leaves, spec = _pytree.tree_flatten((list(args), kwargs))
    if inplace and not level.is_batched(args[0]):
        raise not_inplace(getattr(func, "__name__", "the function"))
    results = []
    for i in range(level.size):
        these = [x._held.select(0, i) if level.is_batched(x) else x for x in leaves]
        given, named = _pytree.tree_unflatten(these, spec)
        results.append(func(*given, **named))
    if inplace:
        return args[0]
    if not results:
        raise VmapError(f"vmap: {name_of(func)} has no batching rule, so a batch of size 0 has no result")
    return _stacked(results, level)


def _stacked(results, level):
    first = results[0]
    if isinstance(first, Tensor):
        try:
            return level.wrap(ops["stack"](results))
        except RuntimeError as error:
            raise VmapError(f"vmap: the results of the slices have different shapes: {error}") from None
    if isinstance(first, (tuple, list)):
        items = [_stacked(list(items), level) for items in zip(*results, strict=True)]
        return items if type(first) is list else type(first)(items)
    return first


# --- parts for rules ------------------------------------------------------------------------------------------------------


def rule(*names):
    """Registers rule(level, func, args, kwargs) for ops."""

    def add(f):
        for name in names:
            RULES[name] = f
        return f

    return add


def decomposed(*names):
    """Registers a function of the op's arguments whose calls are batched one by one."""

    def add(f):
        def run(level, func, args, kwargs):
            with level:
                return f(*args, **kwargs)

        for name in names:
            RULES[name] = run
        return f

    return add


def named(function):
    """A rule of a function with the op's parameters: f(level, input, ...), which returns what the batched results hold."""

    def run(level, func, args, kwargs):
        if "input" not in function.__code__.co_varnames and "input" in kwargs:
            args = (kwargs.pop("input"), *args)
        return wrap_tree(function(level, *args, **kwargs), level)

    return run


def padded(held, rank):
    """All slices with dimensions of size 1 in front of a slice's own, so that a slice has that rank."""
    missing = rank + 1 - held.dim()
    return held if missing <= 0 else held.reshape(held.shape[0], *[1] * missing, *held.shape[1:])


def place(dim, rank):
    """The dimension of the held tensor for one of a slice."""
    n = max(rank, 1)
    if not -n <= dim < n:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {dim})")
    return dim % n + 1


def with_dim(held):
    """Slices without dimensions as slices of one element."""
    return held.unsqueeze(1) if held.dim() == 1 else held
