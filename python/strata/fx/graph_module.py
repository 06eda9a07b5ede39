"""GraphModule: a module whose forward is generated from a graph."""

import copy
import itertools
import linecache

from .. import _C, nn
from .graph import Graph, _has_attribute
from .node import package_name

_numbers = itertools.count()
_HOOKS = (
    "_forward_hooks",
    "_forward_pre_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_pre_hooks_with_kwargs",
    "_state_dict_hooks",
)


def _execute(src, variables):
    """Runs generated code; tracebacks show its lines."""
    file = f"<eval_with_key>.{next(_numbers)}"
    linecache.cache[file] = (len(src), None, src.splitlines(keepends=True), file)
    scope = dict(variables)
    scope["__file__"] = file
    exec(compile(src, file, "exec"), scope)
    return scope


def _forward_from_src(src, variables):
    return _execute(src, variables)["forward"]


def _copy_attr(from_module, to_module, target):
    """Copies an attribute by path; modules between become empty ones."""
    *prefix, field = target.split(".")
    for part in prefix:
        source, made = getattr(from_module, part), getattr(to_module, part, None)
        if source is made:  # a shared module has everything already
            return
        if made is None:
            made = nn.Module()
            setattr(to_module, part, made)
        from_module, to_module = source, made
    value = getattr(from_module, field)
    if isinstance(value, _C.Tensor) and not isinstance(value, nn.Parameter):
        to_module.register_buffer(field, value)
    else:
        setattr(to_module, field, value)


def _assign_attr(value, to_module, target):
    """Sets an attribute by path; modules between are created."""
    *prefix, field = target.split(".")
    for part in prefix:
        made = getattr(to_module, part, None)
        if made is None:
            made = nn.Module()
            setattr(to_module, part, made)
        to_module = made
    if isinstance(value, _C.Tensor) and not isinstance(value, nn.Parameter):
        to_module.register_buffer(field, value)
    else:
        setattr(to_module, field, value)


