#include "cuda/pointwise/fused_source.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "cuda/custom/elementwise_source.h"

namespace strata::cuda {
namespace {

std::string element_type(DType t) { return t == DType::Bool ? "Bool" : c_type(t, true); }

// The parts of a source that name tensors and results.
struct Names {
  std::string parameters;  // of compute(), after the kernel's own
  std::string vectors, load_vectors, from_vectors, results, to_vectors, store_vectors;
  std::string load_elements, store_elements, ones;
};

void add_tensor(Names& n, size_t i, size_t strided, DType type, FusedAccess access) {
  const std::string s = element_type(type);
  n.parameters += fmt::format(", const T (&t{})[kWidth]", i);
  if (access == FusedAccess::One) {
    n.ones += fmt::format("  const T one{} = value_of<T>(*static_cast<const {}*>(p.tensor[{}]));\n", i, s, i);
    n.from_vectors += fmt::format("        const T t{}[2] = {{one{}, one{}}};\n", i, i, i);
    n.load_elements += fmt::format("    const T t{}[1] = {{one{}}};\n", i, i);
    return;
  }
  n.vectors += fmt::format("    Elements<{}, kItems> a{}[kVectors];\n", s, i);
  n.from_vectors += fmt::format("        T t{}[2];\n        get_two(a{}[v], j, t{});\n", i, i, i);
  if (access == FusedAccess::Flat) {
    n.load_vectors += fmt::format("      a{}[v] = load_vector<{}, kItems>(p.tensor[{}], at);\n", i, s, i);
    n.load_elements +=
      fmt::format("    const T t{}[1] = {{value_of<T>(static_cast<const {}*>(p.tensor[{}])[i])}};\n", i, s, i);
  } else {
    n.load_vectors += fmt::format(
      "      a{}[v] = load_strided<{}, kItems>(p.tensor[{}], at_strides.of[{}], p.step[{}][0], p.vector_rows >> {} & "
      "1);\n",
      i, s, i, strided, strided, strided);
    n.load_elements +=
      fmt::format("    const T t{}[1] = {{value_of<T>(static_cast<const {}*>(p.tensor[{}])[at_strides.of[{}]])}};\n", i,
                  s, i, strided);
  }
}

void add_result(Names& n, size_t step, size_t i, DType type) {
  const std::string s = element_type(type);
  n.parameters += fmt::format(", T (&v{})[kWidth]", step);
  n.results += fmt::format("      Elements<{}, kItems> s{};\n", s, step);
  n.to_vectors += fmt::format("        set_two(s{}, j, v{});\n", step, step);
  n.store_vectors += fmt::format("      store_vector(p.result[{}], at, s{});\n", i, step);
  n.store_elements += fmt::format("    set(static_cast<{}*>(p.result[{}])[i], v{}[0]);\n", s, i, step);
}

bool is_used(const FusedProgram& p, size_t step) {
  return std::ranges::any_of(p.steps.begin() + static_cast<ptrdiff_t>(step) + 1, p.steps.end(),
                             [&](const FusedStep& s) {
                               return std::any_of(s.from, s.from + s.formula->inputs, [&](const FusedOperand& from) {
                                 return from.kind == FusedOperand::Kind::Step && from.index == step;
                               });
                             });
}

// compute(): the formulas for kWidth elements.
std::string formulas(const FusedProgram& p) {
  std::string text;
  size_t number = 0;
  for (size_t i = 0; i < p.steps.size(); ++i) {
    const FusedStep& s = p.steps[i];
    std::string in;
    for (int k = 0; k < s.formula->inputs; ++k) {
      const FusedOperand& from = s.from[k];
      using Kind = FusedOperand::Kind;
      in += from.kind == Kind::Number ? fmt::format(", p.number[{}]", number++)
            : from.kind == Kind::Step ? fmt::format(", v{}[k]", from.index)
                                      : fmt::format(", t{}[k]", from.index);
    }
    // Stores round; bools are 0 and 1 in every type.
    const bool exact = s.type == p.compute || s.type == DType::Bool || !is_used(p, i);
    const char* name = s.formula->loops.name;
    const std::string functor = s.formula->members ? fmt::format("functor<fn::{}<T>>(p.number + {})", name, number)
                                                   : fmt::format("fn::{}<T>{{}}", name);
    text += fmt::format("{}#pragma unroll\n  for (int k = 0; k < kWidth; ++k) v{}[k] = apply({}{});\n{}",
                        s.to ? "" : fmt::format("  T v{}[kWidth];\n", i), i, functor, in,
                        exact ? "" : fmt::format("  round_to<{}>(v{});\n", element_type(s.type), i));
    number += s.formula->members;
  }
  return text;
}

size_t count_numbers(const FusedProgram& p) {
  size_t n = 0;
  for_each_number(p, [&](int64_t) { ++n; });
  return n;
}

}  // namespace

size_t FusedLayout::strided() const { return static_cast<size_t>(std::ranges::count(access, FusedAccess::Strided)); }

void choose_vectors(const FusedProgram& program, FusedLayout& layout) {
  size_t least = size_of(program.compute), tensors = 0;
  const auto consider = [&](DType t) {
    if (size_of(t) > 1) least = std::min(least, size_of(t));
  };
  for (size_t i = 0; i < program.tensors.size(); ++i) {
    if (layout.access[i] == FusedAccess::One) continue;
    consider(program.tensors[i].dtype());
    ++tensors;
  }
  for (const FusedStep& s : program.steps)
    if (s.to) consider(s.type);
  layout.items = static_cast<int>(16 / least);
  layout.vectors = tensors <= 2 ? 2 : 1;
}

std::string fused_source(const FusedProgram& program, const FusedLayout& layout) {
  std::set<std::string> headers;
  std::string ops;
  Names n;
  size_t strided = 0, results = 0;
  for (size_t i = 0; i < program.tensors.size(); ++i) {
    add_tensor(n, i, strided, program.tensors[i].dtype(), layout.access[i]);
    strided += layout.access[i] == FusedAccess::Strided;
  }
  std::string arguments;
  for (size_t i = 0; i < program.tensors.size(); ++i) arguments += fmt::format(", t{}", i);
  std::string declared, declared_one;
  for (size_t i = 0; i < program.steps.size(); ++i) {
    const FusedStep& s = program.steps[i];
    headers.insert(s.formula->loops.header);
    ops += fmt::format("{}{}", i ? ", " : "", s.formula->loops.name);
    if (!s.to) continue;
    add_result(n, i, results++, s.type);
    arguments += fmt::format(", v{}", i);
    declared += fmt::format("{}v{}[2]", declared.empty() ? "T " : ", ", i);
    declared_one += fmt::format("{}v{}[1]", declared_one.empty() ? "T " : ", ", i);
  }
  std::string includes;
  for (const std::string& header : headers) includes += fmt::format("#include \"{}\"\n", header);
  const std::string at = "const unsigned at = block + (v * kThreads + threadIdx.x) * kItems;";
  return fmt::format(
    "// {}\n"
    "#include <math.h>\n#include \"cuda/pointwise/fused.cuh\"\n{}"
    "using namespace strata;\nusing namespace strata::fused;\n\n"
    "typedef {} T;\ntypedef Params<T, {}, {}, {}, {}, {}> P;  // tensors, results, numbers, strided tensors, their "
    "dimensions\n"
    "constexpr int kItems = {}, kVectors = {}, kPerBlock = kThreads * kItems * kVectors;\n\n"
    "template <int kWidth> __device__ __forceinline__ void compute(const P& p{}) {{\n{}}}\n\n"
    "extern \"C\" __global__ void __launch_bounds__(kThreads) fused(const P p) {{\n"
    "  const unsigned block = blockIdx.x * kPerBlock;\n{}"
    "  if (p.vectors && p.count - block >= kPerBlock) {{  // the same for all threads of the block\n{}"
    "#pragma unroll\n    for (int v = 0; v < kVectors; ++v) {{\n      {}\n{}{}    }}\n"
    "#pragma unroll\n    for (int v = 0; v < kVectors; ++v) {{\n      {}\n{}"
    "#pragma unroll\n      for (int j = 0; j < kItems; j += 2) {{\n{}        {};\n        compute<2>(p{});\n{}      "
    "}}\n{}    }}\n"
    "    return;\n  }}\n"
    "  for (unsigned i = block + threadIdx.x; i < min(p.count, block + kPerBlock); i += kThreads) {{\n{}{}    {};\n"
    "    compute<1>(p{});\n{}  }}\n}}\n",
    ops, includes, program.compute == DType::F64 ? "double" : "float", program.tensors.size(), results,
    count_numbers(program), strided, layout.dims, layout.items, layout.vectors, n.parameters, formulas(program), n.ones,
    n.vectors, at, strided ? "      const Offsets<P> at_strides(p, at);\n" : "", n.load_vectors, at, n.results,
    n.from_vectors, declared, arguments, n.to_vectors, n.store_vectors,
    strided ? "    const Offsets<P> at_strides(p, i);\n" : "", n.load_elements, declared_one, arguments,
    n.store_elements);
}

}  // namespace strata::cuda
