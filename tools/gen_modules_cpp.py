"""Writes the C++ classes of modules: a header and a source per family of records."""

import ast
import re

from module_records import RecordError, mentions, parse, texts

TYPES = {
    "int": "int64_t",
    "float": "double",
    "bool": "bool",
    "str": "std::string",
    "int?": "std::optional<int64_t>",
    "float?": "std::optional<double>",
    "bool?": "std::optional<bool>",
    "int[]": "SizeArg",
    "Tensor": "Tensor",
    "Tensor?": "Tensor",
}
PARAMS = {
    "Tensor": "const Tensor&",
    "Tensor?": "const Tensor&",
    "int[]|Tensor": "const Tensor&",
    "int[]?": "OptIntList",
}
SUPPORT = (
    "prod any_but conv_bound padding_sides valid_padding wrapped_index zero_row batch_norm_ranks fitting_output_padding"
).split()
# Functions of src/nn/functional_arguments.h that wrap ops.
IN_FRONT = re.compile(r"adaptive_(avg|max)_pool\dd(_with_indices)?")
WORDS = {"None": "std::nullopt", "True": "true", "False": "false"}
OPERATORS = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.FloorDiv: "/",
    ast.Mod: "%",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.And: "&&",
    ast.Or: "||",
}


def cpp_type(kind):
    if kind in TYPES:
        return TYPES[kind]
    for pattern, text in (
        (r"int\[(\d)\]", "Ints<{}>"),
        (r"int\|int\[\d?\]\??", "SizeArg"),
        (r"int\[(\d)\]\|str", "Padding<{}>"),
        (r"int\?\|int\?\[\d\]", "KeepArg"),
        (r"float\|float\[\]\?", "FloatArg"),
    ):
        if found := re.fullmatch(pattern, kind):
            return text.format(*found.groups())
    raise RecordError(f"type `{kind}` is not known; docs/internals/modules.md lists the types")


def default(kind, text):
    """A default as C++ writes it."""
    if text == "None":
        return "{}"
    if text.startswith("'"):
        return '"' + text[1:-1] + '"'
    return {"True": "true", "False": "false"}.get(text, text)


class Expression:
    """Translates Python expressions of records to C++. `names` maps names, of which `tensors` are tensors; calls are
    resolved by the op table."""

    def __init__(self, names, table, tensors=()):
        self.names, self.table, self.tensors = names, table, tensors

    def text(self, expression):
        return self.emit(parse(expression))

    def emit(self, node):
        if isinstance(node, ast.Constant):
            if isinstance(node.value, str):
                return f'"{node.value}"'
            return WORDS.get(str(node.value), repr(node.value))
        if isinstance(node, ast.Name):
            if node.id in self.names:
                return self.names[node.id]
            if node.id in ("inf", "training"):
                return {"inf": "HUGE_VAL", "training": "s.training"}[node.id]
            raise RecordError(f"`{node.id}` is none of {', '.join(self.names)}")
        if isinstance(node, ast.UnaryOp):
            return ("!" if isinstance(node.op, ast.Not) else "-") + self.emit(node.operand)
        if isinstance(node, ast.BinOp):
            left, right = self.emit(node.left), self.emit(node.right)
            of_tensors = mentions(node, self.tensors)
            if isinstance(node.op, ast.Div):
                return f"({left} / {right})" if of_tensors else f"(static_cast<double>({left}) / {right})"
            if type(node.op) not in OPERATORS or (of_tensors and isinstance(node.op, ast.FloorDiv)):
                raise RecordError(f"cannot write `{ast.unparse(node)}` in C++; name an op instead of the operator")
            return f"({left} {OPERATORS[type(node.op)]} {right})"
        if isinstance(node, ast.BoolOp):
            return "(" + f" {OPERATORS[type(node.op)]} ".join(map(self.emit, node.values)) + ")"
        if isinstance(node, ast.Compare):
            left, right = self.emit(node.left), self.emit(node.comparators[0])
            if isinstance(node.ops[0], (ast.Is, ast.IsNot)):
                return ("" if isinstance(node.ops[0], ast.Is) else "!") + f"detail::is_none({left})"
            return f"({left} {OPERATORS[type(node.ops[0])]} {right})"
        if isinstance(node, ast.IfExp):
            return f"({self.emit(node.test)} ? {self.emit(node.body)} : {self.emit(node.orelse)})"
        if isinstance(node, (ast.List, ast.Tuple)):
            items = [self.emit(e.value if isinstance(e, ast.Starred) else e) for e in node.elts]
            return f"detail::shape_of({', '.join(items)})"
        if isinstance(node, ast.Attribute) and node.value.id == "self":  # if a parameter of forward hides it
            return f"s.{node.attr}"
        if isinstance(node, ast.Call):
            return self.call(node)
        raise RecordError(f"cannot write `{ast.unparse(node)}` in C++")

    def call(self, node):
        name = node.func.id
        if name == "sqrt" and mentions(node, self.tensors):
            raise RecordError(f"`{ast.unparse(node)}`: sqrt is a function of numbers here; for tensors use pow(x, 0.5)")
        if name == "sqrt":
            return f"std::sqrt(static_cast<double>({self.emit(node.args[0])}))"
        if name in SUPPORT:
            return f"detail::{name}({', '.join(map(self.emit, node.args))})"
        if IN_FRONT.fullmatch(name):
            return f"functional::{name}({', '.join(map(self.emit, node.args))})"
        full, op = self.table.find(name)
        space = "functional::" if full.startswith("nn.functional.") else "strata::"
        keywords = {k.arg: k.value for k in node.keywords}
        names = [p[1] for p in op.params]
        inplace = keywords.pop("inplace", None) if "inplace" not in names else None
        given = list(map(self.emit, node.args))
        for index in range(len(given), len(names)):
            if not keywords:
                break
            if names[index] in keywords:
                given.append(self.emit(keywords.pop(names[index])))
            else:
                given.append(op.cpp_param(index, *op.params[index]).partition(" = ")[2] or "{}")
        if keywords:
            raise RecordError(f"{name} has no parameter {', '.join(keywords)}")
        plain = f"{space}{name}({', '.join(given)})"
        if inplace is None:
            return plain
        return f"({self.emit(inplace)} ? {space}{name}_({', '.join(given)}) : {plain})"


