"""Node: one step of a graph, and functions over its arguments."""

import builtins
import inspect
import operator
import types

from .. import _C
from .immutable_collections import immutable_dict, immutable_list

base_types = (str, int, float, bool, complex, _C.dtype, _C.Tensor, _C.device, range)
Argument = Target = object  # for annotations

_legal_ops = dict.fromkeys(["placeholder", "call_method", "call_module", "call_function", "get_attr", "output", "root"])
_side_effectful_functions = set()


def has_side_effect(fn):
    """Marks a function whose calls eliminate_dead_code() keeps."""
    _side_effectful_functions.add(fn)
    return fn


def map_aggregate(a, fn):
    """fn of every leaf of nested tuples, lists, dicts and slices."""
    if isinstance(a, tuple):
        mapped = [map_aggregate(v, fn) for v in a]
        return type(a)(*mapped) if hasattr(a, "_fields") else tuple(mapped)
    if isinstance(a, list):
        return immutable_list([map_aggregate(v, fn) for v in a])
    if isinstance(a, dict):
        return immutable_dict((k, map_aggregate(v, fn)) for k, v in a.items())
    if isinstance(a, slice):
        return slice(map_aggregate(a.start, fn), map_aggregate(a.stop, fn), map_aggregate(a.step, fn))
    return fn(a)


def map_arg(a, fn):
    """fn of every Node in nested arguments; the rest stays."""
    return map_aggregate(a, lambda v: fn(v) if isinstance(v, Node) else v)


def package_name():
    """'strata', or 'torch' under the alias."""
    return str(_C.float32).partition(".")[0]


def _resolve(path):
    """The object that a dotted path below strata names, None if there is none."""
    import strata

    found = strata
    for part in path.split("."):
        found = getattr(found, part, None)
    return found


def package_path(func):
    """The public dotted name of a function, type or dtype of this package without the package's name, else None."""
    if isinstance(func, _C.Op):
        path = func.__reduce__()[1][0]
        return path if _resolve(path) is func else None
    name, module = getattr(func, "__name__", None), getattr(func, "__module__", None) or ""
    root, _, inner = module.partition(".")
    if name is None or root not in ("strata", "torch"):
        return None
    own = type(func)
    for path in (name, f"{inner}.{name}" if inner else name):
        if own is not type(None) and _resolve(path) is func:
            return path
    return None


def _get_qualified_name(func):
    """The dotted name under which code finds a function."""
    name = getattr(func, "__name__", None) or type(func).__name__
    if getattr(builtins, name, None) is func:
        return name
    path = package_path(func)
    if path is not None:
        return f"{package_name()}.{path}"
    if isinstance(func, (types.MethodDescriptorType, types.WrapperDescriptorType)):
        if func is getattr(_C.Tensor, name, None):
            return f"{package_name()}.Tensor.{name}"
        return f"{func.__objclass__.__module__}.{func.__objclass__.__name__}.{name}"
    module = getattr(func, "__module__", None) or "builtins"
    return f"{'operator' if module == '_operator' else module}.{name}"


def _type_repr(obj):
    """The text of a type annotation."""
    if isinstance(obj, type) and not isinstance(obj, types.GenericAlias):
        if obj.__module__ == "builtins":
            return obj.__qualname__
        path = package_path(obj)
        return f"{package_name()}.{path}" if path else f"{obj.__module__}.{obj.__qualname__}"
    if obj is ...:
        return "..."
    return obj.__name__ if isinstance(obj, types.FunctionType) else repr(obj)


def _format_arg(arg):
    if isinstance(arg, tuple):
        return f"({', '.join(map(_format_arg, arg))}{',' if len(arg) == 1 else ''})"
    if isinstance(arg, list):
        return f"[{', '.join(map(_format_arg, arg))}]"
    if isinstance(arg, dict):
        return "{" + ", ".join(f"{k}: {_format_arg(v)}" for k, v in arg.items()) + "}"
    return f"%{arg.name}" if isinstance(arg, Node) else str(arg)


