"""Python code from a graph."""

import builtins
import collections
import keyword
import math
import re
import sys
import types
import typing

from .. import _C
from .node import (
    Node,
    _get_qualified_name,
    _type_repr,
    inplace_methods,
    magic_methods,
    map_arg,
    package_name,
    package_path,
)

# Names that code uses for what no module defines; the text of the value in arguments -> the value.
_CUSTOM_BUILTINS = {"inf": math.inf, "nan": math.nan, "NoneType": type(None), "device": _C.device}
_ORIGINS = {
    list: typing.List,  # noqa: UP006 - PyTorch writes these names
    dict: typing.Dict,  # noqa: UP006
    set: typing.Set,  # noqa: UP006
    frozenset: typing.FrozenSet,  # noqa: UP006
    tuple: typing.Tuple,  # noqa: UP006
}


class PythonCode(typing.NamedTuple):
    """Generated code, and the globals that it needs."""

    src: str
    globals: dict


class Namespace:
    """Names that are unique, valid, and hide neither builtins nor the package."""

    def __init__(self):
        self._names, self._used, self._counts = {}, set(), collections.defaultdict(int)

    def create_name(self, candidate, obj):
        """A name like the candidate; one object keeps its name."""
        if obj is not None and id(obj) in self._names:
            return self._names[id(obj)][0]
        candidate = re.sub(r"\W+", "_", candidate) or "_unnamed"
        if candidate[0].isdigit():
            candidate = f"_{candidate}"
        match = re.fullmatch(r"(.*)_(\d+)", candidate)
        base, number = (match[1], int(match[2])) if match else (candidate, 0)
        if candidate in self._used or self._is_illegal(candidate, obj):
            number = max(number, self._counts[base])
            while candidate in self._used or self._is_illegal(candidate, obj):
                number += 1
                candidate = f"{base}_{number}"
        self._used.add(candidate)
        self._counts[base] = max(self._counts[base], number)
        if obj is not None:
            self._names[id(obj)] = (candidate, obj)  # holds the object, so that its id is not used again
        return candidate

    def associate_name_with_obj(self, name, obj):
        """Gives an object a name that is in use already."""
        self._names.setdefault(id(obj), (name, obj))

    def _is_illegal(self, name, obj):
        if name in keyword.kwlist:
            return True
        if hasattr(builtins, name):
            return obj is not getattr(builtins, name)
        if name in _CUSTOM_BUILTINS:
            return obj is not _CUSTOM_BUILTINS[name]
        return name in ("strata", "torch")


def _format_target(base, target):
    """base.a.b, with getattr() for parts that are no identifiers."""
    for part in target.split("."):
        base = f"{base}.{part}" if part.isidentifier() else f'getattr({base}, "{part}")'
    return base


class _Globals:
    """The global names of one piece of code."""

    def __init__(self, namespace):
        self.namespace, self.values = namespace, {}

    def add(self, hint, obj):
        """The expression by which code refers to the object."""
        path = package_path(obj)
        if path is not None and obj is not _C.device:
            package = package_name()
            self.values.setdefault(package, _package())
            return f"{package}.{path}"
        name = hint.replace(".", "_")
        if name in self.values and self.values[name] is obj:
            return name
        name = self.namespace.create_name(name, obj)
        self.values[name] = obj
        return name

    def type_text(self, kind):
        """The expression of an annotation."""
        if kind is None or kind == ():
            return "()" if kind == () else "None"
        if isinstance(kind, types.UnionType):
            kind = typing.Union[kind.__args__]  # noqa: UP007
        origin = getattr(kind, "__origin__", None)
        if origin is None:
            return self.add(_type_repr(kind), kind)
        origin = _ORIGINS.get(origin, origin)
        name = self.add(
            f"{origin.__module__}.{origin._name}" if hasattr(origin, "_name") else _type_repr(origin), origin
        )
        if not kind.__args__:
            return name
        return f"{name}[{','.join('...' if a is ... else self.type_text(a) for a in kind.__args__)}]"

    def value_text(self, value):
        """The expression of an argument."""
        if isinstance(value, Node):
            return repr(value)
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            name = self.add(_type_repr(type(value)), type(value))
            return f"{name}({', '.join(map(self.value_text, value))})"
        if isinstance(value, tuple):
            return f"({', '.join(map(self.value_text, value))}{',' if len(value) == 1 else ''})"
        if isinstance(value, list):
            return f"[{', '.join(map(self.value_text, value))}]"
        if isinstance(value, dict):
            return "{" + ", ".join(f"{self.value_text(k)}: {self.value_text(v)}" for k, v in value.items()) + "}"
        if isinstance(value, slice):
            return f"slice({', '.join(map(self.value_text, (value.start, value.stop, value.step)))})"
        if isinstance(value, complex):
            return f"complex({value.real}, {value.imag})"
        if isinstance(value, type) or callable(value):
            return self.add(_get_qualified_name(value), value)
        if isinstance(value, _C.dtype):
            self.values.setdefault(package_name(), _package())
        return repr(value)

    def call_text(self, args, kwargs):
        """The expressions between the parentheses of a call."""
        named = [f"{name} = {self.value_text(value)}" for name, value in kwargs.items()]
        return ", ".join([*map(self.value_text, args), *named])


def _package():
    import strata

    return sys.modules.get("torch", strata) if package_name() == "torch" else strata


