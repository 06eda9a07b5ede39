"""Writes module_samples.inc: the samples of module records as C++ calls, for the program that tests compare with Python.

A case seeds the default generator, builds the module, draws the inputs in the order of the text, and calls it.
"""

import ast
import re

import gen_modules_cpp
import signatures
from module_records import RecordError, texts

LETTERS = {
    "f": "randn({})",
    "p": "add(mul(rand({}), 2.9), 0.1)",
    "z": "add(mul(rand({}), 0.9), 0.05)",
}


def input_text(text):
    """A tensor of the sample language as C++."""
    if text.startswith("t["):
        values = ast.literal_eval(text[1:])
        flat = values
        while isinstance(flat[0], list):
            flat = [x for row in flat for x in row]
        return f"integers({{{', '.join(map(str, flat))}}}, {{{', '.join(map(str, shape_of(values)))}}})"
    found = re.fullmatch(r"([fpz]|i(\d+))\(([\d,]*)\)", text)
    if not found:
        raise RecordError(f"cannot read the sample input `{text}`: use f(2,3), p(2,3), z(2,3), i5(2,3) or t[1,2]")
    shape = "{" + ", ".join(found[3].split(",")) + "}"
    if found[2]:
        return f"randint({found[2]}, {shape})"
    return LETTERS[found[1]].format(shape)


def shape_of(values):
    sizes = []
    while isinstance(values, list):
        sizes.append(len(values))
        values = values[0]
    return sizes


def value_text(node):
    """A constructor argument as C++."""
    if isinstance(node, (ast.Tuple, ast.List)):
        return "{" + ", ".join(map(value_text, node.elts)) + "}"
    if isinstance(node, ast.UnaryOp):
        return "-" + value_text(node.operand)
    if isinstance(node.value, str):
        return f'"{node.value}"'
    return {"None": "std::nullopt", "True": "true", "False": "false"}.get(repr(node.value), repr(node.value))


def made_text(record, text):
    """The construction: required arguments, then the options by name."""
    call = ast.parse(f"f({text})", mode="eval").body
    given = {a.name: value_text(v) for a, v in zip(record.arguments, call.args, strict=False)}
    given.update({k.arg: value_text(k.value) for k in call.keywords})
    missing = [a.name for a in gen_modules_cpp.required_of(record) if a.name not in given]
    if missing:
        raise RecordError(f"sample `({text})` does not give {', '.join(missing)}")
    required = [given[a.name] for a in gen_modules_cpp.required_of(record)]
    options = [f".{a.name} = {given[a.name]}" for a in gen_modules_cpp.options_of(record) if a.name in given]
    parts = required + ([f"{{{', '.join(options)}}}"] if options else [])
    return f"nn::{record.name}({', '.join(parts)})"


def samples(records):
    return "// Generated from the module records: do not edit.\n" + texts(records, cases)


def cases(r):
    lines = []
    for number, (made, inputs) in enumerate(r.samples):
        drawn = [input_text(i) for i in signatures.split(inputs)]
        names = [f"in{k}" for k in range(len(drawn))]
        lines.append(f'run("{r.name} {number}", [] {{ return {made_text(r, made)}; }}, [](const auto& m) {{\n')
        lines += [f"  const Tensor {n} = {text};\n" for n, text in zip(names, drawn, strict=True)]
        lines.append(f"  return m({', '.join(names)});\n}});\n")
    return "".join(lines)
