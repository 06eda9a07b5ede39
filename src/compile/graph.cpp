#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <unordered_set>

#include "compile/control.h"

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

Size size_at(const Graph::Value& v, size_t dim) {
  if (!v.shape.empty()) return v.shape[dim];
  const int64_t n = v.type.shape[dim];
  return n ? Size{{{n, {}}}} : Size{};
}

class Verifier {
 public:
  explicit Verifier(const Graph& g) : Verifier(g, g.dims, 0) {}

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
  Verifier(const Graph& g, const std::vector<Graph::Dim>& dims, size_t depth)
      : g_(g), dims_(dims), depth_(depth), known_(g.values.size(), false) {}

  void check(const Sizes& sizes, const ValueType* type, const std::string& where) const {
    STRATA_CHECK(!type || sizes.empty() || sizes.size() == type->shape.size(), Value,
                 "graph: {} has {} sizes and {} dimensions", where, sizes.size(), type ? type->shape.size() : 0);
    for (const Size& s : sizes) {
      STRATA_CHECK(s.divisor >= 1, Value, "graph: {} has a size that is divided by {}", where, s.divisor);
      for (const Size::Term& t : s.terms)
        for (size_t d = 0; d < kMaxVarying; ++d)
          STRATA_CHECK(t.powers[d] == 0 || (d < dims_.size() && t.powers[d] <= kMaxDegree), Value,
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
    const Control control = control_of(*n.op);
    if (control != Control::None) return check_control(n, control, where);
    STRATA_CHECK(n.bodies.empty(), Value, "graph: {} has functions, but its op takes none", where);
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

  // --- control flow -----------------------------------------------------------------------------------------------
  // The same dtype, device and shape, also where the shape varies; of a loop's slices and stacked results without one dimension.
  // Strides may differ: a run converts.
  static constexpr size_t kAllDims = SIZE_MAX;
  static bool same_but(const Graph::Value& a, const Graph::Value& b, size_t without) {  // a dimension of a
    const size_t rank = a.type.shape.size(), fewer = without == kAllDims ? 0 : 1;
    if (a.type.dtype != b.type.dtype || a.type.device != b.type.device || rank != b.type.shape.size() + fewer)
      return false;
    for (size_t d = 0, e = 0; d < rank; ++d) {
      if (d == without) continue;
      if (a.type.shape[d] != b.type.shape[e] || !(size_at(a, d) == size_at(b, e))) return false;
      ++e;
    }
    return true;
  }
  std::string described(ValueId id) const { return name(id) + ": " + to_string(g_.values[id], dims_); }
  // Two lists of values, the first of which is of this graph.
  void check_same(const std::vector<ValueId>& ours, const Graph& body, const std::vector<ValueId>& theirs,
                  size_t theirs_from, const std::string& what, size_t without = kAllDims) const {
    STRATA_CHECK(theirs_from <= theirs.size() && ours.size() <= theirs.size() - theirs_from, Value,
                 "graph: {}: there are {} values, expected {}", what, theirs.size(), theirs_from + ours.size());
    for (size_t k = 0; k < ours.size(); ++k) {
      const ValueId id = theirs[theirs_from + k];
      STRATA_CHECK(ours[k] != kNoValue && same_but(g_.values[ours[k]], body.values[id], without), Value,
                   "graph: {}: {} does not fit {}", what, ours[k] == kNoValue ? "None" : described(ours[k]),
                   to_string(body.values[id], dims_));
    }
  }
  void check_count(const std::vector<ValueId>& ids, size_t want, const std::string& what) const {
    STRATA_CHECK(ids.size() == want, Value, "graph: {}: there are {} values, expected {}", what, ids.size(), want);
  }
  void check_condition(const Graph::Value& v, const std::string& what) const {
    for (size_t d = 0; d < v.type.shape.size(); ++d)
      STRATA_CHECK(size_at(v, d) == (Size{{{1, {}}}}), Value, "graph: {} is {}; expected one element", what,
                   to_string(v, dims_));
  }

  void check_control(const Node& n, Control control, const std::string& where) {
    STRATA_CHECK(n.form == Form::Plain, Value, "graph: {} has only the plain form", where);
    STRATA_CHECK(n.bodies.size() == (control == Control::Scan ? 1 : 2), Value, "graph: {} has {} functions", where,
                 n.bodies.size());
    STRATA_CHECK(depth_ < kMostNested, Value, "graph: {} is the {}th inside of others", where, depth_ + 1);
    for (size_t k = 0; k < n.bodies.size(); ++k) {
      const Graph& body = n.bodies[k];
      STRATA_CHECK(body.dims.empty() && body.states.empty() && body.writes.empty(), Value,
                   "graph: {} of {} has dimensions, states or writes of its own", name_of_body(control, k), where);
      Verifier(body, dims_, depth_ + 1).run();
    }
    for (const ValueId id : n.results) {
      STRATA_CHECK(id != kNoValue, Value, "graph: {} lacks a result", where);
      define(id, "result");
    }
    if (control == Control::Cond) check_cond(n, where);
    else if (control == Control::While) check_while(n, where);
    else check_scan(n, where);
  }
  void check_cond(const Node& n, const std::string& where) const {
    check_condition(g_.values[std::get<ValueRef>(n.args[kPred]).id], "pred of " + where);
    const std::vector<ValueId>& operands = list_of(n, kOperands);
    for (const Graph& body : n.bodies) {
      check_count(body.inputs, operands.size(), "operands of " + where);
      check_same(operands, body, body.inputs, 0, "operands of " + where);
      check_count(body.outputs, n.results.size(), "results of " + where);
      check_same(n.results, body, body.outputs, 0, "results of " + where);
    }
  }
  void check_while(const Node& n, const std::string& where) const {
    const std::vector<ValueId>&carried = list_of(n, kCarried), &others = list_of(n, kLoopOthers);
    const auto* stacked = std::get_if<int64_t>(&n.args[kStacked]);
    STRATA_CHECK(stacked && *stacked >= 0 && !carried.empty(), Value, "graph: {} carries or stacks nothing", where);
    const size_t results = n.results.size();
    STRATA_CHECK(results >= carried.size() && results - carried.size() == static_cast<uint64_t>(*stacked), Value,
                 "graph: {} has {} results", where, results);
    for (const Graph& body : n.bodies) {
      check_count(body.inputs, carried.size() + others.size(), "arguments of " + where);
      check_same(carried, body, body.inputs, 0, "carried values of " + where);
      check_same(others, body, body.inputs, carried.size(), "arguments of " + where);
    }
    const Graph &condition = n.bodies[0], &body = n.bodies[1];
    check_count(condition.outputs, 1, "the condition of " + where);
    check_condition(condition.values[condition.outputs[0]], "the condition of " + where);
    check_count(body.outputs, results, "results of " + where);
    check_same(carried, body, body.outputs, 0, "carried values of " + where);
    check_results(n, body, carried.size(), 0, where);
  }
  void check_scan(const Node& n, const std::string& where) const {
    const std::vector<ValueId>&init = list_of(n, kInit), &xs = list_of(n, kXs), &others = list_of(n, kScanOthers);
    const auto* dim = std::get_if<int64_t>(&n.args[kScanDim]);
    STRATA_CHECK(dim && *dim >= 0 && *dim < kMaxDims, Value, "graph: {} has no dimension to scan", where);
    const auto at = static_cast<size_t>(*dim);
    const bool has_length = !is_any<std::monostate>(n.args[kLength]);
    STRATA_CHECK(xs.empty() == has_length, Value, "graph: {} needs either xs or a length", where);
    for (const ValueId x : xs)
      STRATA_CHECK(at < g_.values[x].type.shape.size() && size_at(g_.values[x], at) == size_at(g_.values[xs[0]], at),
                   Value, "graph: {} scans values of other sizes", where);
    const Graph& body = n.bodies[0];
    check_count(body.inputs, init.size() + xs.size() + others.size(), "arguments of " + where);
    check_same(init, body, body.inputs, 0, "carried values of " + where);
    check_same(xs, body, body.inputs, init.size(), "xs of " + where, at);
    check_same(others, body, body.inputs, init.size() + xs.size(), "arguments of " + where);
    check_count(body.outputs, n.results.size(), "results of " + where);
    check_same(init, body, body.outputs, 0, "carried values of " + where);
    check_results(n, body, init.size(), at, where);
    for (size_t k = init.size(); k < n.results.size() && !xs.empty(); ++k)
      STRATA_CHECK(size_at(g_.values[n.results[k]], at) == size_at(g_.values[xs[0]], at), Value,
                   "graph: {} stacks other sizes than it scans", where);
  }
  // First those that are carried, then the stacked ones.
  void check_results(const Node& n, const Graph& body, size_t carried, size_t dim, const std::string& where) const {
    const std::vector<ValueId> first(n.results.begin(), n.results.begin() + static_cast<ptrdiff_t>(carried)),
      rest(n.results.begin() + static_cast<ptrdiff_t>(carried), n.results.end());
    check_same(first, body, body.outputs, 0, "results of " + where);
    for (const ValueId id : rest)
      STRATA_CHECK(dim < g_.values[id].type.shape.size(), Value, "graph: {} stacks along dimension {} of {}", where,
                   dim, described(id));
    check_same(rest, body, body.outputs, carried, "results of " + where, dim);
  }

  const Graph& g_;
  const std::vector<Graph::Dim>& dims_;
  const size_t depth_;
  std::vector<bool> known_, held_;
};

}  // namespace

void verify(const Graph& graph) { Verifier(graph).run(); }

}  // namespace strata::graph