class CodeGen:
    """How a graph becomes the text of a function. Subclasses change the signature, the result, or the whole."""

    def __init__(self):
        self._body_transformer = None

    def gen_fn_def(self, free_vars, maybe_return_annotation):
        """The first line of the function."""
        if not free_vars or free_vars[0] != "self":
            free_vars = ["self", *free_vars]
        return f"def forward({', '.join(free_vars)}){maybe_return_annotation}:"

    def generate_output(self, output_args):
        """The return statement."""
        return f"return {output_args}"

    def process_inputs(self, *args):
        """The inputs of the graph from the arguments of the function."""
        return args

    def process_outputs(self, outputs):
        """The result of the function from the outputs of the graph."""
        return outputs

    def additional_globals(self):
        """(name, value) pairs that the code needs besides those of the nodes."""
        return []

    def _gen_python_code(self, nodes, root_module, namespace, verbose=False):
        nodes = list(nodes)
        names = _Globals(namespace)
        names.values.update(_CUSTOM_BUILTINS)
        names.values[package_name()] = _package()
        for name, value in self.additional_globals():
            names.add(name, value)
        writer = _Writer(self, names, root_module, _last_uses(nodes))
        for node in nodes:
            if verbose:
                writer.comment(node)
            writer.write(node)
        body = writer.body or ["pass\n"]
        if self._body_transformer:
            body = self._body_transformer(body)
        wraps = "\n".join(f'{package_name()}.fx._symbolic_trace.wrap("{name}")' for name in writer.wrapped)
        head = self.gen_fn_def(writer.free_vars, writer.return_annotation)
        lines = "\n".join("    " + line for line in "".join(body).split("\n"))
        return PythonCode(f"\n{wraps}\n\n{head}\n{lines}", names.values)


def _last_uses(nodes):
    """node -> the nodes whose value nothing needs after it."""
    seen, found = set(), collections.defaultdict(list)
    for user in reversed(nodes):

        def note(node, user=user):
            if node not in seen:
                seen.add(node)
                found[user].append(node)
            return node

        map_arg(user.args, note)
        map_arg(user.kwargs, note)
    return found


class _Writer:
    """Writes the statements of the nodes in order."""

    def __init__(self, codegen, names, root, last_uses):
        self.codegen, self.names, self.root, self.last_uses = codegen, names, root, last_uses
        self.body, self.free_vars, self.wrapped, self.return_annotation = [], [], {}, ""
        self._previous_trace = None

    def comment(self, node):
        """A comment with the program's line, where it changes."""
        if node.op in ("placeholder", "output"):
            return
        trace = node.stack_trace
        if trace != self._previous_trace or not self._previous_trace:
            if trace:
                self.body.append(
                    f"\n# {trace.strip().splitlines()[-2 if len(trace.strip().splitlines()) > 1 else -1].strip()}\n"
                )
            elif self._previous_trace != "":
                self.body.append("\n# No stacktrace found for following nodes\n")
            self._previous_trace = trace or ""

    def write(self, node):
        """The statement of a node, and the names that it releases."""
        annotation = "" if node.type is None else f" : {self.names.type_text(node.type)}"
        if node.op == "placeholder":
            default = f" = {self.names.value_text(node.args[0])}" if node.args else ""
            self.free_vars.append(f"{node.target}{annotation}{default}")
            plain = node.target.replace("*", "")
            if plain != repr(node):
                self.body.append(f"{node!r} = {plain}\n")
            return
        if node.op == "output":
            if node.type is not None:
                self.return_annotation = f" -> {self.names.type_text(node.type)}"
            self.body.append(self.codegen.generate_output(self.names.value_text(node.args[0])) + "\n")
            return
        self.body.append(getattr(self, f"_{node.op}")(node, f"{node!r}{annotation} = "))
        released = [repr(n) for n in self.last_uses.get(node, [])]
        if not node.users:
            released.append(repr(node))
        self.body.append(f";  {' = '.join([*released, 'None'])}\n" if released else "\n")

    def _call_method(self, node, head):
        method = _format_target(self.names.value_text(node.args[0]), node.target)
        return f"{head}{method}({self.names.call_text(node.args[1:], node.kwargs)})"

    def _call_module(self, node, head):
        return f"{head}{_format_target(self.root, node.target)}({self.names.call_text(node.args, node.kwargs)})"

    def _get_attr(self, node, head):
        return f"{head}{_format_target(self.root, node.target)}"

    def _call_function(self, node, head):
        target, args = node.target, node.args
        name = getattr(target, "__name__", "")
        if getattr(target, "__module__", None) == "_operator" and not node.kwargs:
            texts = [self.names.value_text(a) for a in args]
            if name in magic_methods:
                return head + magic_methods[name].format(*texts)
            if name in inplace_methods:
                return f"{inplace_methods[name].format(*texts)};  {head}{texts[0]}"
        qualified = _get_qualified_name(target)
        reads_attribute = target is getattr and len(args) == 2 and isinstance(args[1], str) and args[1].isidentifier()
        function = self.names.add(qualified, target)
        if node.meta.get("is_wrapped"):
            self.wrapped.setdefault(function)
        if reads_attribute:
            return head + _format_target(self.names.value_text(args[0]), args[1])
        return f"{head}{function}({self.names.call_text(args, node.kwargs)})"
