// The first difference between two captures of a program.
#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "autograd/autograd.h"
#include "compile/control.h"
#include "compile/replay.h"
#include "strata/ops.h"

namespace strata::graph {
namespace {

std::string shown(const Argument& a, const Graph& g) {
  struct Text {
    const Graph& g;
    std::string operator()(std::monostate) const { return "None"; }
    std::string operator()(const ValueRef& v) const { return g.values[v.id].name; }
    std::string operator()(const ValueList& v) const { return fmt::format("{} tensors", v.ids.size()); }
    std::string operator()(double v) const { return fmt::format("{}", v); }
    std::string operator()(int64_t v) const { return fmt::format("{}", v); }
    std::string operator()(bool v) const { return v ? "True" : "False"; }
    std::string operator()(const ComplexNumber& v) const { return fmt::format("{}+{}j", v.re, v.im); }
    std::string operator()(const std::vector<int64_t>& v) const { return strata::to_string(Shape(v.data(), v.size())); }
    std::string operator()(const std::vector<double>& v) const { return fmt::format("{} numbers", v.size()); }
    std::string operator()(const std::string& v) const { return "'" + v + "'"; }
    std::string operator()(DType v) const { return name_of(v); }
    std::string operator()(const Device& v) const { return strata::to_string(v); }
    std::string operator()(const Size&) const { return "a size"; }
    std::string operator()(const Sizes&) const { return "sizes"; }
  };
  return std::visit(Text{g}, a);
}
std::string place_of(const Node& n) {
  return n.source.empty() ? n.op->name : fmt::format("{} at {}", n.op->name, n.source);
}

bool same_bits(const Tensor& a, const Tensor& b) {
  if (a.get() == b.get()) return true;
  if (type_of(*a) != type_of(*b)) return false;
  const autograd::NoGrad off;
  const auto on_host = [](const Tensor& t) { return contiguous(to(t.get()->requires_grad ? detach(t) : t, Device())); };
  const Tensor x = on_host(a), y = on_host(b);
  return x.nbytes() == 0 || std::memcmp(x.bytes(), y.bytes(), x.nbytes()) == 0;
}

std::string difference(const Node& a, const Node& b, const Graph& before, const Graph& now) {
  if (a.op != b.op || a.form != b.form) return fmt::format("calls {}; it called {} before", place_of(b), place_of(a));
  for (size_t i = 0; i < b.args.size(); ++i)
    if (!(a.args[i] == b.args[i]))
      return fmt::format("{} got {}={}; it got {} before", place_of(b), b.op->params[i].name, shown(b.args[i], now),
                         shown(a.args[i], before));
  if (a.no_grad != b.no_grad) return fmt::format("{} runs in another gradient mode than before", place_of(b));
  for (size_t k = 0; k < std::min(a.bodies.size(), b.bodies.size()); ++k)
    if (const Difference d = difference(a.bodies[k], b.bodies[k]); !d.what.empty())
      return fmt::format("has another {} of {}: it {}", name_of_body(control_of(*b.op), k), place_of(b), d.what);
  return a.results == b.results ? "" : fmt::format("{} has other results than before", place_of(b));
}

}  // namespace

Difference difference(const Graph& before, const Graph& now) {
  if (before.inputs != now.inputs || before.values.empty() != now.values.empty())
    return {"takes other tensors than before"};
  for (size_t i = 0; i < std::min(before.nodes.size(), now.nodes.size()); ++i) {
    const Node &a = before.nodes[i], &b = now.nodes[i];
    if (std::string d = difference(a, b, before, now); !d.empty()) return {std::move(d)};
    for (const ValueId id : b.results)
      if (id != kNoValue && before.values[id].type != now.values[id].type)
        return {fmt::format("{} returned {}; it returned {} before", place_of(b), to_string(now.values[id].type),
                            to_string(before.values[id].type)),
                true};
  }
  if (before.nodes.size() != now.nodes.size())
    return {fmt::format("makes {} calls; it made {} before", now.nodes.size(), before.nodes.size())};
  if (before.states.size() != now.states.size() || before.outputs != now.outputs || before.writes != now.writes)
    return {"returns or writes other values than before"};
  for (size_t i = 0; i < now.states.size(); ++i) {
    const Graph::State &a = before.states[i], &b = now.states[i];
    if (a.id != b.id || a.named != b.named ||
        (b.named ? a.tensor.get() != b.tensor.get() : !same_bits(a.tensor, b.tensor)))
      return {fmt::format("uses another tensor as {} than before", now.values[b.id].name)};
  }
  return {};
}

}  // namespace strata::graph
