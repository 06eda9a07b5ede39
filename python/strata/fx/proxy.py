"""Proxy: stands for a value while a function is traced, and records what is done with it."""

import dis
import inspect
import operator
import sys
import traceback
import types

from .. import _C
from ._functional_arguments import normalized
from .graph import Graph
from .node import Node, base_types, magic_methods, map_aggregate, reflectable


class TraceError(ValueError):
    """The traced function does something with a value that is not known while tracing."""


class TracerBase:
    """Makes nodes and proxies; subclasses decide what is recorded."""

    graph = None
    record_stack_traces = False
    check_mutable_operations = False
    trace_asserts = False
    proxy_buffer_attributes = False
    traced_func_name = "forward"

    def create_node(self, kind, target, args, kwargs, name=None, type_expr=None):
        """Adds a node to the graph."""
        return self.graph.create_node(kind, target, args, kwargs, name, type_expr)

    def proxy(self, node):
        """The proxy of a node."""
        return Proxy(node, self)

    def create_proxy(self, kind, target, args, kwargs, name=None, type_expr=None, proxy_factory_fn=None):
        """Adds a node whose arguments may contain proxies, and returns its proxy."""
        args, kwargs = self.create_arg(args), self.create_arg(kwargs)
        if not isinstance(args, tuple) or not isinstance(kwargs, dict):
            raise AssertionError("args must be a tuple and kwargs a dict")
        node = self.create_node(kind, target, args, kwargs, name, type_expr)
        proxy = proxy_factory_fn(node) if proxy_factory_fn else self.proxy(node)
        if self.record_stack_traces and not proxy.node.stack_trace:
            proxy.node.stack_trace = "".join(traceback.StackSummary.from_list(_user_frames()).format())
        return proxy

    def create_arg(self, a):
        """A value as an argument of a node: proxies become their nodes, containers are copied."""
        if isinstance(a, Proxy):
            return a.node
        if hasattr(a, "__fx_create_arg__"):
            return a.__fx_create_arg__(self)
        if isinstance(a, tuple):
            items = [self.create_arg(v) for v in a]
            return type(a)(*items) if hasattr(a, "_fields") else tuple(items)
        if isinstance(a, list):
            return [self.create_arg(v) for v in a]
        if isinstance(a, dict):
            return {self._constant_key(k): self.create_arg(v) for k, v in a.items()}
        if isinstance(a, slice):
            return slice(self.create_arg(a.start), self.create_arg(a.stop), self.create_arg(a.step))
        if isinstance(a, (*base_types, Node)) or a is None or a is ... or isinstance(a, (type, _C.Op)):
            return a
        if isinstance(a, (types.FunctionType, types.BuiltinFunctionType, _C._overridable)):
            return a
        raise NotImplementedError(f"argument of type: {type(a)}")

    def _constant_key(self, key):
        key = self.create_arg(key)

        def check(v):
            if isinstance(v, Node):
                raise RuntimeError(
                    "Keys for dictionaries used as an argument cannot contain a Node. Got key: " + str(key)
                )
            return v

        map_aggregate(key, check)
        return key

    def to_bool(self, obj):
        """Called where a proxy is used as a condition."""
        raise TraceError("symbolically traced variables cannot be used as inputs to control flow")

    def iter(self, obj):
        """Called where a proxy is iterated."""
        raise TraceError(
            "Proxy object cannot be iterated. This can be attempted when the Proxy is used in a loop or as a *args or "
            "**kwargs function argument. See docs/usage/fx.md for a more detailed explanation of what types of control flow "
            "can be traced"
        )

    def keys(self, obj):
        """Called by **proxy."""
        return Attribute(obj, "keys")()


def _user_frames():
    """The frames of the program, without those of this package."""
    frames = traceback.extract_stack()
    return [f for f in frames if "/strata/fx/" not in f.filename and "/strata/nn/module.py" not in f.filename]


class GraphAppendingTracer(TracerBase):
    """Adds nodes to an existing graph, for proxies of its nodes."""

    def __init__(self, graph):
        self.graph, self.scope, self.module_stack, self.node_name_to_scope = graph, None, {}, {}