def names_of(record, tensors=True):
    names = {name: f"s.{name}" for name in record.stored()}
    if tensors:
        names.update({t.name: f"s.{t.name}" for _, t in record.tensors})
        names.update({v: f"s.{v}" for v in record.values})
    return names


def options_of(record):
    return [a for a in record.arguments if a.default is not None and a.kind != "legacy"]


def required_of(record):
    return [a for a in record.arguments if a.default is None]


def argument_text(a):
    kind = cpp_type(a.kind)
    return f"{kind if kind in ('int64_t', 'double', 'bool') else 'const ' + kind + '&'} {a.name}"


def result_type(result):
    found = re.fullmatch(r"\((Tensor(?:, Tensor)*)\)", result)
    return f"std::array<Tensor, {found[1].count('Tensor')}>" if found else "Tensor"


def params_text(method, defaults=True):
    parts = []
    for p in method.params:
        if p.kind not in PARAMS:
            raise RecordError(f"parameter `{p.name}` of {method.name}: the type is not one of {', '.join(PARAMS)}")
        text = f"{PARAMS[p.kind]} {p.name}"
        parts.append(text + (" = {}" if defaults and p.default is not None else ""))
    return ", ".join(parts)


def makes_tensors(record):
    return bool(record.tensors)


def positional(record):
    """The constructor that takes optional arguments by position, as Python does. The first of them is deduced when its
    type is a class, so that {.name = value} can only mean the options."""
    required, options = required_of(record), options_of(record)
    parts = [argument_text(a) for a in required]
    first = cpp_type(options[0].kind)
    plain = first in ("int64_t", "double", "bool")
    parts.append(f"{first} {options[0].name}" if plain else f"const T& {options[0].name}")
    parts += [f"{argument_text(a)} = {default(a.kind, a.default)}" for a in options[1:]]
    head = "" if plain else f"  template <class T>\n  requires std::convertible_to<T, {first}>\n"
    chosen = ", ".join(f".{a.name} = {a.name}" for a in options)
    passed = ", ".join([*(a.name for a in required), f"Options{{{chosen}}}"])
    explicit = "explicit " if len(parts) == 1 else ""
    return f"{head}  {explicit}{record.name}({', '.join(parts)}) : {record.name}({passed}) {{}}\n"


def header(family, records):
    text = (
        f"// Generated from {family}.modules: do not edit.\n#pragma once\n"
        '#include "nn/arguments.h"\n#include "nn/module.h"\n\nnamespace strata::nn {\n'
    )
    return text + texts(records, declaration) + "\n}  // namespace strata::nn\n"


