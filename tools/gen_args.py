"""Generates typed views of arguments from the op schemas: strata/args/<file>.h for each file of op definitions.

For `gather(Tensor input, int dim, Tensor index) -> Tensor` with the id `gather`:

    args::gather a(c);            // of a Call or Args: a.input(), a.dim(), a.index(); a.dim_value() is the untyped Value
    grads::gather a(c);           // of a GradContext: a.input() saved, a.needs_input(), a.shape_of_input(), a.dim()
    grads::gather::Result out;    // out.input = ..., out.index = ...; converts to Grads

so that ops access their parameters by name. The lambdas of a definition take views in place of Call and GradContext:

    .grad([](const grads::gather& c, const Tensor& g) -> Grads { ... })
"""

CPP_KEYWORDS = {
    "register",
    "default",
    "new",
    "delete",
    "float",
    "int",
    "bool",
    "double",
    "signed",
    "union",
    "template",
    "operator",
}
# How a value of each type is read; {v} is the Value.
READ = {
    "Tensor[]": ("TensorList", "{v}.tensor_list()"),
    "Tensor?[]": ("TensorList", "{v}.tensor_list()"),
    "Scalar": ("Scalar", "{v}.scalar()"),
    "int": ("int64_t", "{v}.integer()"),
    "float": ("double", "{v}.number()"),
    "bool": ("bool", "{v}.boolean()"),
    "int[]": ("IntList", "{v}.int_list()"),
    "int?[]": ("IntList", "{v}.int_list()"),
    "float[]": ("std::span<const double>", "{v}.float_list()"),
    "str": ("std::string_view", "{v}.string()"),
    "dtype": ("DType", "{v}.dtype()"),
    "device": ("Device", "{v}.device()"),
}


def safe(name, op):
    """The name of a parameter's accessor: a keyword, or the name of the op itself, cannot be one."""
    return name + "_" if name in CPP_KEYWORDS or name == op.ident else name


def reader(kind, index, name):
    """The accessor of a parameter that is not a tensor; {v} is its Value."""
    value = f"View::value({index})"
    if kind.rstrip("?") == "Generator":
        return f"  Generator* {name}() const {{ return detail::Unpack<Generator*>::get({value}); }}\n"
    if kind == "int[]?":
        return f"  OptIntList {name}() const {{ return detail::Unpack<OptIntList>::get({value}); }}\n"
    base = kind.removesuffix("?")
    type_name, text = READ[base]
    text = text.format(v=value)
    if kind.endswith("?"):
        return f"  std::optional<{type_name}> {name}() const {{ return {value} ? std::optional<{type_name}>({text}) : std::nullopt; }}\n"
    return f"  {type_name} {name}() const {{ return {text}; }}\n"


def tensor_reader(kind, index, name, op):
    plain = safe(name, op)
    lines = [f"  bool has_{name}() const {{ return View::is_tensor({index}); }}\n"]
    lines.append(f"  Tensor share_{name}() const {{ return View::share({index}); }}\n")
    if op.numbers and index > 0:
        lines.append(f"  const TensorImpl& {name}_tensor() const {{ return View::tensor({index}); }}\n")
    elif kind.endswith("?"):
        lines.append(
            f"  const TensorImpl* {plain}() const {{ return View::is_tensor({index}) ? &View::tensor({index}) : nullptr; }}\n"
        )
    else:
        lines.append(f"  const TensorImpl& {plain}() const {{ return View::tensor({index}); }}\n")
    return "".join(lines)


def raw(index, name):
    return f"  const Value& {name}_value() const {{ return View::value({index}); }}\n"


def view(op):
    lines = [f"// {op.schema}\nstruct {op.ident} : View {{\n  using View::View;\n"]
    for index, (kind, name, _) in enumerate(op.params):
        tensor = kind in ("Tensor", "Tensor?")
        lines.append(tensor_reader(kind, index, name, op) if tensor else reader(kind, index, safe(name, op)))
        lines.append(raw(index, name))
    return "".join([*lines, "};\n"])


def grad_view(op):
    lines = [f"struct {op.ident} : View {{\n  using View::View;\n"]
    members, listed = [], None
    for index, (kind, name, _) in enumerate(op.params):
        plain = safe(name, op)
        if kind in ("Tensor", "Tensor?"):
            lines.append(f"  Tensor {plain}() const {{ return View::context().input({index}); }}\n")
            lines.append(f"  Operand {plain}_operand() const {{ return View::context().operand({index}); }}\n")
            lines.append(f"  bool has_{name}() const {{ return View::context().has({index}); }}\n")
            lines.append(f"  bool needs_{name}() const {{ return View::context().needs({index}); }}\n")
            lines.append(f"  Shape shape_of_{name}() const {{ return View::context().shape({index}); }}\n")
            lines.append(f"  const TensorImpl& meta_of_{name}() const {{ return View::context().meta({index}); }}\n")
            if index < 6:  # kMaxInputs: a differentiable tensor parameter is among the first six
                members.append((plain, index))
        elif kind in ("Tensor[]", "Tensor?[]"):
            lines.append(f"  std::vector<Tensor> {plain}() const {{ return View::context().input_list({index}); }}\n")
            lines.append(f"  TensorList meta_of_{name}() const {{ return View::value({index}).tensor_list(); }}\n")
            listed = plain
        else:
            lines.append(reader(kind, index, plain))
        lines.append(raw(index, name))
    lines.append("  struct Result {\n")
    if members:
        lines.append("    Tensor " + ", ".join(name for name, _ in members) + ";\n")
    if listed:
        lines.append(f"    std::vector<Tensor> {listed};\n")
    lines.append("    operator Grads() && {\n      Grads all;\n")
    lines += [f"      all.t[{index}] = std::move({name});\n" for name, index in members]
    if listed:
        lines.append(f"      all.list = std::move({listed});\n")
    lines.append("      return all;\n    }\n  };\n};\n")
    return "".join(lines)


def header(source, ops):
    ops = [op for op in ops if ".composite(" not in op.tail]  # their parameters already have names
    head = f'// Generated from {source}: do not edit.\n#pragma once\n#include "autograd/arg_views.h"\n\n'
    plain = "namespace strata::args {\n" + "".join(view(op) for op in ops) + "}  // namespace strata::args\n\n"
    grads = "namespace strata::grads {\n" + "".join(grad_view(op) for op in ops) + "}  // namespace strata::grads\n"
    return head + plain + grads