class Proxy:
    """Stands for the value of a node. Operators, functions and methods of it add nodes to the graph."""

    def __init__(self, node, tracer=None):
        self.tracer = GraphAppendingTracer(node.graph) if tracer is None else tracer
        self.node = node

    def __repr__(self):
        return f"Proxy({self.node.name})"

    def __getattr__(self, k):
        if k.startswith("__") and k.endswith("__"):  # Python and libraries ask for protocols that a value need not have
            raise AttributeError(f"'Proxy' object has no attribute {k!r}")
        return Attribute(self, k)

    def __getstate__(self):
        return self.__dict__

    def __setstate__(self, state):
        self.__dict__.update(state)

    def __deepcopy__(self, memo):
        import copy

        made = type(self).__new__(type(self))
        made.__dict__.update({k: copy.deepcopy(v, memo) for k, v in self.__dict__.items()})
        return made

    def __call__(self, *args, **kwargs):
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self):
        frame = sys._getframe(1)
        for instruction in dis.get_instructions(frame.f_code):
            if instruction.offset == frame.f_lasti:
                if instruction.opname == "UNPACK_SEQUENCE":  # a, b = proxy
                    return (self[i] for i in range(instruction.argval))
                break
        return self.tracer.iter(self)

    def __abs__(self):
        return self.tracer.create_proxy("call_function", abs, (self,), {})

    def __round__(self, *digits):
        return self.tracer.create_proxy("call_function", round, (self, *digits), {})

    def __bool__(self):
        if self.tracer.trace_asserts:
            frame = sys._getframe(1)
            following = [i for i in dis.get_instructions(frame.f_code) if i.offset >= frame.f_lasti]
            if _is_assert(following):
                import strata

                strata._assert(self, "")
                return True
        return self.tracer.to_bool(self)

    def keys(self):
        return self.tracer.keys(self)

    def __len__(self):
        raise RuntimeError(
            "'len' is not supported in symbolic tracing by default. If you want this call to be recorded, please call "
            "strata.fx.wrap('len') at module scope"
        )

    @classmethod
    def __torch_function__(cls, orig_method, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        tracers = {}

        def note(v):
            if isinstance(v, cls):
                tracers[v.tracer] = None
            return v

        map_aggregate(args, note)
        map_aggregate(kwargs, note)
        if len(tracers) > 1:
            raise RuntimeError(
                f"Found multiple different tracers {list(tracers)} while trying to trace operations {orig_method}"
            )
        (tracer,) = tracers
        owner = getattr(orig_method, "__self__", None)
        if getattr(orig_method, "__name__", "") == "__get__" and inspect.isdatadescriptor(owner):
            return tracer.create_proxy("call_function", getattr, (args[0], owner.__name__), {})
        if _is_slot_of_tensor(orig_method):
            return tracer.create_proxy("call_method", orig_method.__name__, args, kwargs)
        args, kwargs = normalized(orig_method, args, kwargs)
        return tracer.create_proxy("call_function", orig_method, args, kwargs, name=_function_name(orig_method))


def _function_name(function):
    return getattr(function, "__name__", type(function).__name__)


def _is_slot_of_tensor(function):
    return isinstance(function, (types.WrapperDescriptorType, types.MethodDescriptorType))


def _is_assert(instructions):
    """Whether a condition belongs to an assert statement: the jump skips a raise of AssertionError."""
    names = [i.opname for i in instructions[:4]]
    return len(names) > 1 and "LOAD_ASSERTION_ERROR" in names and "JUMP" in names[0]


class Attribute(Proxy):
    """An attribute of a proxy. It becomes a node when it is used; a call becomes a call of a method."""

    def __init__(self, root, attr):
        self.root, self.attr, self.tracer, self._node = root, attr, root.tracer, None

    @property
    def node(self):
        if self._node is None:
            self._node = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {}).node
        return self._node

    def __call__(self, *args, **kwargs):
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


class ParameterProxy(Proxy):
    """A proxy of a parameter that answers questions about the shape with the parameter's own values."""

    def __init__(self, tracer, node, name, param):
        super().__init__(node, tracer)
        if not isinstance(param, _C.Tensor):
            raise AssertionError(f"expected a Tensor, got {type(param)}")
        self.param, self.name = param, name

    def __repr__(self):
        return f"ParameterProxy({self.name})"

    shape = property(lambda self: self.param.shape)
    ndim = property(lambda self: self.param.ndim)

    def size(self, *args):
        return self.param.size(*args)

    def dim(self):
        return self.param.dim()

    def numel(self):
        return self.param.numel()

    def nelement(self):
        return self.param.numel()


def _add_operators():
    def operator_method(function):
        def method(self, *args):
            return self.tracer.create_proxy("call_function", function, (self, *args), {})

        return method

    def reflected_method(function):
        def method(self, other):
            return self.tracer.create_proxy("call_function", function, (other, self), {})

        return method

    for name in magic_methods:
        method = operator_method(getattr(operator, name))
        method.__name__ = f"__{name.strip('_')}__"
        setattr(Proxy, method.__name__, method)
    for name in reflectable:
        method = reflected_method(getattr(operator, name))
        method.__name__ = f"__r{name.strip('_')}__"
        setattr(Proxy, method.__name__, method)
    Proxy.__hash__ = object.__hash__


_add_operators()
__all__ = ["Attribute", "Graph", "GraphAppendingTracer", "ParameterProxy", "Proxy", "TraceError", "TracerBase"]
