"""Generates the learning-rate schedulers of both languages from their records (src/nn/optim/schedules.schedulers).

  strata/nn/schedulers.h               options structs, included by nn/optim/lr_scheduler.h
  nn/schedulers.cpp                    the table of formulas and checks
  python/strata/optim/_schedulers.py   the Python classes

docs/internals/optim.md describes the format of a record.
"""

import dataclasses
import pathlib
import re

import gen_optimizers
import signatures

ITEM = re.compile(r"(\w+)(?:: (\w+))?(?:=(.*))?$")
CHOICES = re.compile(r"(\w+) = ([\w ]+), in C\+\+ (bool|enum) (\w+)$")
OPTIMIZER = ">>> optimizer = strata.optim.SGD([strata.ones(1, requires_grad=True)], lr=0.5, momentum=0.9)"
CPP_TYPES = {"number": "double", "int": "int64_t", "bool": "bool", "list": "std::vector<int64_t>"}
EXAMPLE = {"example": ">>> ", "inside": "...     ", "prints": ""}


@dataclasses.dataclass
class Choices:
    names: list
    kind: str  # bool: whether it is the second; enum: its index
    cpp_name: str


@dataclasses.dataclass
class Option:
    name: str
    kind: str  # number, int, bool, list (of integers), groups (a number, or one for each group), python (not in C++)
    default: str | None  # as Python writes it
    choices: Choices | None = None

    def cpp(self):
        """The member declaration in C++. A required number is NaN, which every check rejects."""
        if self.choices:
            c = self.choices
            if c.kind == "bool":
                return f"  bool {c.cpp_name} = false;  // {self.name}: '{c.names[1]}', not '{c.names[0]}'\n"
            items = ["k" + "".join(p.capitalize() for p in n.split("_")) for n in c.names]
            return (
                f"  enum {c.cpp_name} : uint8_t {{ {', '.join(items)} }};\n  {c.cpp_name} {self.name} = {items[0]};\n"
            )
        if self.kind == "groups":
            inside = self.default if self.default is not None else ""
            return f"  std::vector<double> {self.name} = {{{inside}}};  // one for all groups, or one each\n"
        value = {"list": "{}", "int": "0"}.get(self.kind, "std::numeric_limits<double>::quiet_NaN()")
        if self.default not in (None, "None"):
            value = self.default.lower() if self.kind == "bool" else self.default
        return f"  {CPP_TYPES[self.kind]} {self.name} = {value};\n"

    @property
    def variable(self):
        """Its name in formulas."""
        return self.choices.cpp_name if self.choices and self.choices.kind == "bool" else self.name


class Record:
    """One scheduler."""

    def __init__(self, head, lines):
        self.name, inside = gen_optimizers.HEAD.match(head).groups()
        self.options = []
        for item in signatures.split(inside):
            name, kind, default = ITEM.match(item).groups()
            kind = kind or ("bool" if default in ("True", "False") else "number")
            self.options.append(Option(name, kind, default))
        self.doc, self.more, self.python = "", "", "Formula"
        self.used, self.given = [o.name for o in self.options], []
        self.check, self.limit, self.let, self.next, self.at, self.example = [], [], [], [], [], [OPTIMIZER]
        for line in lines:
            self.read(line)
        if self.given and any(o.kind == "list" for o in self.numbers):
            raise SystemExit(f"{self.name}: a formula with a list cannot have given values, which come last too")

    def option(self, name):
        return next(o for o in self.options if o.name == name)

    def read(self, line):
        word, _, rest = line.partition(": ")
        if word in ("doc", "more", "python"):
            setattr(self, word, rest)
        elif word in EXAMPLE:
            self.example.append(EXAMPLE[word] + rest)
        elif word in ("check", "limit"):
            getattr(self, word).append(rest.split(": ", 1))
        elif word == "let":
            self.let.append(rest.split(" = ", 1))
        elif word in ("next", "at"):
            value, _, condition = rest.partition(" if ")
            getattr(self, word).append((value, condition))
        elif word == "formula":
            used, _, given = rest.partition(", given ")
            self.used, self.given = used.split(), given.split()
        elif word == "choices":
            name, names, kind, cpp_name = CHOICES.match(rest).groups()
            self.option(name).choices = Choices(names.split(), kind, cpp_name)
        else:
            raise SystemExit(f"{self.name}: cannot read '{line}'")

    @property
    def numbers(self):
        """The options that formula and checks use, a list last: it has the remaining numbers."""
        return sorted((self.option(n) for n in self.used), key=lambda o: o.kind == "list")


# --- C++ --------------------------------------------------------------------------------------------------------------


def header(records):
    lines = [
        "// Generated from schedules.schedulers: do not edit.\n#pragma once\n#include <limits>\n#include <vector>\n\n"
    ]
    lines.append('#include "nn/optim/schedules.h"\n\nnamespace strata::optim::lr_scheduler {\n\n')
    for r in records:
        members = "".join(o.cpp() for o in r.options if o.kind != "python")
        lines.append(f"// {r.doc}\nstruct {r.name}Options {{\n{members}}};\n")
        lines.append(f"STRATA_API NamedSchedule describe(const {r.name}Options&);\n\n")
    return "".join([*lines, "}  // namespace strata::optim::lr_scheduler\n"])


