#include "cuda/pointwise/fused_rows_source.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "cuda/custom/elementwise_source.h"
#include "cuda/pointwise/fused_source.h"

namespace strata::cuda {
namespace {

using Kind = FusedOperand::Kind;

// Names in a source, of step or tensor i: x, a: its vectors, in its element type; v, t: two elements of the current vector, as T;
// r, q: the value of a row, as T; one: the only value.
class RowSource {
 public:
  RowSource(const FusedProgram& p, const FusedRowLayout& layout)
      : p_(p), layout_(layout), part_of_(p.steps.size(), -1), kept_(p.steps.size()), results_(p.steps.size()) {
    int parts = 0;
    size_t results = 0;
    for (size_t i = 0; i < p_.steps.size(); ++i) {
      const FusedStep& s = p_.steps[i];
      if (!s.formula && s.output == 0) ++parts;
      part_of_[i] = s.formula && is_elements(s) ? parts : -1;
      if (s.to && s.part.extent != RowExtent::Whole) results_[i] = results++;
      for (int k = 0; k < s.inputs(); ++k)
        if (s.from[k].kind == Kind::Step) {
          const size_t from = s.from[k].index;
          if (part_of_[from] != part_of_[i] || part_of_[i] < 0) kept_[from] = true;
        }
    }
    result_count_ = results;
  }

  std::string text() {
    for (size_t i = 0; i < p_.tensors.size(); ++i) load_first(i);
    for (size_t i = 0; i < p_.steps.size(); ++i) {
      const FusedStep& s = p_.steps[i];
      if (s.formula) {
        headers_.insert(s.formula->loops.header);
        is_elements(s) ? add_elements(i) : add_stat(i);
      } else if (s.output == 0) {
        headers_.insert(s.rows->gpu->header);
        end_part();
        add_rows(i);
      }
      if (s.output == 0)
        ops_ += (ops_.empty() ? "" : ", ") + (s.formula ? s.formula->loops.name : s.rows->gpu->functor);
    }
    end_part();
    std::string includes;
    for (const std::string& header : headers_) includes += fmt::format("#include \"{}\"\n", header);
    return fmt::format(
      "// {}\n"
      "#include <math.h>\n#include \"cuda/pointwise/fused_rows.cuh\"\n{}"
      "using namespace strata;\nusing namespace strata::fused;\n\n"
      "typedef {} T;\ntypedef Params<T, {}, {}, {}, {}, {}> P;  // tensors, results, numbers, strided tensors, their "
      "dimensions\n"
      "constexpr int kVectors = {}, kBlock = {};\n\n"
      "extern \"C\" __global__ void __launch_bounds__(kBlock, {}) fused(const RowParams<P, {}> all) {{\n"
      "  const P& p = all.of;\n  const RowPart<kVectors> row(all.threads, all.rows, all.n);\n{}{}{}{}}}\n",
      ops_, includes, p_.compute == DType::F64 ? "double" : "float", p_.tensors.size(), result_count_, numbers_,
      layout_.strided, layout_.dims, layout_.vectors, layout_.block, layout_.blocks, words_,
      staged_.empty() ? "" : "  extern __shared__ __align__(16) unsigned char staged[];\n", first_,
      staged_.empty() ? "" : "  wait_for_staged();\n", body_);
  }

 private:
  static bool is_elements(const FusedStep& s) { return s.part.extent == RowExtent::Elements; }
  static std::string element(DType t) { return t == DType::Bool ? "Bool" : c_type(t, true); }
  std::string element_of_tensor(size_t i) const { return element(p_.tensors[i].dtype()); }
  std::string aligned(size_t bit) const { return fmt::format("all.aligned >> {} & 1", bit); }
  bool is_exact(const FusedStep& s) const { return s.type == p_.compute || s.type == DType::Bool; }

  // --- tensors --------------------------------------------------------------------------------------------------------
  // What is read before anything is computed.
  void load_first(size_t i) {
    const std::string s = element_of_tensor(i);
    switch (layout_.access[i]) {
      case RowAccess::Flat:
        first_ += fmt::format("  Elements<{}, 8> a{}[kVectors];\n  load_row(row, p.tensor[{}], {}, a{});\n", s, i, i,
                              aligned(i), i);
        break;
      case RowAccess::Strided:
        first_ += fmt::format(
          "  Elements<{}, 8> a{}[kVectors];\n#pragma unroll\n  for (int k = 0; k < kVectors; ++k) a{}[k] = "
          "load_places<{}>(row, p, p.tensor[{}], {}, k);\n",
          s, i, i, s, i, strided_++);
        break;
      case RowAccess::Staged:
        first_ += fmt::format(
          "  Elements<{}, 8>* const staged{} = stage_row<{}>(row, p.tensor[{}], {}, staged + {} * kVectors * kBlock * "
          "16);\n",
          s, i, s, i, aligned(i), staged_.size());
        staged_.insert(i);
        break;
      case RowAccess::One:
        first_ += fmt::format("  const T one{} = value_of<T>(*static_cast<const {}*>(p.tensor[{}]));\n", i, s, i);
        break;
      case RowAccess::Stat:
        first_ +=
          p_.parts[i].width == 1
            ? fmt::format("  const T q{} = load_stat<T, {}>(row, p.tensor[{}]);\n", i, s, i)
            : fmt::format("  T q{}[{}];\n  load_stats<{}>(row, p.tensor[{}], q{});\n", i, p_.parts[i].width, s, i, i);
        break;
      case RowAccess::Shared: break;  // where it is used: it is in the cache
    }
  }
  bool is_loaded_in_place(size_t i) const {
    return layout_.access[i] == RowAccess::Shared || layout_.access[i] == RowAccess::Staged;
  }
  // Vector k of a tensor that is not in registers.
  std::string load_shared(size_t i) const {
    if (layout_.access[i] == RowAccess::Staged) return fmt::format("staged{}[k * kBlock]", i);
    return fmt::format("load_shared<{}>(row, p.tensor[{}], {}, k)", element_of_tensor(i), i, aligned(i));
  }