class Node:
    """One step of a graph: an input, an attribute, a call, or the output.

    op says which; target is what is called or read; args and kwargs may contain other nodes, which list this one in `users`.
    """

    def __init__(self, graph, name, op, target, args, kwargs, return_type=None):
        if op not in _legal_ops:
            raise AssertionError(f"Node [graph = {graph}, name = '{name}'] has no such op: {op!r}")
        if op == "call_function":
            if not callable(target):
                raise ValueError(
                    f"Node [graph = {graph}, name = '{name}'] target {target} has type {type(target)} but a Callable is expected"
                )
        elif not isinstance(target, str):
            raise ValueError(
                f"Node [graph = {graph}, name = '{name}'] target {target} has type {type(target)} but a str is expected"
            )
        self.graph, self.name, self.op, self.target = graph, name, op, target
        self.type, self.meta, self.users = return_type, {}, {}
        self._input_nodes, self._prev, self._next, self._erased, self._repr_fn = {}, self, self, False, None
        self._set_inputs(args, kwargs)

    def __repr__(self):
        return self._repr_fn(self) if self._repr_fn else self.name

    # --- position -----------------------------------------------------------------------------------------------------

    @property
    def next(self):
        """The node after this one."""
        return self._next

    @property
    def prev(self):
        """The node before this one."""
        return self._prev

    def _unlink(self):
        self._prev._next, self._next._prev = self._next, self._prev

    def prepend(self, x):
        """Moves x directly before this node."""
        if self.graph is not x.graph:
            raise AssertionError("Attempting to move a Node into a different Graph")
        if self is x:
            return
        x._unlink()
        x._prev, x._next = self._prev, self
        self._prev._next = x
        self._prev = x

    def append(self, x):
        """Moves x directly after this node."""
        self._next.prepend(x)

    def __lt__(self, other):
        return self.graph._position(self) < self.graph._position(other)

    # --- arguments ----------------------------------------------------------------------------------------------------

    def _set_inputs(self, args, kwargs):
        inputs = {}

        def note(node):
            inputs[node] = None
            return node

        args, kwargs = map_arg(tuple(args), note), map_arg(dict(kwargs), note)
        for old in self._input_nodes:
            old.users.pop(self, None)
        self._args, self._kwargs, self._input_nodes = args, kwargs, inputs
        for node in inputs:
            node.users.setdefault(self)

    @property
    def args(self):
        """The positional arguments; assign a new tuple to change them."""
        return self._args

    @args.setter
    def args(self, value):
        self._set_inputs(value, self._kwargs)

    @property
    def kwargs(self):
        """The keyword arguments; assign a new dict to change them."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, value):
        self._set_inputs(self._args, value)

    @property
    def all_input_nodes(self):
        """The nodes among the arguments, each once."""
        return list(self._input_nodes)

    def update_arg(self, idx, arg):
        """Replaces a positional argument."""
        args = list(self.args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx, arg):
        """Inserts a positional argument."""
        if not 0 <= idx <= len(self.args):
            raise AssertionError("insert_args index must be between 0 and len(self.args)")
        self.args = (*self.args[:idx], arg, *self.args[idx:])

    def update_kwarg(self, key, arg):
        """Sets a keyword argument."""
        self.kwargs = {**self.kwargs, key: arg}

    def replace_input_with(self, old_input, new_input):
        """Uses new_input wherever old_input is an argument."""

        def replaced(node):
            return new_input if node is old_input else node

        self._set_inputs(map_arg(self._args, replaced), map_arg(self._kwargs, replaced))

    def replace_all_uses_with(self, replace_with, delete_user_cb=lambda user: True, *, propagate_meta=False):
        """Makes the users of this node use another one; returns those that were changed."""
        if propagate_meta:
            if replace_with.meta:
                raise AssertionError(
                    "Called node.replace_all_uses_with(replace_with, propagate_meta=True), but replace_with already has .meta keys"
                )
            replace_with.meta.update(self.meta)
        changed = [user for user in self.users if delete_user_cb(user)]
        for user in changed:
            user.replace_input_with(self, replace_with)
        return changed

    def normalized_arguments(self, root, arg_types=None, kwarg_types=None, normalize_to_only_use_kwargs=False):
        """(args, kwargs) by the parameters of the target, or None where it has no signature."""
        if self.op == "call_module":
            target = root.get_submodule(self.target).forward
        elif self.op == "call_function":
            target = self.target
        else:
            return None
        try:
            signature = inspect.signature(target)
            bound = signature.bind(*self.args, **self.kwargs)
        except (TypeError, ValueError):
            return None
        if not normalize_to_only_use_kwargs:
            return bound.args, bound.kwargs
        if any(p.kind is p.VAR_POSITIONAL for p in signature.parameters.values()):
            return None  # an op with several overloads, or a list given item by item: there is no keyword for each
        bound.apply_defaults()
        return (), dict(bound.arguments)

    # --- other facts --------------------------------------------------------------------------------------------------

    @property
    def stack_trace(self):
        """The lines of the program that recorded the node, if the tracer keeps them."""
        return self.meta.get("stack_trace")

    @stack_trace.setter
    def stack_trace(self, trace):
        self.meta["stack_trace"] = trace

    def is_impure(self, impure_random=True):
        """Whether the node must stay even if nothing uses it."""
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_function":
            return self.target in _side_effectful_functions
        if self.op == "call_method":
            return False
        if self.op == "call_module" and self.graph.owning_module is not None:
            module = self.graph.owning_module.get_submodule(self.target)
            return getattr(module, "_is_impure", False)
        return False

    def _rename(self, candidate):
        if candidate != self.name:
            self.name = self.graph._graph_namespace.create_name(candidate, None)

    def _pretty_print_target(self, target):
        if isinstance(target, str):
            return target
        name = _get_qualified_name(target)
        return f"builtins.{name}" if getattr(builtins, name, None) is target else name

    def format_node(self, placeholder_names=None, maybe_return_typename=None, *, include_tensor_metadata=False):
        """The line of this node in the graph's text."""
        if self.op == "output":
            if self.type and maybe_return_typename:
                maybe_return_typename[0] = f" -> {_type_repr(self.type)}"
            return f"return {self.args[0]}"
        annotation = f"{_type_repr(self.type)} " if self.type else ""
        head = f"%{self.name} : {annotation}[num_users={len(self.users)}] = {self.op}[target={self._pretty_print_target(self.target)}]"
        if self.op == "placeholder":
            return head + (f"(default={self.args[0]})" if self.args else "")
        if self.op == "get_attr":
            return head
        return f"{head}(args = {_format_arg(self.args)}, kwargs = {_format_arg(self.kwargs)})"


