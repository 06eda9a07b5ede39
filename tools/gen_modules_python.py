"""Writes the Python classes of modules: strata/nn/_modules.py."""

import ast
import re

from module_records import parse

HEAD = '''"""Modules, derived from the records in src/nn/modules by tools/gen_modules.py: do not edit."""

import math

from .. import _C
from . import functional as F
from . import init
from ._support import (
    FromPretrained,
    RunningStats,
    any_but,
    batch_norm_ranks,
    conv_bound,
    fitting_output_padding,
    floats_of,
    legacy_reduction,
    padding_sides,
    prod,
    sizes_of,
    tuple_of,
    valid_padding,
    wrapped_index,
    zero_row,
)
from .module import Module
from .parameter import Parameter

_op, _empty = _C.ops, _C.ops["empty"]
'''
WITH_INDICES = re.compile(r"((?:adaptive_|fractional_)?max_pool\dd)_with_indices")


class Names(ast.NodeTransformer):
    """Rewrites an expression of a record: names by the given table, calls by the location of the functions."""

    def __init__(self, names, table):
        self.names, self.table = names, table

    def visit_Name(self, node):
        return parse(self.names[node.id]) if node.id in self.names else node

    def visit_Attribute(self, node):
        return node

    def visit_Call(self, node):
        name = node.func.id
        node.args = [self.visit(a) for a in node.args]
        for keyword in node.keywords:
            keyword.value = self.visit(keyword.value)
        if name == "sqrt":
            node.func = parse("math.sqrt")
        elif found := WITH_INDICES.fullmatch(name):
            node.func = parse(f"F.{found[1]}")
            node.keywords.append(ast.keyword("return_indices", ast.Constant(True)))
        elif not re.search(rf"\b{name},\n", HEAD):
            full = name if name.startswith("adaptive_") else self.table.find(name)[0]
            node.func = parse(f"_op['{name}']" if full == name and not name.startswith("adaptive_") else f"F.{name}")
        return node


def text(expression, names, table):
    return ast.unparse(Names(names, table).visit(parse(expression))).replace("'", '"')


def module(records, table):
    classes = "\n\n".join(written(r, table) for r in records)
    names = "".join(f'    "{r.name}",\n' for r in sorted(records, key=lambda r: r.name))
    return f"{HEAD}\n__all__ = [\n{names}]\n\n\n{classes}"


def signature(r):
    if r.takes_anything:
        return "self, *args, **kwargs"
    parts = ["self"]
    for a in r.arguments:
        if not a.keyword_only:
            parts.append(a.name if a.default is None else f"{a.name}={a.default}")
    rest = [a.name if a.default is None else f"{a.name}={a.default}" for a in r.arguments if a.keyword_only]
    if r.tensors:
        parts += ["device=None", "dtype=None"]
    return ", ".join([*parts, *(["*", *rest] if rest else [])]).replace("'", '"')


def converted(kind, name):
    """An argument as the module keeps it."""
    if found := re.fullmatch(r"int\[(\d)\]", kind):
        return f'tuple_of({name}, {found[1]}, "{name}")'
    if found := re.fullmatch(r"int\[(\d)\]\|str", kind):
        return f'{name} if isinstance({name}, str) else tuple_of({name}, {found[1]}, "{name}")'
    if kind == "int[]":
        return f"sizes_of({name})"
    if kind == "float|float[]?":
        return f"floats_of({name})"
    return name


def docstring(r):
    lines = [r.doc]
    for kind, t in r.tensors:
        shape = ", ".join(t.shape)
        lines.append(f"{kind} {t.name}: [{shape}]" + (f" if {t.condition}" if t.condition else ""))
    if len(lines) == 1:
        return f'    """{r.doc}"""\n'
    return f'    """{r.doc}\n\n' + "".join(f"    {line}\n" for line in lines[1:]) + '    """\n'


def written(r, table):
    bases = ", ".join([*([r.base] if r.base else []), "Module"])
    lines = [f"class {r.name}({bases}):\n", docstring(r), "\n"]
    lines.append(f"    def __init__({signature(r)}):\n        super().__init__()\n")
    derived = {name for name, _, _ in r.attributes}
    here = {}
    if any(a.kind == "legacy" for a in r.arguments):
        lines.append("        reduction = legacy_reduction(size_average, reduce, reduction)\n")
    kinds = {a.name: a.kind for a in r.arguments}
    for name in r.stored():
        if name not in derived:
            lines.append(f"        self.{name} = {converted(kinds[name], name)}\n")
            here[name] = f"self.{name}"
    for condition, message in r.checks:
        test = parse(f"not ({condition})")
        shown = re.sub(r"\{(\w+)\}", r"{self.\1}", message)
        prefix = "f" if "{" in shown else ""
        lines.append(f"        if {ast.unparse(Names(here, table).visit(test)).replace(chr(39), chr(34))}:\n")
        lines.append(f'            raise ValueError({prefix}"{r.name}: {shown}")\n')
    for name, kind, expression in r.attributes:
        value = text(expression, {k: v for k, v in here.items() if k != name}, table)
        if converted(kind, "x") != "x" and kinds.get(name):
            value = converted(kind, f"({value})").replace(f'"({value})"', f'"{name}"')
        lines.append(f"        self.{name} = {value}\n")
        here[name] = f"self.{name}"
    for value in r.values:
        lines.append(f'        self.register_buffer("{value}", {value})\n')
    for kind, t in r.tensors:
        lines += tensor(kind, t, here, table)
    if r.tensors:
        lines.append("        self.reset_parameters()\n")
        lines += reset(r, here, table)
    lines += forward(r, here, table)
    if r.repr:
        lines += extra_repr(r, here, table)
    return "".join(lines)