  // --- pointwise ops --------------------------------------------------------------------------------------------------
  std::string formula(const FusedStep& s, const std::vector<std::string>& in) {
    std::string text;
    for (const std::string& operand : in) text += ", " + operand;
    const char* name = s.formula->loops.name;
    const std::string functor = s.formula->members ? fmt::format("functor<fn::{}<T>>(p.number + {})", name, numbers_)
                                                   : fmt::format("fn::{}<T>{{}}", name);
    numbers_ += s.formula->members;
    return fmt::format("apply({}{})", functor, text);
  }
  std::string number() { return fmt::format("p.number[{}]", numbers_++); }

  // One value per row.
  void add_stat(size_t i) {
    const FusedStep& s = p_.steps[i];
    std::vector<std::string> in;
    for (int k = 0; k < s.formula->inputs; ++k) in.push_back(stat(s.from[k]));
    const std::string value = formula(s, in);
    // Before the elements of the current part, which may read it: it reads values of rows only.
    body_ += fmt::format("  const T r{} = {};\n", i,
                         is_exact(s) ? value : fmt::format("rounded<{}>({})", element(s.type), value));
    store_stat(i);
  }
  std::string stat(const FusedOperand& from) {
    if (from.kind == Kind::Number) return number();
    if (from.kind == Kind::Step) return fmt::format("r{}", from.index);
    return fmt::format("{}{}", layout_.access[from.index] == RowAccess::One ? "one" : "q", from.index);
  }
  void store_stat(size_t i) {
    const FusedStep& s = p_.steps[i];
    if (s.to)
      body_ += fmt::format("  store_stat{}<{}>(row, p.result[{}], r{});\n", s.part.width == 1 ? "" : "s",
                           element(s.type), results_[i], i);
  }

  // Elements: the steps between two ops on rows are computed together, vector by vector.
  void add_elements(size_t i) {
    const FusedStep& s = p_.steps[i];
    std::vector<std::string> in;
    for (int k = 0; k < s.formula->inputs; ++k) in.push_back(elements(s.from[k]));
    pairs_ += fmt::format("      T v{}[2];\n#pragma unroll\n      for (int e = 0; e < 2; ++e) v{}[e] = {};\n", i, i,
                          formula(s, in));
    if (!is_exact(s)) pairs_ += fmt::format("      round_to<{}>(v{});\n", element(s.type), i);
    in_part_.insert(i);
    if (kept_[i]) {
      body_ += fmt::format("  Elements<{}, 8> x{}[kVectors];\n", element(s.type), i);
      pairs_ += fmt::format("      set_two(x{}[k], j, v{});\n", i, i);
    }
    if (!s.to) return;
    const std::string name = kept_[i] ? fmt::format("x{}[k]", i) : fmt::format("s{}", i);
    if (!kept_[i]) {
      vector_ += fmt::format("    Elements<{}, 8> s{};\n", element(s.type), i);
      pairs_ += fmt::format("      set_two(s{}, j, v{});\n", i, i);
    }
    stores_ += fmt::format("    store_vector_of(row, p.result[{}], {}, k, {});\n", results_[i],
                           aligned(p_.tensors.size() + results_[i]), name);
  }
  std::string elements(const FusedOperand& from) {
    const size_t i = from.index;
    if (from.kind == Kind::Number) return number();
    if (from.kind == Kind::Step) {
      if (!is_elements(p_.steps[i])) return fmt::format("r{}", i);
      if (in_part_.insert(i).second)
        pairs_ += fmt::format("      T v{}[2];\n      get_two(x{}[k], j, v{});\n", i, i, i);
      return fmt::format("v{}[e]", i);
    }
    if (layout_.access[i] == RowAccess::One) return fmt::format("one{}", i);
    if (read_in_part_.insert(i).second) {
      const bool shared = is_loaded_in_place(i);
      if (shared) vector_ += fmt::format("    const auto a{} = {};\n", i, load_shared(i));
      pairs_ += fmt::format("      T t{}[2];\n      get_two(a{}{}, j, t{});\n", i, i, shared ? "" : "[k]", i);
    }
    return fmt::format("t{}[e]", i);
  }
  void end_part() {
    if (!pairs_.empty())
      body_ += fmt::format(
        "#pragma unroll\n  for (int k = 0; k < kVectors; ++k) {{\n{}#pragma unroll\n    for (int j = 0; j < 8; j += 2) "
        "{{\n{}    }}\n{}  }}\n",
        vector_, pairs_, stores_);
    vector_.clear();
    pairs_.clear();
    stores_.clear();
    in_part_.clear();
    read_in_part_.clear();
  }