def names_in(record, text):
    """The declarations of the names that a formula or a check uses."""
    used = set(re.findall(r"[A-Za-z_]\w*", text))
    lets = []
    for name, value in reversed(record.let):
        if name in used:
            used |= set(re.findall(r"[A-Za-z_]\w*", value))
            lets.insert(0, f"  const auto {name} = {value};\n")
    lines = []
    for i, option in enumerate(record.numbers):
        if option.variable not in used:
            continue
        if option.kind == "list":
            lines.append(f"  const Numbers {option.variable} = n.subspan({i});\n")
        elif option.kind == "bool" or option.variable != option.name:
            lines.append(f"  const bool {option.variable} = n[{i}] != 0;\n")
        else:
            lines.append(f"  const double {option.variable} = n[{i}];\n")
    first = len(record.numbers)
    lines += [f"  const double {name} = n[{first + i}];\n" for i, name in enumerate(record.given) if name in used]
    lines += [f"  const double {name} = m.{name};\n" for name in ("epoch", "lr", "base") if name in used]
    if "initial" in used:
        lines.append("  const bool initial = m.initial;\n")
    return "".join(lines + lets)


def condition(check):
    test, message = check
    fields = re.findall(r"\{(\w+)\}", message)
    text = re.sub(r"\{\w+\}", "{}", message)
    return f'  STRATA_CHECK({test}, Value, "{text}", {", ".join(fields)});\n'


def formula(record, which):
    cases = getattr(record, which)
    text = " ".join(" ".join(c) for c in [*cases, *record.limit])
    body = "".join(condition(c) for c in record.limit)
    body += "".join(f"  if ({test}) return {value};\n" if test else f"  return {value};\n" for value, test in cases)
    head = f"double {record.name}_{which}([[maybe_unused]] const Moment& m, [[maybe_unused]] Numbers n) {{\n"
    return f"{head}{names_in(record, text)}{body}}}\n"


def checks(record):
    text = " ".join(" ".join(c) for c in record.check)
    body = "".join(condition(c) for c in record.check)
    return f"void {record.name}_check([[maybe_unused]] Numbers n) {{\n{names_in(record, text)}{body}}}\n"


def describe(record):
    values = []
    for option in record.numbers:
        member = f"o.{option.variable}"
        values.append(f"static_cast<double>({member})" if option.kind in ("int", "bool") or option.choices else member)
    head = f"NamedSchedule describe(const {record.name}Options& o) {{\n"
    if record.numbers[-1].kind != "list":
        return f'{head}  return {{"{record.name}", {{{", ".join(values)}}}}};\n}}\n'
    member = values.pop()
    return (
        f'{head}  NamedSchedule s{{"{record.name}", {{{", ".join(values)}}}}};\n'
        f"  s.numbers.insert(s.numbers.end(), {member}.begin(), {member}.end());\n  return s;\n}}\n"
    )


def source(records):
    functions, rows = [], []
    for r in records:
        functions += [formula(r, w) for w in ("next", "at") if getattr(r, w)] + [checks(r)]
        at = f"{r.name}_at" if r.at else "nullptr"
        least = len([o for o in r.numbers if o.kind != "list"])
        step = f"{r.name}_next" if r.next else at
        rows.append(f'    {{"{r.name}", {least}, {len(r.given)}, {step}, {at}, {r.name}_check}},\n')
    return (
        '// Generated from schedules.schedulers: do not edit.\n#include "nn/optim/formulas.h"\n'
        '#include "strata/nn/schedulers.h"\n\nnamespace strata::optim {\nnamespace {\n\n'
        "using namespace formulas;\n\n"
        + "\n".join(functions)
        + "\n}  // namespace\n\nstd::span<const Schedule> all_schedules() {\n  static constexpr Schedule kSchedules[] = {\n"
        + "".join(rows)
        + "  };\n  return kSchedules;\n}\n\nnamespace lr_scheduler {\n\n"
        + "".join(describe(r) for r in records)
        + "\n}  // namespace lr_scheduler\n}  // namespace strata::optim\n"
    )


# --- Python -----------------------------------------------------------------------------------------------------------


def python_class(record):
    given, signature = [], ["self", "optimizer"]
    for o in record.options:
        signature.append(o.name if o.default is None else f"{o.name}={o.default}")
        given.append(f"{o.name}=Counter({o.name})" if o.kind == "list" else f"{o.name}={o.name}")
    counts = record.python != "Plateau"  # its epochs are those of the metrics
    if counts:
        signature.append("last_epoch=-1")
    numbers = tuple(o.name for o in record.numbers)
    keywords = [record.python, f'schedule="{record.name}"', f"numbers={numbers!r}"]
    choices = {o.name: tuple(o.choices.names) for o in record.options if o.choices}
    if choices:
        keywords.append(f"choices={choices!r}")
    call = ", ".join(["optimizer", *(["last_epoch"] if counts else []), *given])
    return (
        f"class {record.name}({', '.join(keywords)}):\n"
        f"{gen_optimizers.docstring(record.doc, record.more, record.example)}\n"
        f"    def __init__({', '.join(signature)}):\n        super().__init__({call})\n"
    )


def python_module(records):
    names = [r.name for r in records]
    bases = sorted({r.python for r in records} - {"Formula", "FractionalFormula"})
    return (
        '"""The schedulers with options. Generated from schedules.schedulers: do not edit."""\n\n'
        "from collections import Counter\n\n"
        f"from ._schedule_cycles import {', '.join(bases)}\n"
        f"from ._schedules import Formula, FractionalFormula\n\n__all__ = {names!r}\n\n\n"
        + "\n\n".join(python_class(r) for r in records)
    )


def main(folder, sources, write):
    out = pathlib.Path(folder)
    records = [r for s in sorted(sources) for r in gen_optimizers.read(s, Record)]
    write(out / "strata" / "nn" / "schedulers.h", header(records))
    write(out / "nn" / "schedulers.cpp", source(records))
    write(out / "python" / "strata" / "optim" / "_schedulers.py", python_module(records))