def tensor(kind, t, here, table):
    shape = ", ".join("*" * e.startswith("*") + text(e.lstrip("*"), here, table) for e in t.shape)
    shape = f"({shape},)" if shape and len(t.shape) == 1 else f"({shape})"
    dtype = "_C.int64" if t.dtype else "dtype"
    made = f"_empty({shape}, dtype={dtype}, device=device)"
    if kind == "parameter":
        value = f"Parameter({made})"
    else:
        value = made
    if t.condition:
        value += f" if {text(t.condition, here, table)} else None"
    name = "parameter" if kind == "parameter" else "buffer"
    tail = "" if t.persistent else ", persistent=False"
    lines = [f'        self.register_{name}("{t.name}", {value}{tail})\n']
    if t.optional:
        lines.append(f'        self._optional_names = {{"{t.name}"}}\n')
    return lines


def reset(r, here, table):
    lines = ["\n    def reset_parameters(self):\n", '        """Draws or sets the initial values anew."""\n']
    for _, t in r.tensors:
        arguments = parse(f"f({t.arguments})") if t.arguments else None
        given = ""
        if arguments is not None:
            items = [ast.unparse(Names(here, table).visit(a)) for a in arguments.args]
            items += [f"{k.arg}={ast.unparse(Names(here, table).visit(k.value))}" for k in arguments.keywords]
            given = "".join(f", {i}" for i in items)
        call = f"init.{t.init}(self.{t.name}{given})\n"
        if t.condition:
            lines.append(f"        if self.{t.name} is not None:\n            {call}")
        else:
            lines.append(f"        {call}")
    if r.after:
        names = {**here, **{t.name: f"self.{t.name}" for _, t in r.tensors}}
        lines.append(f"        {text(r.after, names, table)}\n")
    return lines


def in_forward(r, here):
    """The meaning of names in forward: tensors are read directly from the dictionaries, which skips __getattr__."""
    names = {**here, "training": "self.training", "inf": "math.inf"}
    names.update({t.name: f"p['{t.name}']" for t in r.parameters})
    names.update({t.name: f"b['{t.name}']" for t in r.buffers})
    names.update({v: f"b['{v}']" for v in r.values})
    return names


def forward(r, here, table):
    method = r.forward
    takes = ", ".join(["self", *(p.name if p.default is None else f"{p.name}={p.default}" for p in method.params)])
    names = {k: v for k, v in in_forward(r, here).items() if k not in {p.name for p in method.params}}
    lines = [f"\n    def forward({takes}):\n"]
    others = [m for m in r.methods if m.name == "with_indices"]
    bodies = [text(m.body, names, table) for m in [*others, method]]
    if any('p["' in b for b in bodies):
        lines.append("        p = self._parameters\n")
    if any(re.search(r'\bb\["', b) for b in bodies):
        lines.append("        b = self._buffers\n")
    if others:
        lines.append(f"        if self.return_indices:\n            return {bodies[0]}\n")
    return [*lines, f"        return {bodies[-1]}\n"]


def extra_repr(r, here, table):
    names = {**here, **{t.name: f"self.{t.name}" for _, t in r.tensors}}

    def filled(found):
        inside, suffix = (found[1][:-2], "!r") if found[1].endswith("!r") else (found[1], "")
        return "{" + ast.unparse(Names(names, table).visit(parse(inside))) + suffix + "}"

    lines = ["\n    def extra_repr(self):\n"]
    pieces = []
    for condition, shown in r.repr:
        shown = re.sub(r"\{([^}]*)\}", filled, shown)
        prefix = "f" if "{" in shown else ""
        pieces.append((text(condition, names, table) if condition else None, f'{prefix}"{shown}"'))
    if len(pieces) == 1 and pieces[0][0] is None:
        return [*lines, f"        return {pieces[0][1]}\n"]
    lines.append('        text = ""\n')
    for condition, shown in pieces:
        lines.append(
            f"        if {condition}:\n            text += {shown}\n" if condition else f"        text += {shown}\n"
        )
    return [*lines, "        return text\n"]