  // --- ops on rows ----------------------------------------------------------------------------------------------------
  void add_rows(size_t i) {
    const FusedStep& first = p_.steps[i];
    const RowOp& op = *first.rows;
    std::string arguments, parameters, after;
    for (int k = 0; k < first.inputs(); ++k) {
      const RowInput& in = op.in[static_cast<size_t>(k)];
      if (in.extent == RowExtent::Rows) arguments += ", " + stat(first.from[k]);
      else (in.parameter ? parameters : arguments) += ", " + getter(first.from[k]);
    }
    const std::string numbers =
      fmt::format("p.number + {}, reinterpret_cast<const uint64_t*>(all.word) + {}", numbers_, words_);
    numbers_ += op.gpu->numbers.size();
    words_ += op.gpu->words.size();
    size_t end = i;
    for (; end < p_.steps.size() && p_.steps[end].rows == first.rows; ++end) {
      const FusedStep& s = p_.steps[end];
      if (s.part.extent == RowExtent::Elements) arguments += ", " + giver(end);
      if (s.part.extent != RowExtent::Rows) continue;
      body_ += s.part.width == 1 ? fmt::format("  T r{};\n", end) : fmt::format("  T r{}[{}];\n", end, s.part.width);
      arguments += fmt::format(", r{}", end);
      if (!is_exact(s)) after += fmt::format("  r{} = rounded<{}>(r{});\n", end, element(s.type), end);
    }
    body_ += fmt::format("  cuda::{}::run(row, {}{}{});\n{}", op.gpu->functor, numbers, arguments, parameters, after);
    for (size_t k = i; k < end; ++k)
      if (p_.steps[k].part.extent == RowExtent::Rows) store_stat(k);
  }
  // Functions of (vector, T(&)[8]): of the elements of an operand, and of those of a result.
  std::string getter(const FusedOperand& from) const {
    const size_t i = from.index;
    std::string vector, all;
    if (from.kind == Kind::Step && is_elements(p_.steps[i])) vector = fmt::format("x{}[k]", i);
    else if (from.kind == Kind::Step) all = fmt::format("r{}", i);
    else if (layout_.access[i] == RowAccess::One) all = fmt::format("one{}", i);
    else vector = is_loaded_in_place(i) ? load_shared(i) : fmt::format("a{}[k]", i);
    return vector.empty() ? fmt::format("[&](int, T (&v)[8]) {{ for (T& e : v) e = {}; }}", all)
                          : fmt::format("[&](int k, T (&v)[8]) {{ get_vector({}, v); }}", vector);
  }
  std::string giver(size_t i) {
    const FusedStep& s = p_.steps[i];
    if (!kept_[i] && !s.to) return "[](int, const T (&)[8]) {}";
    const std::string type = fmt::format("Elements<{}, 8>", element(s.type));
    std::string text = "[&](int k, const T (&v)[8]) { ";
    if (kept_[i]) body_ += fmt::format("  {} x{}[kVectors];\n", type, i);
    else text += type + " s; ";
    const std::string name = kept_[i] ? fmt::format("x{}[k]", i) : "s";
    text += fmt::format("set_vector({}, v); ", name);
    if (s.to)
      text += fmt::format("store_vector_of(row, p.result[{}], {}, k, {}); ", results_[i],
                          aligned(p_.tensors.size() + results_[i]), name);
    return text + "}";
  }

  const FusedProgram& p_;
  const FusedRowLayout& layout_;
  std::vector<int> part_of_;     // of a pointwise step: number of ops on rows before it; -1: another step
  std::vector<bool> kept_;       // whether the elements of a step are needed after its part
  std::vector<size_t> results_;  // places of stored steps among the results
  size_t result_count_ = 0, numbers_ = 0, words_ = 0;
  int strided_ = 0;
  std::set<std::string> headers_;
  std::string ops_, first_, body_;
  std::string vector_, pairs_, stores_;  // of the current part: before, in and after the loop over two elements
  std::set<size_t> staged_, in_part_, read_in_part_;
};

}  // namespace

std::string fused_rows_source(const FusedProgram& p, const FusedRowLayout& layout) {
  return RowSource(p, layout).text();
}

}  // namespace strata::cuda
