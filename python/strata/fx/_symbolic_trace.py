"""Tracer and symbolic_trace: run a function with proxies, and keep the graph of what it does."""

import builtins
import collections
import contextlib
import copy
import functools
import inspect
import math
import sys
import types

import strata

from .. import _C, nn
from .graph import Graph
from .graph_module import GraphModule
from .node import Node, has_side_effect, map_aggregate
from .proxy import ParameterProxy, Proxy, TracerBase

_wrapped_functions = {}  # (id of a module's globals, name) -> the globals
_wrapped_methods = []  # (class, name)
_tracing = 0


def is_fx_tracing():
    """Whether a function is being traced."""
    return _tracing > 0


def is_fx_symbolic_tracing():
    """Whether a function is being traced."""
    return _tracing > 0


@has_side_effect
def _assert_is_none(value, message):
    assert value is None, message


has_side_effect(strata._assert)


class PHBase:
    """Marks an argument in concrete_args that stays an input."""

    def __repr__(self):
        return "PH"


PH = PHBase()


class Tracer(TracerBase):
    """Records the calls of a function or of a module's forward.

    autowrap_modules and autowrap_functions: Python functions that are recorded as calls where an argument is a proxy;
    by default those of math.
    param_shapes_constant: shapes of parameters are numbers instead of nodes.
    """

    def __init__(self, autowrap_modules=None, autowrap_functions=(), param_shapes_constant=False):
        super().__init__()
        autowrap_modules = (math,) if autowrap_modules is None else autowrap_modules
        self._autowrap_function_ids = {
            id(value)
            for module in autowrap_modules
            for name, value in module.__dict__.items()
            if not name.startswith("_") and callable(value)
        } | {id(f) for f in autowrap_functions}
        self._autowrap_search = list(autowrap_modules)
        self.param_shapes_constant = param_shapes_constant
        self.submodule_paths, self.root_module_name = None, ""
        self.scope, self.module_stack, self.node_name_to_scope = None, collections.OrderedDict(), {}

    # --- what subclasses override -------------------------------------------------------------------------------------

    def is_leaf_module(self, m, module_qualified_name):
        """Whether a call of m is one node: the modules of strata.nn except Sequential are leaves."""
        module = type(m).__module__
        return module.startswith(("strata.nn", "torch.nn")) and not isinstance(m, nn.Sequential)

    def call_module(self, m, forward, args, kwargs):
        """Called for every call of a module: a node for a leaf, else the calls inside it."""
        path = self.path_of_module(m)
        self.module_stack[path] = (path, type(m))
        try:
            if not self.is_leaf_module(m, path):
                return forward(*args, **kwargs)
            return self.create_proxy("call_module", path, args, kwargs)
        finally:
            self.module_stack.popitem()

    def getattr(self, attr, attr_val, parameter_proxy_cache):
        """Called where a module's attribute is read that is a parameter, a buffer or a child."""
        if isinstance(attr_val, nn.Parameter):
            for name, parameter in self.root.named_parameters():
                if attr_val is parameter:
                    return self._attribute_proxy(name, attr_val, parameter_proxy_cache)
        if self.proxy_buffer_attributes and isinstance(attr_val, _C.Tensor):
            for name, buffer in self.root.named_buffers():
                if attr_val is buffer:
                    return self._attribute_proxy(name, attr_val, parameter_proxy_cache)
        return attr_val

    def _attribute_proxy(self, name, value, cache):
        if name not in cache:
            constant = self.param_shapes_constant
            cache[name] = self.create_proxy(
                "get_attr",
                name,
                (),
                {},
                proxy_factory_fn=(lambda node: ParameterProxy(self, node, name, value)) if constant else None,
            )
        return cache[name]

    def path_of_module(self, mod):
        """The path of a module below the root."""
        if self.submodule_paths is None:
            self.submodule_paths = {m: name for name, m in self.root.named_modules(remove_duplicate=False)}
        path = self.submodule_paths.get(mod)
        if path is None:
            raise NameError("module is not installed as a submodule")
        return path

    def create_node(self, kind, target, args, kwargs, name=None, type_expr=None):
        """Adds a node, and notes the modules whose forward made it."""
        node = super().create_node(kind, target, args, kwargs, name, type_expr)
        if self.module_stack:
            node.meta["nn_module_stack"] = copy.copy(self.module_stack)
        return node

    def create_arg(self, a):
        """Also: parameters, buffers, tensors and modules of the root become get_attr nodes, other tensors constants."""
        if isinstance(a, nn.Parameter):
            for name, parameter in self.root.named_parameters():
                if a is parameter:
                    return self.create_node("get_attr", name, (), {})
            raise NameError("parameter is not a member of this module")
        if isinstance(a, _C.Tensor):
            for name, buffer in self.root.named_buffers():
                if a is buffer:
                    return self.create_node("get_attr", name, (), {})
        elif isinstance(a, nn.Module):
            for name, module in self.root.named_modules():
                if a is module:
                    return self.create_node("get_attr", name, (), {})
        elif isinstance(a, tuple) and hasattr(a, "_fields"):
            items = tuple(self.create_arg(v) for v in a)
            if any(isinstance(v, Node) for v in items):
                return self.create_node("call_function", type(a), items, {})
            return type(a)(*items)
        if isinstance(a, _C.Tensor):
            path = self._tensor_paths.get(id(a), (None, None))[0]
            if path is None:
                number = 0
                while hasattr(self.root, f"_tensor_constant{number}"):
                    number += 1
                path = f"_tensor_constant{number}"
                self._tensor_paths[id(a)] = (path, a)
                setattr(self.root, path, a)
            return self.create_node("get_attr", path, (), {})
        return super().create_arg(a)

    # --- tracing ------------------------------------------------------------------------------------------------------

    def create_args_for_root(self, root_fn, is_module, concrete_args=None):
        """A function that takes all its parameters by position, and the proxies to call it with."""
        fn = inspect.unwrap(root_fn)
        code = fn.__code__
        count = code.co_argcount + code.co_kwonlyargcount
        names = iter(code.co_varnames)
        args = []
        if is_module:
            if not count:
                raise RuntimeError("``self`` argument cannot be part of *args expansion!")
            next(names)
            count -= 1
            args.append(self.root)
        parameters = inspect.signature(fn).parameters
        concrete = concrete_args if isinstance(concrete_args, dict) else {}
        if isinstance(concrete_args, tuple):
            if len(concrete_args) != count:
                raise RuntimeError(
                    f"Tracing expected {count} arguments but got {len(concrete_args)} concrete arguments"
                )
            concrete = dict(zip(list(code.co_varnames)[len(args) :], concrete_args, strict=False))
        for name in (next(names) for _ in range(count)):
            args.append(self._input(fn, name, parameters, concrete))
        for flag, stars in ((inspect.CO_VARARGS, "*"), (inspect.CO_VARKEYWORDS, "**")):
            if code.co_flags & flag:
                args.append(self._placeholder(fn, stars + next(names), ()))
        return _all_positional(fn, len(args)), args

    def _placeholder(self, fn, name, default):
        return self.create_proxy("placeholder", name, default, {}, type_expr=fn.__annotations__.get(name))

    def _input(self, fn, name, parameters, concrete):
        default = parameters[name].default if name in parameters else inspect.Parameter.empty
        default = () if default is inspect.Parameter.empty else (default,)
        if name not in concrete or isinstance(concrete[name], PHBase):
            return self._placeholder(fn, name, default)
        value = concrete[name]
        if isinstance(value, (tuple, list, dict)) and _contains_mark(value):
            raise NotImplementedError(
                f"concrete_args[{name!r}]: containers with fx.PH inside are not in this version; trace a function that "
                "takes the parts one by one"
            )
        # The input stays, and the code checks that it has the value that the graph was made for.
        proxy = self.create_proxy("placeholder", f"{name}_1", default, {})
        text = f"{name} has been specialized to have value {value} but got another value"
        if isinstance(value, (int, float, str)):
            strata._assert(proxy == value, text)
        elif value is None:
            self.create_proxy("call_function", _assert_is_none, (proxy, text), {})
        return value

    def trace(self, root, concrete_args=None):
        """The graph of a module's forward or of a function."""
        global _tracing
        is_module = isinstance(root, nn.Module)
        if is_module:
            self.root, self.root_module_name = root, root._get_name()
            fn = getattr(type(root), self.traced_func_name)
        else:
            self.root, fn = nn.Module(), root
        self.submodule_paths = {m: name for name, m in self.root.named_modules(remove_duplicate=False)}
        self.graph = Graph(tracer_cls=getattr(self, "__class__", None))
        self._tensor_paths = _tensors_by_path(self.root)
        if not isinstance(inspect.unwrap(fn), types.FunctionType):
            raise AssertionError(f"expected a function or a module with a Python forward, got {type(fn).__name__}")
        fn_globals = inspect.unwrap(fn).__globals__
        fn, args = self.create_args_for_root(fn, is_module, concrete_args)
        with _patches() as patches:
            self._patch_modules(patches)
            self._patch_functions(patches, fn_globals)
            _tracing += 1
            try:
                result = self.create_arg(fn(*args))
                self.create_node("output", "output", (result,), {}, type_expr=fn.__annotations__.get("return"))
            finally:
                _tracing -= 1
                self.submodule_paths = None
        return self.graph

    def _patch_modules(self, patches):
        original_call, original_getattr = nn.Module.__call__, nn.Module.__getattr__
        cache = {}

        def module_getattr(module, name):
            return self.getattr(name, original_getattr(module, name), cache)

        def module_call(module, *args, **kwargs):
            def forward(*args, **kwargs):
                return original_call(module, *args, **kwargs)

            for scope in {id(d): d for d in _globals_of_forward(module)}.values():
                self._autowrap(patches, scope)
            return self.call_module(module, forward, args, kwargs)

        patches.set(nn.Module, "__getattr__", module_getattr)
        patches.set(nn.Module, "__call__", module_call)

    def _patch_functions(self, patches, fn_globals):
        for (_, name), scope in list(_wrapped_functions.items()):
            function = scope.get(name, getattr(builtins, name, None))
            if function is not None and not hasattr(function, "__fx_already_patched"):
                patches.set_item(scope, name, _recorded(function))
        for cls, name in _wrapped_methods:
            patches.set(cls, name, _recorded_method(cls, name))
        self._autowrap(patches, fn_globals)
        for module in self._autowrap_search:
            self._autowrap(patches, module.__dict__)

    def _autowrap(self, patches, scope):
        if not patches.first_visit(scope):
            return
        for name, value in list(scope.items()):
            if not name.startswith("_") and callable(value) and id(value) in self._autowrap_function_ids:
                patches.set_item(scope, name, _recorded(value))


