"""Generates the fused optimizers of both languages from their records (src/nn/optim/rules.optimizers).

  strata/nn/optimizers.h            options structs and classes, at the end of nn/optim/rules.h
  nn/optimizers.cpp                 the table of rules
  python/strata/optim/_rules.py     the Python classes
  python/strata/optim/_options.py   names of the parts and choices of options

docs/internals/optim.md describes the format of a record.
"""

import ast
import dataclasses
import pathlib
import re

import signatures

HEAD = re.compile(r"(\w+)\((.*)\)$")
STATE = re.compile(r"(\w+)( is a number)?(?: from (\S+))?(?: needs (\w+))?$")
TUPLES = {1: "Option", 2: "OptionPair", 3: "OptionTriple"}
MEMBERS = ("first", "second", "third")


@dataclasses.dataclass
class Option:
    name: str
    default: str  # as Python writes it
    keyword_only: bool

    @property
    def values(self):
        """The default as a tuple of numbers."""
        value = ast.literal_eval(self.default)
        return tuple(float(v) for v in value) if isinstance(value, tuple) else (float(value or 0),)


class Record:
    """One optimizer."""

    def __init__(self, head, lines):
        self.name, inside = HEAD.match(head).groups()
        self.options, keyword_only = [], False
        for item in signatures.split(inside):
            if item == "*":
                keyword_only = True
            else:
                name, default = item.split("=", 1)
                self.options.append(Option(name, default, keyword_only))
        self.doc, self.more, self.op, self.base, self.fixed = "", "", "", None, ""
        self.parts, self.choices, self.states, self.example = {}, {}, [], []
        self.capturable = self.matrices_only = False
        for line in lines:
            self.read(line)

    def read(self, line):
        word, colon, rest = line.partition(": ")
        if not colon and word in ("capturable", "matrices_only"):
            setattr(self, word, True)
        elif word in ("doc", "more", "op"):
            setattr(self, word, rest)
        elif word == "is":
            self.base, self.fixed = rest.split(" with ")
        elif word in ("parts", "choices"):
            name, names = rest.split(" = ")
            getattr(self, word)[name] = names.split()
        elif word == "state":
            self.states.append(STATE.match(rest).groups())
        elif word in ("example", "prints"):
            self.example.append((">>> " if word == "example" else "") + rest)
        else:
            raise SystemExit(f"{self.name}: cannot read '{line}'")


def read(source, kind):
    """The records of a file: an object of class `kind` from each head and its indented lines."""
    records, head, lines = [], None, []
    for line in [*pathlib.Path(source).read_text().splitlines(), ""]:
        if line.startswith("#"):
            continue
        if line.startswith("  "):
            lines.append(line.strip())
        else:
            if head:
                records.append(kind(head, lines))
            head, lines = line or None, []
    return records


# --- C++ --------------------------------------------------------------------------------------------------------------


def number(value):
    return repr(int(value)) if value == int(value) and abs(value) < 1e6 else repr(value)


def fields(record):
    """Member declarations of the options struct, in the order of the signature."""
    lines = []
    for option in record.options:
        kind = TUPLES[len(option.values)]
        preset = ", ".join(number(v) for v in option.values)
        lines.append(f"  {kind} {option.name} = {kind}::preset({preset});\n")
    if record.capturable or record.base:
        lines.append("  Option capturable = Option::preset(0);\n")
    lines.append("  Option master_weights = Option::preset(0);\n")
    return "".join(lines)


def header(records):
    lines = ["// Generated from rules.optimizers: do not edit.\n#pragma once\n\nnamespace strata::optim {\n\n"]
    for r in records:
        for name, choices in r.choices.items():
            items = ", ".join(f"k{''.join(p.capitalize() for p in c.split('_'))}" for c in choices)
            lines.append(f"// Values of {r.name}'s {name}.\n")
            lines.append(f"enum {''.join(p.capitalize() for p in name.split('_'))} : uint8_t {{ {items} }};\n")
        lines.append(f"// {r.doc}\nstruct {r.name}Options {{\n{fields(r)}}};\n")
        lines.append(f"STRATA_API Rule describe(const {r.name}Options&);\nusing {r.name} = Fused<{r.name}Options>;\n\n")
    return "".join([*lines, "}  // namespace strata::optim\n"])


def flat(record):
    """(name in the op, member of the options struct) of each number."""
    for option in record.options:
        parts = record.parts.get(option.name)
        if parts:
            yield from ((part, f"o.{option.name}.{member}") for part, member in zip(parts, MEMBERS, strict=False))
        else:
            yield option.name, f"o.{option.name}"
    if record.capturable:
        yield "capturable", "o.capturable"
    yield "master_weights", "o.master_weights"