def declaration(r):
    name, options = r.name, options_of(r)
    takes = [argument_text(a) for a in required_of(r)]
    lines = ["\n"]
    if options or makes_tensors(r):
        lines.append(f"struct {name}Options {{\n")
        for a in options:
            lines.append(f"  {cpp_type(a.kind)} {a.name} = {default(a.kind, a.default)};\n")
        if makes_tensors(r):
            lines.append("  std::optional<DType> dtype = {};\n  std::optional<Device> device = {};\n")
        lines.append("};\n")
        takes.append(f"const {name}Options& options = {{}}")
    lines.append(f"// {r.doc}\nclass STRATA_API {name} : public Module {{\n public:\n")
    if options or makes_tensors(r):
        lines.append(f"  using Options = {name}Options;\n")
    explicit = "explicit " if len(takes) == 1 else ""
    lines.append(f"  {explicit}{name}({', '.join(takes)});\n")
    if options:
        lines.append(positional(r))
    lines.append(f"  {name}(None) : Module(none) {{}}\n")
    lines.append("  static const char kTag;  // see Module::as\n\n")
    for m in r.methods:
        kind, params = result_type(m.result), params_text(m)
        lines.append(f"  {kind} {m.name}({params}) const;\n")
        if m.name == "forward":
            lines.append(f"  {kind} operator()({params}) const;  // forward with its hooks\n")
            if kind == "Tensor" and [p.kind for p in m.params] == ["Tensor"]:
                lines.append(
                    "  Tensor forward(const Tensor& input) override { return std::as_const(*this).forward(input); }\n"
                )
            else:
                lines.append("  using Module::forward;\n")
    if r.tensors:
        lines.append("  void reset_parameters() const;\n")
    for attribute, kind in r.stored().items():
        if not attribute.startswith("_"):
            lines.append(f"  const {cpp_type(kind)}& {attribute}() const;\n")
    for tensor in [t.name for _, t in r.tensors] + r.values:
        lines.append(f"  Tensor& {tensor}() const;\n")
    lines.append("\n private:\n  struct State;\n  State& own() const;\n};\n")
    return "".join(lines)


def source(family, records, table):
    text = (
        f'// Generated from {family}.modules: do not edit.\n#include "strata/nn/{family}.h"\n\n#include <cmath>\n\n'
        '#include "autograd/autograd.h"\n#include "nn/functional_arguments.h"\n#include "strata/operators.h"\n\n'
        "namespace strata::nn {\n"
    )
    return text + texts(records, lambda r: definition(r, table)) + "\n}  // namespace strata::nn\n"


def repr_lines(r, table):
    expression = Expression(names_of(r), table)
    lines = []
    for condition, text in r.repr:
        pieces = []
        for literal, inside in re.findall(r"([^{]+)|\{([^}]*)\}", text):
            if literal:
                pieces.append('"' + literal.replace('"', '\\"') + '"')
            elif inside.endswith("!r"):
                pieces.append(f'"\'" + detail::show({expression.text(inside[:-2])}) + "\'"')
            else:
                pieces.append(f"detail::show({expression.text(inside)})")
        test = f"if ({expression.text(condition)}) " if condition else ""
        # append(), since GCC 12 takes the copies of a sum for writes past the end of a short text
        lines.append(f"    {test}text{''.join(f'.append({piece})' for piece in pieces)};\n")
    return "".join(lines)


def definition(r, table):
    name = r.name
    lines = [f"\nstruct {name}::State final : ModuleState {{\n"]
    for attribute, kind in r.stored().items():
        lines.append(f"  {cpp_type(kind)} {attribute}{initial(kind)};\n")
    if r.tensors or r.values:
        lines.append(f"  Tensor {', '.join([t.name for _, t in r.tensors] + r.values)};\n")
    if r.repr:
        lines.append(
            "  std::string extra_repr() const override {\n    const State& s = *this;\n    std::string text;\n"
        )
        lines.append(repr_lines(r, table) + "    return text;\n  }\n")
    lines.append("};\n")
    lines.append(f"{name}::State& {name}::own() const {{ return static_cast<State&>(state()); }}\n")
    lines.append(f"const char {name}::kTag = 0;\n")
    lines += constructor(r, table)
    if r.tensors:
        lines += reset(r, table)
    for m in r.methods:
        lines += method(r, m, table)
    for attribute, kind in r.stored().items():
        if not attribute.startswith("_"):
            lines.append(f"const {cpp_type(kind)}& {name}::{attribute}() const {{ return own().{attribute}; }}\n")
    for tensor in [t.name for _, t in r.tensors] + r.values:
        lines.append(f"Tensor& {name}::{tensor}() const {{ return own().{tensor}; }}\n")
    return "".join(lines)


def initial(kind):
    return (
        " = 0"
        if cpp_type(kind).startswith(("Ints", "Padding")) or kind in ("int", "float")
        else " = false"
        if kind == "bool"
        else ""
    )


