#include "compile/graph.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <unordered_set>

namespace strata::graph {

ValueType type_of(const TensorImpl& t) {
  return {t.dtype, t.device, {t.shape, t.shape + t.ndim}, {t.strides, t.strides + t.ndim}};
}

bool has_any_strides(const ValueType& type, size_t dim) {
  return type.shape[dim] == 1 || std::ranges::find(type.shape, 0) != type.shape.end();
}
bool same_layout(const ValueType& a, const ValueType& b) {
  if (a.dtype != b.dtype || a.device != b.device || a.shape != b.shape) return false;
  for (size_t d = 0; d < a.shape.size(); ++d)
    if (a.strides[d] != b.strides[d] && !has_any_strides(a, d)) return false;
  return true;
}

std::string to_string(const ValueType& type) {
  std::string s =
    fmt::format("{}{}", name_of(type.dtype), strata::to_string(Shape(type.shape.data(), type.shape.size())));
  if (type.device.type != DeviceType::Cpu) s += " " + strata::to_string(type.device);
  return s;
}

uint16_t written_by(const Node& node) {
  if (!node.op->written || node.form != Form::Plain) return 0;
  if (node.op->writes_if) {
    const auto* on = std::get_if<bool>(&node.args[node.op->writes_if]);
    if (on && !*on) return 0;
  }
  uint16_t mask = 0;
  for (uint32_t i = 0; i < node.args.size(); ++i)
    if ((node.op->written >> i & 1) && !std::holds_alternative<std::monostate>(node.args[i])) mask |= uint16_t(1 << i);
  return mask;
}

size_t count_written(const Node& node) {
  size_t count = 0;
  for (uint32_t i = 0, mask = written_by(node); i < node.args.size(); ++i)
    if (mask >> i & 1) {
      const auto* list = std::get_if<ValueList>(&node.args[i]);
      count += list ? list->ids.size() : 1;
    }
  return count;
}

namespace {

template <class... T> bool is_any(const Argument& a) { return (std::holds_alternative<T>(a) || ...); }

// What the pipeline expects of its callers: kernels do not check the kinds of their arguments again.
bool fits(const Argument& a, const OpRecord& op, uint32_t i) {
  const Param& p = op.params[i];
  if (is_any<std::monostate>(a)) return p.optional || (p.has_default && !op.defaults[i]);
  const bool integer = is_any<int64_t, bool, Size>(a), number = integer || is_any<double>(a);
  switch (p.type) {
    case ParamType::Tensor:
      return is_any<ValueRef>(a) || ((op.numbers || op.formulas) && (number || is_any<ComplexNumber>(a)));
    case ParamType::Tensors:
      return is_any<ValueList>(a) && (p.optional_items || std::ranges::find(std::get<ValueList>(a).ids, kNoValue) ==
                                                            std::get<ValueList>(a).ids.end());
    case ParamType::Scalar: return number || is_any<ComplexNumber>(a);
    case ParamType::Int: return integer;
    case ParamType::Float: return number;
    case ParamType::Bool: return is_any<bool, int64_t>(a);
    case ParamType::Ints: return is_any<std::vector<int64_t>, Sizes>(a);
    case ParamType::Floats: return is_any<std::vector<double>>(a);
    case ParamType::Str: return is_any<std::string>(a);
    case ParamType::DType: return is_any<DType>(a);
    case ParamType::Device: return is_any<Device>(a);
    case ParamType::Generator: return false;
  }
  return false;
}

class Verifier {
 public:
  explicit Verifier(const Graph& g) : g_(g), known_(g.values.size(), false) {}

  void run() {
    check_sizes();
    for (const ValueId id : g_.inputs) define(id, "input");
    for (const Graph::State& s : g_.states) {
      define(s.id, "state");
      STRATA_CHECK(s.tensor, Value, "graph: state {} has no tensor", name(s.id));
      STRATA_CHECK(type_of(*s.tensor) == g_.values[s.id].type, Value, "graph: state {} is {}, but its tensor is {}",
                   name(s.id), to_string(g_.values[s.id].type), to_string(type_of(*s.tensor)));
    }
    for (size_t i = 0; i < g_.nodes.size(); ++i) check(g_.nodes[i], i);
    for (const ValueId id : g_.outputs) use(id, "the outputs");
    for (const Graph::Write& w : g_.writes) {
      use(w.value, "the writes");
      STRATA_CHECK(w.target < held_.size() && held_[w.target], Value,
                   "graph: value {} is written back to, but is no input or state", w.target);
      STRATA_CHECK(g_.values[w.target].type.shape == g_.values[w.value].type.shape &&
                     g_.values[w.target].shape == g_.values[w.value].shape,
                   Value, "graph: {} is written back to {}, which has another shape", name(w.value), name(w.target));
    }
    std::unordered_set<std::string> names;
    for (ValueId id = 0; id < g_.values.size(); ++id) {
      if (!known_[id]) continue;  // left by a pass
      STRATA_CHECK(!g_.values[id].name.empty() && names.insert(g_.values[id].name).second, Value,
                   "graph: the name '{}' of value {} is empty or taken", g_.values[id].name, id);
    }
  }