class GraphModule(nn.Module):
    """A module with the attributes that a graph uses, and a forward generated from the graph.

    root is the module, or a dict by path, that has them. After a change of the graph call recompile().
    """

    def __new__(cls, *args, **kwargs):
        # forward belongs to the class, so every instance gets its own.
        while "_graph_module_instance" in cls.__dict__:
            cls = cls.__bases__[0]
        own = type(cls.__name__, (cls,), {"_graph_module_instance": True, "__module__": cls.__module__})
        return super().__new__(own)

    def __init__(self, root, graph, class_name="GraphModule"):
        super().__init__()
        type(self).__name__ = class_name
        targets = [n.target for n in graph.nodes if n.op in ("get_attr", "call_module")]
        if isinstance(root, nn.Module):
            if hasattr(root, "training"):
                self.training = root.training
            for table in _HOOKS:
                own = root.__dict__.get(table)
                if own:
                    self.__dict__[table].update(own)
            self._hooked = getattr(root, "_hooked", False)
            for target in targets:
                _copy_attr(root, self, target)
        elif isinstance(root, dict):
            for node in graph.nodes:
                if node.op in ("get_attr", "call_module") and node.target not in root:
                    raise RuntimeError(
                        f"Node {node} referenced target {node.target} but that target was not provided in ``root``!"
                    )
            for target in sorted(dict.fromkeys(targets), key=lambda t: t.count(".")):
                _assign_attr(root[target], self, target)
        else:
            raise RuntimeError(f"Unsupported type {root} passed for root!")
        self.__dict__["meta"] = dict(getattr(root, "meta", None) or {}) if isinstance(root, nn.Module) else {}
        self.graph = graph

    @property
    def graph(self):
        """The graph; an assigned one is compiled."""
        return self.__dict__["_graph"]

    @graph.setter
    def graph(self, graph):
        if not isinstance(graph, Graph):
            raise AssertionError(f"Expected a Graph instance, but got {type(graph)}")
        self.__dict__["_graph"] = graph
        graph.owning_module = self
        self.recompile()

    def __setattr__(self, name, value):
        if name == "graph":
            type(self).graph.fset(self, value)
        else:
            super().__setattr__(name, value)

    @property
    def code(self):
        """The generated code."""
        if "_code" not in self.__dict__:
            raise RuntimeError("Code has not been generated! Please report a bug")
        return self.__dict__["_code"]

    def recompile(self):
        """Generates forward from the graph as it is now."""
        generated = self.graph.python_code(root_module="self")
        self.__dict__["_code"] = generated.src
        type(self).forward = _forward_from_src(generated.src, generated.globals)
        return generated

    def print_readable(self, print_output=True, include_stride=False, include_device=False, colored=False, **_):
        """Prints and returns the code as a class."""
        body = self.graph.python_code(root_module="self", verbose=True).src.strip("\n")
        lines = "\n".join("    " + line if line.strip() else "" for line in body.rstrip(" \n").split("\n"))
        text = f"class {self._get_name()}({package_name()}.nn.Module):\n{lines}\n"
        for name, child in self.named_children():
            if hasattr(child, "print_readable"):
                inner = child.print_readable(print_output=False)
                text += (
                    "\n" + "\n".join("    " + line if line else "" for line in inner.split("\n")) + f"\n    # {name}\n"
                )
        if print_output:
            print(text)
        return text

    def __str__(self):
        return "\n".join(
            [super().__repr__(), self.code, "# To see more debug info, please use `graph_module.print_readable()`"]
        )

    def add_submodule(self, target, m):
        """Adds a module by path, creating those between; False if the path runs into something else."""
        *prefix, field = target.split(".")
        module = self
        for part in prefix:
            if not hasattr(module, part):
                setattr(module, part, nn.Module())
            module = getattr(module, part)
            if not isinstance(module, nn.Module):
                return False
        module.add_module(field, m)
        return True

    def delete_submodule(self, target):
        """Removes a module by path; False if there is none."""
        *prefix, field = target.split(".")
        module = self
        for part in prefix:
            module = getattr(module, part, None)
            if not isinstance(module, nn.Module):
                return False
        if not isinstance(getattr(module, field, None), nn.Module):
            return False
        delattr(module, field)
        return True

    def delete_all_unused_submodules(self):
        """Removes the modules that no node calls or reads from."""
        used = set()
        for node in self.graph.nodes:
            if node.op not in ("call_module", "get_attr"):
                continue
            parts = node.target.split(".")
            used.update(".".join(parts[: i + 1]) for i in range(len(parts)))
            if node.op == "call_module" and _has_attribute(self, node.target):
                used.update(
                    f"{node.target}.{name}" for name, _ in self.get_submodule(node.target).named_modules() if name
                )
        for name in [name for name, _ in self.named_modules() if name and name not in used]:
            self.delete_submodule(name)

    # --- copying and pickling -----------------------------------------------------------------------------------------

    def __deepcopy__(self, memo):
        made = GraphModule.__new__(type(self))
        memo[id(self)] = made
        state = {k: copy.deepcopy(v, memo) for k, v in self.__dict__.items() if k not in ("_graph", "_code")}
        made.__dict__.update(state)
        made.graph = copy.deepcopy(self.graph)
        return made

    def __copy__(self):
        made = GraphModule(self, copy.deepcopy(self.graph))
        made.meta.update(self.meta)
        return made

    def __reduce__(self):
        generated = self.recompile()
        state = {k: v for k, v in self.__dict__.items() if k not in ("_graph", "_code")}
        needed = {k: v for k, v in generated.globals.items() if k not in ("torch", "strata")}
        return _rebuild, (_base_class(self), state, generated.src, package_name(), needed)

    __reduce_ex__ = lambda self, protocol: self.__reduce__()  # noqa: E731


def _base_class(module):
    cls = type(module)
    while "_graph_module_instance" in cls.__dict__:
        cls = cls.__bases__[0]
    return cls


def _rebuild(cls, state, src, package, variables):
    """A pickled GraphModule: the graph is traced again from its code, in which every module is a leaf."""
    import operator
    import sys

    import strata

    from ..torch.overrides import TorchFunctionMode
    from ._symbolic_trace import Tracer
    from .node import map_aggregate
    from .proxy import Proxy

    class Calls(TorchFunctionMode):  # functions without traced arguments, such as rand(3), are called at every run
        def __torch_function__(self, func, types, args=(), kwargs=None):
            found = []
            map_aggregate((tuple(args), kwargs or {}), lambda v: found.append(isinstance(v, Proxy)))
            if any(found) or not isinstance(func, _C.Op):
                return func(*args, **(kwargs or {}))
            return tracer.create_proxy("call_function", func, args, kwargs or {})

    class Assignable(Proxy):  # for graphs that jit.trace() recorded; symbolic_trace() refuses to assign, as in PyTorch
        def __setitem__(self, index, value):
            self.tracer.create_proxy("call_function", operator.setitem, (self, index, value), {})

    class KeepModules(Tracer):
        def is_leaf_module(self, m, module_qualified_name):
            return True

        def proxy(self, node):
            return Assignable(node, self)

    own = sys.modules.get("torch") if package == "torch" else None
    variables = {**variables, "strata": strata, package: own or strata}

    class Holder(nn.Module):
        pass

    Holder.forward = _forward_from_src(src, variables)
    root = Holder()
    root.__dict__.update(state)
    tracer = KeepModules()
    with Calls():
        graph = tracer.trace(root)
    made = GraphModule.__new__(cls)
    made.__dict__.update(state)
    made.graph = graph
    return made