def constructor(r, table):
    takes = [argument_text(a) for a in required_of(r)]
    if options_of(r) or makes_tensors(r):
        takes.append("const Options& options")
    arguments = {
        a.name: a.name if a.default is None else f"options.{a.name}" for a in r.arguments if a.kind != "legacy"
    }
    lines = [f"{r.name}::{r.name}({', '.join(takes)}) : Module(std::make_shared<State>()) {{\n"]
    lines.append(f'  State& s = own();\n  s.kind = "{r.name}", s.tag = &kTag;\n')
    derived = {name for name, _, _ in r.attributes}
    for attribute in r.stored():
        if attribute not in derived:
            lines.append(f"  s.{attribute} = {arguments[attribute]};\n")
            if r.stored()[attribute] == "int[]":  # a shape is a list even if it was given as one number
                lines.append(f"  s.{attribute}.single = false;\n")
    here = Expression({**names_of(r, tensors=False), **arguments}, table)
    for attribute, kind, expression in r.attributes:
        lines.append(f"  s.{attribute} = detail::convert<{cpp_type(kind)}>({here.text(expression)});\n")
        here.names[attribute] = f"s.{attribute}"
    for condition, message in r.checks:
        filled = re.sub(r"\{(\w+)\}", "{}", message)
        values = "".join(f", detail::show({here.names[n]})" for n in re.findall(r"\{(\w+)\}", message))
        lines.append(f'  STRATA_CHECK({here.text(condition)}, Value, "{r.name}: {filled}"{values});\n')
    for value in r.values:
        lines.append(f'  s.{value} = {arguments[value]};\n  s.buffers.push_back({{"{value}", &s.{value}}});\n')
    for kind, t in r.tensors:
        sizes = ", ".join(here.text(e.lstrip("*")) for e in t.shape)
        made = f"empty(detail::shape_of({sizes}), {'DType::I64' if t.dtype else 'dtype'}, device)"
        condition = f"if ({here.text(t.condition)}) " if t.condition else ""
        lines.append(f"  {condition}s.{t.name} = {made};\n")
        flags = (
            ""
            if t.persistent and not t.optional
            else f", {'true' if t.persistent else 'false'}, {'true' if t.optional else 'false'}"
        )
        lines.append(f'  s.{kind}s.push_back({{"{t.name}", &s.{t.name}{flags}}});\n')
        if kind == "parameter":
            lines.append(f"  if (s.{t.name}) s.{t.name}.set_requires_grad();\n")
    if r.tensors:
        at = lines.index(f'  State& s = own();\n  s.kind = "{r.name}", s.tag = &kTag;\n') + 1
        lines.insert(
            at,
            "  const DType dtype = options.dtype.value_or(default_dtype());\n  const Device device = options.device.value_or(Device());\n",
        )
        lines.append("  reset_parameters();\n")
    return [*lines, "}\n"]


def reset(r, table):
    lines = [f"void {r.name}::reset_parameters() const {{\n  State& s = own();\n"]
    here = Expression(names_of(r, tensors=False), table)
    here.names.update({a.name: f"s.{a.name}" for a in r.arguments if a.name in r.stored()})
    for _, t in r.tensors:
        call = parse(f"{t.init}(x, {t.arguments})")
        op = table.init(t.init)
        names, given = [p[1] for p in op.params], []
        keywords = {k.arg: k.value for k in call.keywords}
        for index, argument in enumerate(call.args[1:], 1):
            keywords[names[index]] = argument
        for index in range(1, len(names)):
            if not keywords:
                break
            known = keywords.pop(names[index], None)
            given.append(
                here.emit(known) if known is not None else op.cpp_param(index, *op.params[index]).partition(" = ")[2]
            )
        test = f"if (s.{t.name}) " if t.condition else ""
        lines.append(f"  {test}init::{t.init}({', '.join([f's.{t.name}', *given])});\n")
    if r.after:
        here.names.update(names_of(r))
        lines.append(f"  {here.text(r.after)};\n")
    return [*lines, "}\n"]


def method(r, m, table):
    kind = result_type(m.result)
    tensors = {t.name for _, t in r.tensors} | {*r.values} | {p.name for p in m.params if "Tensor" in p.kind}
    here = Expression({**names_of(r), **{p.name: p.name for p in m.params}}, table, tensors)
    body = here.text(m.body)
    uses = "  [[maybe_unused]] const State& s = own();\n"
    lines = [f"{kind} {r.name}::{m.name}({params_text(m, False)}) const {{\n{uses}  return {body};\n}}\n"]
    if m.name != "forward":
        return lines
    tensors = [p.name for p in m.params if "Tensor" in p.kind]
    lines.append(f"{kind} {r.name}::operator()({params_text(m, False)}) const {{\n")
    passed = ", ".join(p.name for p in m.params)
    inside = ", ".join(f"in[{tensors.index(p.name)}]" if p.name in tensors else p.name for p in m.params)
    lines.append(f"  if (!has_hooks()) [[likely]] return forward({passed});\n")
    gives = f"std::vector{{forward({inside})}}" if kind == "Tensor" else f"detail::listed(forward({inside}))"
    run = f"with_hooks({{{', '.join(tensors)}}}, [&](const std::vector<Tensor>& in) {{ return {gives}; }})"
    unpack = f"{run}[0]" if kind == "Tensor" else f"detail::unlisted<{m.result.count('Tensor')}>({run})"
    return [*lines, f"  return {unpack};\n}}\n"]