def _globals_of_forward(module):
    function = inspect.unwrap(getattr(type(module), "forward", module.forward))
    return [function.__globals__] if isinstance(function, types.FunctionType) else []


def _contains_mark(value):
    found = []
    map_aggregate(value, lambda v: found.append(v) if isinstance(v, PHBase) else v)
    return bool(found)


def _tensors_by_path(root):
    """id -> (path, tensor) of plain tensors that are attributes of modules."""
    found = {}
    for path, module in root.named_modules():
        for name, value in module.__dict__.items():
            if isinstance(value, _C.Tensor):
                found.setdefault(id(value), (f"{path}.{name}" if path else name, value))
    return found


def _all_positional(fn, count):
    """fn with its keyword-only parameters, *args and **kwargs as plain ones, so that each gets one proxy."""
    code = fn.__code__
    flags = code.co_flags & ~(inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
    code = code.replace(co_argcount=count, co_kwonlyargcount=0, co_posonlyargcount=0, co_flags=flags)
    made = types.FunctionType(code, fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__)
    made.__annotations__ = fn.__annotations__
    return made


def _find_proxy(*values):
    found = []

    def look(v):
        if isinstance(v, Proxy):
            found.append(v)
        return v

    map_aggregate(values, look)
    return found[0] if found else None


def _recorded(function):
    """The function, which records a call where an argument is a proxy."""

    @functools.wraps(function)
    def call(*args, **kwargs):
        proxy = _find_proxy(args, kwargs)
        if proxy is None:
            return function(*args, **kwargs)
        made = proxy.tracer.create_proxy("call_function", function, args, kwargs)
        made.node.meta["is_wrapped"] = True
        return made

    call.__fx_already_patched = True
    return call


def _recorded_method(cls, name):
    method = getattr(cls, name)

    @functools.wraps(method)
    def call(*args, **kwargs):
        proxy = _find_proxy(args, kwargs)
        if proxy is None:
            return method(*args, **kwargs)
        return proxy.tracer.create_proxy("call_method", name, args, kwargs)

    return call


class _Patches:
    """Changed attributes and dict entries, restored in reverse order."""

    def __init__(self):
        self._undo, self._visited = [], set()

    def first_visit(self, thing):
        new = id(thing) not in self._visited
        self._visited.add(id(thing))
        return new

    def set(self, owner, name, value):
        own = owner.__dict__.get(name, self)
        self._undo.append(lambda: delattr(owner, name) if own is self else setattr(owner, name, own))
        setattr(owner, name, value)

    def set_item(self, scope, name, value):
        own = scope.get(name, self)
        self._undo.append(lambda: scope.pop(name, None) if own is self else scope.__setitem__(name, own))
        scope[name] = value


@contextlib.contextmanager
def _patches():
    patches = _Patches()
    try:
        yield patches
    finally:
        while patches._undo:
            patches._undo.pop()()


def wrap(fn_or_name):
    """Marks a function of the calling module, by name or as a decorator, that tracing records as one call.

    Must be called at the top level of the module.
    """
    if not isinstance(fn_or_name, str) and not callable(fn_or_name):
        raise RuntimeError("Unsupported type for global function! Must be either a callable or string name")
    name = fn_or_name if isinstance(fn_or_name, str) else fn_or_name.__name__
    frame = sys._getframe(1)
    if frame.f_code.co_name != "<module>":
        raise NotImplementedError("wrap must be called at the top level of a module")
    _wrapped_functions[(id(frame.f_globals), name)] = frame.f_globals
    return fn_or_name


def _wrap_method(cls, name):
    """Marks a method that tracing records as one call."""
    _wrapped_methods.append((cls, name))


class ProxyableClassMeta(type):
    """A metaclass of classes whose construction is recorded when an argument is a proxy."""

    def __init__(cls, name, bases, attrs):
        _wrapped_methods_of_class(cls, attrs)
        super().__init__(name, bases, attrs)

    def __call__(cls, *args, **kwargs):
        instance = cls.__new__(cls)
        proxy = _find_proxy(args, kwargs)
        if proxy is None or not is_fx_tracing():
            cls.__init__(instance, *args, **kwargs)
            return instance
        return proxy.tracer.create_proxy("call_function", cls, args, kwargs)


def _wrapped_methods_of_class(cls, attrs):
    for name, value in attrs.items():
        if isinstance(value, types.FunctionType) and not name.startswith("_"):
            _wrap_method(cls, name)


def symbolic_trace(root, concrete_args=None):
    """The GraphModule of a module or function. concrete_args: values by name for inputs that the graph is made for."""
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = root.__class__.__name__ if isinstance(root, nn.Module) else root.__name__
    return GraphModule(tracer.root, graph, name)
