// Graphs as text for people.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include "compile/control.h"

namespace strata::graph {
namespace {

std::string list_of(const Sizes& sizes, const std::vector<Graph::Dim>& dims) {
  std::string s = "[";
  for (size_t i = 0; i < sizes.size(); ++i) s += (i ? ", " : "") + to_string(sizes[i], dims);
  return s + "]";
}

class Writer {
 public:
  explicit Writer(const Graph& g) : Writer(g, g.dims, "  ") {}

  std::string text(const std::string& title) const {
    std::string s = title + "(";
    for (size_t i = 0; i < g_.inputs.size(); ++i) s += (i ? ", " : "") + declared(g_.inputs[i]);
    s += "):\n";
    for (const Graph::State& state : g_.states)
      s += indent_ + declared(state.id) + (state.named ? "  # state\n" : "  # constant\n");
    std::string scope;
    for (const Node& n : g_.nodes) {
      if (n.scope != scope) s += n.scope.empty() ? "" : indent_ + "# " + n.scope + "\n";
      scope = n.scope;
      s += indent_ + line(n) + "\n";
      for (size_t k = 0; k < n.bodies.size(); ++k)
        s += indent_ + "  " + Writer(n.bodies[k], dims_, indent_ + "    ").text(name_of_body(control_of(*n.op), k));
    }
    for (const Graph::Write& w : g_.writes) s += indent_ + fmt::format("{} <- {}\n", name(w.target), name(w.value));
    s += indent_ + "return";
    for (size_t i = 0; i < g_.outputs.size(); ++i) s += (i ? ", " : " ") + name(g_.outputs[i]);
    return s + "\n";
  }

 private:
  Writer(const Graph& g, const std::vector<Graph::Dim>& dims, std::string indent)
      : g_(g), dims_(dims), indent_(std::move(indent)) {}

  std::string name(ValueId id) const { return id == kNoValue ? "None" : "%" + g_.values[id].name; }
  std::string declared(ValueId id) const { return fmt::format("{}: {}", name(id), to_string(g_.values[id], dims_)); }

  std::string line(const Node& n) const {
    std::string s;
    for (size_t k = 0; k < n.results.size(); ++k)
      s += (k ? ", " : "") + (n.results[k] == kNoValue ? "_" : declared(n.results[k]));
    const char* form = n.form == Form::InPlace ? "_" : n.form == Form::Out ? ".out" : "";
    s += fmt::format("{}{}{}{}{}(", n.results.empty() ? "" : " = ", n.op->name, n.op->overload.empty() ? "" : ".",
                     n.op->overload, form);
    bool first = true;
    for (size_t i = 0; i < n.args.size(); ++i) {
      if (is_default(n, i)) continue;
      s += first ? "" : ", ";
      if (i >= n.op->positional || skipped_before(n, i)) s += fmt::format("{}=", n.op->params[i].name);
      s += argument(n.args[i]);
      first = false;
    }
    s += ")";
    if (n.no_grad) s += "  # no_grad";
    if (!n.source.empty()) s += "  # " + n.source;
    return s;
  }
  bool is_default(const Node& n, size_t i) const {
    if (i < n.op->required) return false;
    const Value& v = n.op->defaults[static_cast<uint32_t>(i)];
    const Argument& a = n.args[i];
    if (std::holds_alternative<std::monostate>(a)) return true;
    if (const auto* f = std::get_if<double>(&a)) return v.tag == Tag::Float && v.f == *f;
    if (const auto* k = std::get_if<int64_t>(&a)) return v.tag == Tag::Int && v.i == *k;
    if (const auto* b = std::get_if<bool>(&a)) return v.tag == Tag::Bool && (v.i != 0) == *b;
    if (const auto* t = std::get_if<std::string>(&a)) return v.tag == Tag::Str && v.string() == *t;
    return false;
  }
  bool skipped_before(const Node& n, size_t i) const {
    for (size_t k = n.op->required; k < i; ++k)
      if (is_default(n, k)) return true;
    return false;
  }

  std::string argument(const Argument& a) const {
    return std::visit(
      [&](const auto& v) -> std::string {
        using T = std::remove_cvref_t<decltype(v)>;
        if constexpr (std::is_same_v<T, std::monostate>) {
          return "None";
        } else if constexpr (std::is_same_v<T, ValueRef>) {
          return name(v.id);
        } else if constexpr (std::is_same_v<T, ValueList>) {
          std::string s = "[";
          for (size_t i = 0; i < v.ids.size(); ++i) s += (i ? ", " : "") + name(v.ids[i]);
          return s + "]";
        } else if constexpr (std::is_same_v<T, bool>) {
          return v ? "True" : "False";
        } else if constexpr (std::is_same_v<T, double>) {
          return fmt::format("{}", v);
        } else if constexpr (std::is_same_v<T, ComplexNumber>) {
          return fmt::format("({}{:+}j)", v.re, v.im);
        } else if constexpr (std::is_same_v<T, std::string>) {
          return "'" + v + "'";
        } else if constexpr (std::is_same_v<T, DType>) {
          return name_of(v);
        } else if constexpr (std::is_same_v<T, Device>) {
          return "'" + strata::to_string(v) + "'";
        } else if constexpr (std::is_same_v<T, Size>) {
          return to_string(v, dims_);
        } else if constexpr (std::is_same_v<T, Sizes>) {
          return list_of(v, dims_);
        } else if constexpr (std::is_same_v<T, int64_t>) {
          return std::to_string(v);
        } else {
          return fmt::format("[{}]", fmt::join(v, ", "));
        }
      },
      a);
  }

  const Graph& g_;
  const std::vector<Graph::Dim>& dims_;
  const std::string indent_;
};

}  // namespace

std::string to_string(const Size& size, const std::vector<Graph::Dim>& dims) {
  std::string s;
  for (const Size::Term& t : size.terms) {
    std::string product;
    for (size_t d = 0; d < dims.size(); ++d)
      for (int n = 0; n < t.powers[d]; ++n) product += (product.empty() ? "" : "*") + dims[d].name;
    const int64_t factor = s.empty() ? t.factor : std::abs(t.factor);
    if (!s.empty()) s += t.factor < 0 ? " - " : " + ";
    if (product.empty()) s += std::to_string(factor);
    else s += factor == 1 ? product : factor == -1 ? "-" + product : fmt::format("{}*{}", factor, product);
  }
  if (size.divisor != 1) s = fmt::format("({})/{}", s, size.divisor);
  return s.empty() ? "0" : s;
}
std::string to_string(const Graph::Value& value, const std::vector<Graph::Dim>& dims) {
  if (value.shape.empty()) return to_string(value.type);
  std::string s = name_of(value.type.dtype) + list_of(value.shape, dims);
  if (value.type.device.type != DeviceType::Cpu) s += " " + strata::to_string(value.type.device);
  return s;
}
std::string to_string(const Graph& graph) { return Writer(graph).text("graph"); }

}  // namespace strata::graph