def state_kind(state, record):
    name, is_number, start, needs = state
    names = {o.name for o in record.options}
    text = f'.name = "{name}"'
    if is_number:
        text += ", .number = true"
    if start:
        text += f', .option = "{start}"' if start in names else f", .start = {start}"
    if needs:
        text += f', .needs = "{needs}"'
    return "{" + text + "}"


def describe(record, records):
    head = f"Rule describe(const {record.name}Options& o) {{\n"
    if record.base:
        base = next(r for r in records if r.name == record.base)
        lines = [head, f"  {base.name}Options all;\n"]
        own = [o.name for o in record.options] + ["capturable", "master_weights"]
        lines += [f"  all.{name} = o.{name};\n" for name in own]
        name, value = record.fixed.split("=")
        lines.append(f"  all.{name} = {int(ast.literal_eval(value))};\n")
        return "".join(
            [*lines, f'  Rule result = describe(all);\n  result.name = "{record.name}";\n  return result;\n}}\n']
        )
    options = ", ".join(f'{{"{name}", {member}}}' for name, member in flat(record))
    states = ", ".join(state_kind(s, record) for s in record.states)
    lines = [head, f'  Rule result = make_rule("{record.name}", op_{record.op}, {{{options}}}, {{{states}}});\n']
    if record.matrices_only:
        lines.append("  result.matrices_only = true;\n")
    return "".join([*lines, "  return result;\n}\n"])


def source(records):
    head = (
        '// Generated from rules.optimizers: do not edit.\n#include "nn/optim/rules.h"\n'
        '#include "strata/ops/optim/muon.h"\n#include "strata/ops/optim/optimizers.h"\n\nnamespace strata::optim {\n\n'
    )
    rows = ", ".join(f"describe({r.name}Options())" for r in records)
    table = (
        "const std::vector<Rule>& all_rules() {\n"
        f"  static const std::vector<Rule> rules = {{{rows}}};\n  return rules;\n}}\n\n"
    )
    return head + "\n".join(describe(r, records) for r in records) + "\n" + table + "}  // namespace strata::optim\n"


# --- Python -----------------------------------------------------------------------------------------------------------


def docstring(doc, more, example):
    """The indented docstring of a class."""
    body = [doc, *(["", more] if more else []), "", *example]
    text = "\n".join(f"    {line}".rstrip() for line in body).lstrip()
    return f'    """{text}\n    """\n'


def python_class(record):
    star, signature = False, ["self", "params"]
    for option in record.options:
        if option.keyword_only and not star:
            star = True
            signature.append("*")
        signature.append(f"{option.name}={option.default}")
    signature.append("**switches")  # PyTorch's implementation switches, capturable and master_weights
    if record.base:
        given = ", ".join(o.name if not o.keyword_only else f"{o.name}={o.name}" for o in record.options)
        call = f"super().__init__(params, {given}, {record.fixed}, **switches)"
    else:
        tuples = {o.name for o in record.options if len(o.values) > 1}
        given = ", ".join(f"{o.name}={f'fixed({o.name})' if o.name in tuples else o.name}" for o in record.options)
        call = f"super().__init__(params, switches, {given})"
    return (
        f'class {record.name}({record.base or "Fused"}, rule="{record.name}"):\n'
        f"{docstring(record.doc, record.more, record.example)}\n"
        f"    def __init__({', '.join(signature)}):\n        {call}\n"
    )


def python_module(records):
    names = ", ".join(f'"{r.name}"' for r in records)
    head = (
        '"""The optimizers whose step is one fused op. Generated from rules.optimizers: do not edit."""\n\n'
        f"from .fused import Fused, fixed\n\n__all__ = [{names}]\n\n\n"
    )
    return head + "\n\n".join(python_class(r) for r in records)


def python_options(records):
    parts = {name: tuple(p) for r in records for name, p in r.parts.items()}
    choices = {name: tuple(c) for r in records for name, c in r.choices.items()}
    return (
        '"""Options of optimizers. Generated from rules.optimizers: do not edit."""\n\n'
        f"# Options of several numbers, and the names of their parts in the library.\nPARTS = {parts!r}\n"
        f"# Options that choose by name; None is the first.\nCHOICES = {choices!r}\n"
    )


def main(folder, sources, write):
    out = pathlib.Path(folder)
    records = [r for s in sorted(sources) for r in read(s, Record)]
    write(out / "strata" / "nn" / "optimizers.h", header(records))
    write(out / "nn" / "optimizers.cpp", source(records))
    package = out / "python" / "strata" / "optim"
    write(package / "_rules.py", python_module(records))
    write(package / "_options.py", python_options(records))
