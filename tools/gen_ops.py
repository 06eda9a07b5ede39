"""Generates the typed C++ functions from the op schemas: one header per file of op definitions, and strata/ops.h for all;
typed views of their arguments through gen_args.py; modules, optimizers and schedulers of both languages through
gen_modules.py, gen_optimizers.py and gen_schedulers.py; and the type stubs of the Python package through gen_stubs.py.

usage: gen_ops.py OUTPUT_FOLDER (OP_SOURCE.cpp | FUNCTOR_HEADER.h | RECORDS.{modules,optimizers,schedulers})...

A file is written only if its content changes, so that changing one definition does not rebuild the others.
"""

import pathlib
import re
import sys

import gen_args
import gen_functors
import gen_modules
import gen_optimizers
import gen_schedulers
import gen_stubs
import signatures

CPP = {
    "Tensor": "const Tensor&",
    "Tensor[]": "TensorList",
    "Tensor?[]": "TensorList",
    "Scalar": "Scalar",
    "int": "int64_t",
    "float": "double",
    "bool": "bool",
    "int[]": "IntList",
    "int?[]": "IntList",
    "float[]": "std::span<const double>",
    "str": "std::string_view",
    "dtype": "DType",
    "device": "Device",
    "Generator": "Generator*",
}
# Members that Tensor defines itself.
MEMBERS = {
    "size",
    "dim",
    "data",
    "item",
    "grad",
    "shape",
    "strides",
    "numel",
    "dtype",
    "device",
    "is_contiguous",
    "requires_grad",
    "bytes",
    "backward",
    "to_string",
    "get",
    "stride",
    "element_size",
    "data_ptr",
}
# The parameters that TensorOptions holds.
OPTIONS = {"dtype": "options.dtype()", "device": "options.device()", "requires_grad": "options.requires_grad()"}
NAMESPACES = ("nn.functional.", "nn.init.", "linalg.", "special.", "fft.", "vision.ops.")