# Operators as text, by the name in the module operator.
magic_methods = {
    "eq": "{} == {}",
    "ne": "{} != {}",
    "lt": "{} < {}",
    "gt": "{} > {}",
    "le": "{} <= {}",
    "ge": "{} >= {}",
    "pos": "+{}",
    "neg": "-{}",
    "invert": "~{}",
    "add": "{} + {}",
    "sub": "{} - {}",
    "mul": "{} * {}",
    "floordiv": "{} // {}",
    "truediv": "{} / {}",
    "mod": "{} % {}",
    "pow": "{} ** {}",
    "lshift": "{} << {}",
    "rshift": "{} >> {}",
    "and_": "{} & {}",
    "or_": "{} | {}",
    "xor": "{} ^ {}",
    "getitem": "{}[{}]",
    "matmul": "{} @ {}",
}
reflectable = "add sub mul floordiv truediv mod pow lshift rshift and_ or_ xor matmul".split()
inplace_methods = {
    "iadd": "{} += {}",
    "iand": "{} &= {}",
    "ifloordiv": "{} //= {}",
    "ilshift": "{} <<= {}",
    "imod": "{} %= {}",
    "imul": "{} *= {}",
    "imatmul": "{} @= {}",
    "ior": "{} |= {}",
    "ipow": "{} **= {}",
    "irshift": "{} >>= {}",
    "isub": "{} -= {}",
    "itruediv": "{} /= {}",
    "ixor": "{} ^= {}",
    "setitem": "{}[{}] = {}",
}
_side_effectful_functions.update(getattr(operator, name) for name in inplace_methods)