 private:
  void check(const Sizes& sizes, const ValueType* type, const std::string& where) const {
    STRATA_CHECK(!type || sizes.empty() || sizes.size() == type->shape.size(), Value,
                 "graph: {} has {} sizes and {} dimensions", where, sizes.size(), type ? type->shape.size() : 0);
    for (const Size& s : sizes) {
      STRATA_CHECK(s.divisor >= 1, Value, "graph: {} has a size that is divided by {}", where, s.divisor);
      for (const Size::Term& t : s.terms)
        for (size_t d = 0; d < kMaxVarying; ++d)
          STRATA_CHECK(t.powers[d] == 0 || (d < g_.dims.size() && t.powers[d] <= kMaxDegree), Value,
                       "graph: {} has a size of an unknown dimension", where);
    }
  }
  // Every dimension that varies is the size of some input.
  void check_sizes() const {
    STRATA_CHECK(g_.dims.size() <= kMaxVarying, Value, "graph: {} dimensions vary; at most {} can", g_.dims.size(),
                 kMaxVarying);
    for (ValueId id = 0; id < g_.values.size(); ++id) {
      check(g_.values[id].shape, &g_.values[id].type, "value " + name(id));
      check(g_.values[id].strides, &g_.values[id].type, "value " + name(id));
    }
    for (const Graph::State& s : g_.states)
      STRATA_CHECK(s.id < g_.values.size() && g_.values[s.id].shape.empty() && g_.values[s.id].strides.empty(), Value,
                   "graph: the shape of state {} varies", name(s.id));
    for (size_t d = 0; d < g_.dims.size(); ++d) {
      bool bound = false;
      for (const ValueId id : g_.inputs)
        if (id < g_.values.size())
          for (const Size& s : g_.values[id].shape) bound |= s == size_of_dim(d);
      STRATA_CHECK(bound, Value, "graph: no input has the dimension '{}'", g_.dims[d].name);
    }
  }
  std::string name(ValueId id) const { return id < g_.values.size() ? "%" + g_.values[id].name : std::to_string(id); }
  void define(ValueId id, const char* what) {
    STRATA_CHECK(id < g_.values.size() && !known_[id], Value, "graph: {} {} is undefined or defined twice", what, id);
    known_[id] = true;
    if (what[0] != 'r') {
      held_.resize(g_.values.size());
      held_[id] = true;
    }
  }
  void use(ValueId id, const char* where) const {
    STRATA_CHECK(id < g_.values.size() && known_[id], Value, "graph: {} use value {}, which is not computed before",
                 where, name(id));
  }
  void check(const Node& n, size_t at) {
    STRATA_CHECK(n.op, Value, "graph: node {} has no op", at);
    const std::string where = fmt::format("node {} ({})", at, n.op->name);
    STRATA_CHECK(n.args.size() == n.op->params.size(), Value, "graph: {} has {} arguments; its op takes {}", where,
                 n.args.size(), n.op->params.size());
    for (uint32_t i = 0; i < n.args.size(); ++i)
      STRATA_CHECK(fits(n.args[i], *n.op, i), Value, "graph: argument {} of {} has another type than its parameter",
                   n.op->params[i].name, where);
    for (const Argument& a : n.args) {
      if (const auto* size = std::get_if<Size>(&a)) check({*size}, nullptr, where);
      if (const auto* sizes = std::get_if<Sizes>(&a)) check(*sizes, nullptr, where);
    }
    for_each_use(n, [&](ValueId id) { use(id, where.c_str()); });
    const auto complete = [&] { return std::ranges::find(n.results, kNoValue) == n.results.end(); };
    if (n.form == Form::InPlace)
      STRATA_CHECK(
        !n.args.empty() && std::holds_alternative<ValueRef>(n.args[0]) && n.results.size() == 1 && complete(), Value,
        "graph: {} is in place, but has no tensor to write to", where);
    else if (n.form == Form::Out)  // its results are memory that execution makes
      STRATA_CHECK(!n.op->returns_list && n.results.size() == n.op->outputs && complete(), Value,
                   "graph: {} has {} out= tensors; its op has {} results", where, n.results.size(), n.op->outputs);
    else
      STRATA_CHECK(n.op->returns_list || n.results.size() == n.op->outputs + count_written(n), Value,
                   "graph: {} has {} results; its op has {}", where, n.results.size(), n.op->outputs);
    for (const ValueId id : n.results)
      if (id != kNoValue) define(id, "result");
  }

  const Graph& g_;
  std::vector<bool> known_, held_;
};

}  // namespace

void verify(const Graph& graph) { Verifier(graph).run(); }

}  // namespace strata::graph