def split(text):
    """Splits at commas outside brackets."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text + ","):
        depth += c in "([" and 1 or 0
        depth -= c in ")]" and 1 or 0
        if c == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    return [p for p in parts if p]


class Op:
    """One definition: id, schema and the builder calls that follow it."""

    def __init__(self, ident, schema, tail):
        self.ident, self.schema, self.tail = ident, schema, tail
        found = re.fullmatch(r"([\w.]+)\((.*)\) -> (.*)", signatures.plain(schema))
        if not found:
            raise signatures.DefinitionError(
                f"`{schema}` does not have the form `name(type name=default, ...) -> result`"
            )
        full, inside, result = found.groups()
        self.namespace = next((n for n in NAMESPACES if full.startswith(n)), "")
        self.name = full[len(self.namespace) :].split(".")[0]
        self.result = result
        self.inplace = ".inplace()" in tail or ".updates()" in tail
        self.numbers = "pointwise<" in tail or ".takes_numbers()" in tail
        self.aliases = re.findall(r'\.alias\("([\w.]+)"\)', tail)
        if ".nn()" in tail:
            self.aliases.append(f"nn.functional.{self.name}")
        self.params = []
        for item in split(inside):
            if item == "*":
                continue
            kind, _, rest = item.partition(" ")
            name, _, default = rest.partition("=")
            if not name.isidentifier():
                raise signatures.DefinitionError(f"parameter `{item}` does not have the form `type name=default`")
            if kind.removesuffix("?") not in CPP:
                raise signatures.DefinitionError(f"parameter `{item}`: the type is not one of {', '.join(CPP)}")
            self.params.append((kind, name, default or None))

    def cpp_param(self, index, kind, name, default):
        optional = kind.endswith("?")
        kind = kind.rstrip("?")
        if kind == "Tensor":
            if self.numbers and index > 0:
                text = f"std::optional<Operand> {name}" if optional else f"Operand {name}"
            else:
                return f"const Tensor& {name}" + (" = {}" if default is not None else "")
        elif kind == "Generator":
            return f"Generator* {name}" + (" = nullptr" if default is not None else "")
        elif kind == "int[]" and optional:
            text = f"OptIntList {name}"
        elif optional:
            text = f"std::optional<{CPP[kind]}> {name}"
        else:
            text = f"{CPP[kind]} {name}"
        if default is None:
            return text
        default = {
            "None": "std::nullopt",
            "True": "true",
            "False": "false",
            "inf": "HUGE_VAL",
            "-inf": "-HUGE_VAL",
        }.get(default, default)
        default = re.sub(r"^'(.*)'$", r'"\1"', default)
        if kind == "int[]":
            default = "{" + default.strip("[]") + "}" if default != "std::nullopt" else default
        if kind == "dtype" and default != "std::nullopt":
            default = f'dtype_from_name("{default}")'
        return f"{text} = {default}"

    def comment(self, prefix=""):
        """The first paragraph of the doc, which an editor shows."""
        found = re.search(r'\.doc\(\s*((?:"(?:[^"\\]|\\.)*"\s*)+)', self.tail)
        if not found or ".helper()" in self.tail:
            return []
        text = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', found[1])).split("\\n\\n")[0]
        return ["/// " + line for line in (prefix + text).replace('\\"', '"').split("\\n")]

    def cpp_default(self, i, param):
        return self.cpp_param(i, *param).split(" = ")[1]

    def option_value(self, i, param):
        """What TensorOptions give for a parameter; None if they do not hold it."""
        value = OPTIONS.get(param[1])
        return f"{value}.value_or({self.cpp_default(i, param)})" if param[0] == "dtype" else value

    def options_signatures(self):
        """The parameters, {name: text}, of the overloads that take TensorOptions: with all parameters, and without those
        that have defaults. Empty if the op creates no tensor of a given dtype and device."""
        if not OPTIONS.keys() <= {p[1] for p in self.params} or self.params[0][0] == "Tensor?":
            return []
        # A memory format is left out: nullopt in its place would also be a dtype.
        rest = [(i, p) for i, p in enumerate(self.params) if p[1] not in OPTIONS and p[1] != "memory_format"]
        text = {p[1]: self.cpp_param(i, *p).split(" = ")[0] for i, p in rest}
        needed = {p[1]: text[p[1]] for _, p in rest if p[2] is None}
        return [needed] if len(needed) == len(text) else [needed, text]

    def functions(self):
        takes = [self.cpp_param(i, *p) for i, p in enumerate(self.params)]
        # In C++ defaults must be a suffix: a parameter before one without a default loses its own.
        last = max((i for i, p in enumerate(self.params) if p[2] is None), default=-1)
        takes = [t.split(" = ")[0] if i < last else t for i, t in enumerate(takes)]
        signature, gives = ", ".join(takes), ", ".join(p[1] for p in self.params)
        record = f"op_{self.ident}"
        args = f"Args({gives})" if gives else "Args()"
        if self.result == "Tensor":
            body, kind = f"call({record}, {args})", "Tensor"
        elif self.result == "Tensor[]":
            body, kind = f"call_list({record}, {args})", "std::vector<Tensor>"
        elif self.result == "()":
            body, kind = f"call_into({record}, {args}, nullptr)", "void"
        else:
            n = len(split(self.result[1:-1]))
            body, kind = f"call_array<{n}>({record}, {args})", f"std::array<Tensor, {n}>"
        lines = [f"STRATA_API extern LastingRecord {record};"]
        for name in [self.namespace + self.name, *self.aliases]:
            *spaces, short = name.split(".")
            functions = [*self.comment(), f"inline {kind} {short}({signature}) {{ return {body}; }}"]
            for named in self.options_signatures():
                values = [
                    self.option_value(i, p) or (p[1] if p[1] in named else self.cpp_default(i, p))
                    for i, p in enumerate(self.params)
                ]
                functions += self.comment()
                functions.append(
                    f"inline {kind} {short}({', '.join([*named.values(), 'const TensorOptions& options'])}) "
                    f"{{ return {short}({', '.join(values)}); }}"
                )
            if self.inplace:
                functions += self.comment("In place: ")
                functions.append(f"inline Tensor {short}_({signature}) {{ return call_inplace({record}, {args}); }}")
            # A comment before `namespace` would be that of the namespace.
            lines += [f"namespace {'::'.join(spaces)} {{", *functions, "}"] if spaces else functions
        if ".helper()" in self.tail:  # tools/install_headers.py leaves these out
            lines = ["// begin internal", *lines, "// end internal"]
        return "\n".join(lines) + "\n"

    def method(self):
        """Declaration and definition as a member of Tensor, or None when the op has no tensor to call it on."""
        if (
            self.namespace
            or not self.params
            or self.params[0][0] != "Tensor"
            or ".no_method()" in self.tail
            or ".helper()" in self.tail
        ):
            return None
        takes = [self.cpp_param(i, *p) for i, p in enumerate(self.params)][1:]
        last = max(
            (i for i, p in enumerate(self.params[1:]) if p[2] is None or "std::optional<Operand>" in takes[i]),
            default=-1,
        )
        takes = [t.split(" = ")[0] if i <= last else t for i, t in enumerate(takes)]
        plain = ", ".join(t.split(" = ")[0] for t in takes)
        gives = ", ".join(["*this", *[p[1] for p in self.params[1:]]])
        kind = {"Tensor": "Tensor", "Tensor[]": "std::vector<Tensor>"}.get(
            self.result
        ) or f"std::array<Tensor, {len(split(self.result[1:-1]))}>"
        declared, defined = [], []
        for suffix, result in (("", kind), ("_", "Tensor"))[: 2 if self.inplace else 1]:
            for name in [self.name, *[a for a in self.aliases if "." not in a]]:
                if name + suffix in MEMBERS:
                    continue
                comment = "".join(line + "\n" for line in self.comment("In place: " if suffix else ""))
                declared.append(f"{comment}{result} {name}{suffix}({', '.join(takes)}) const;\n")
                defined.append(
                    f"inline {result} Tensor::{name}{suffix}({plain}) const {{ return strata::{name}{suffix}({gives}); }}\n"
                )
        return "".join(declared), "".join(defined)


def read_ops(source):
    """Definitions of one file. The builder calls of a definition reach up to the next one."""
    text = pathlib.Path(source).read_text()
    found = list(signatures.DEFINITION.finditer(text))
    for here, following in zip(found, [*found[1:], None], strict=False):
        tail = text[here.end() : following.start() if following else len(text)]
        schema = "".join(re.findall(r'"([^"]*)"', here.group(2)))
        try:
            yield Op(here.group(1), schema, tail)
        except signatures.DefinitionError as e:
            line = text.count("\n", 0, here.start()) + 1
            raise signatures.DefinitionError(f"{source}:{line}: STRATA_OP({here.group(1)}): {e}") from e


def place(source):
    """The family and name of a file of definitions: 'reduce/sums' of src/ops/reduce/sums.cpp."""
    parts = pathlib.Path(source).with_suffix("").parts
    return "/".join(parts[len(parts) - parts[::-1].index("ops") :])


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != content:
        path.write_text(content)


def main(folder, sources):
    out = pathlib.Path(folder)
    gen_functors.main(folder, [s for s in sources if s.endswith(".h")])
    records = [s for s in sources if s.endswith(".modules")]
    gen_optimizers.main(folder, [s for s in sources if s.endswith(".optimizers")], write)
    gen_schedulers.main(folder, [s for s in sources if s.endswith(".schedulers")], write)
    sources = [s for s in sources if s.endswith(".cpp")]
    places = []
    for source in sorted(sources):
        ops = list(read_ops(source))
        if not ops:
            continue
        places.append(place(source))
        head = f'// Generated from ops/{places[-1]}.cpp: do not edit.\n#pragma once\n#include <cmath>\n\n#include "record/op.h"\n\nnamespace strata {{\n'
        write(
            out / "strata" / "ops" / f"{places[-1]}.h",
            head + "".join(op.functions() for op in ops) + "}  // namespace strata\n",
        )
        write(out / "strata" / "args" / f"{places[-1]}.h", gen_args.header(f"ops/{places[-1]}.cpp", ops))
    methods = [
        m for source in sorted(sources) if source.endswith(".cpp") for op in read_ops(source) if (m := op.method())
    ]
    write(
        out / "strata" / "tensor_methods.inc",
        "// Generated: declarations inside class Tensor. Do not edit.\n"
        + "".join(m[0] for m in methods)
        + '#include "strata/torch_methods.inc"\n',
    )
    head = '// Generated: every op as a method of Tensor. Do not edit.\n#pragma once\n#include "strata/ops.h"\n\nnamespace strata {\n'
    write(out / "strata" / "tensor_methods.h", head + "".join(m[1] for m in methods) + "}  // namespace strata\n")
    umbrella = "// Generated: every op as a typed function. Do not edit.\n#pragma once\n"
    write(out / "strata" / "ops.h", umbrella + "".join(f'#include "strata/ops/{p}.h"\n' for p in places))
    gen_modules.main(folder, [op for source in sorted(sources) for op in read_ops(source)], records, write)
    gen_stubs.main(folder, sources)


if __name__ == "__main__":
    try:
        main(sys.argv[1], sys.argv[2:])
    except signatures.DefinitionError as e:
        sys.exit(f"error: {e}")
