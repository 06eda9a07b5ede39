// Graphs for all sizes, from captures at some: numbers that differ between captures become functions of the sizes.
#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "base/checked.h"
#include "compile/graph.h"

namespace strata::graph {
namespace {

using Powers = std::array<uint8_t, kMaxVarying>;
using Polynomial = std::map<Powers, Checked>;

int total(const Powers& p) { return std::accumulate(p.begin(), p.end(), 0); }

// Multiplies by (dims[d] - offset).
Polynomial times(const Polynomial& p, size_t d, int64_t offset) {
  Polynomial product;
  for (const auto& [powers, factor] : p) {
    Powers higher = powers;
    ++higher[d];
    product.try_emplace(higher, 0).first->second += factor;
    product.try_emplace(powers, 0).first->second += factor * Checked(-offset);
  }
  return product;
}

// Finds the polynomial that has given values at the points of the captures, by Newton's method of differences: the steps of
// point k are its differences from the first point, and a polynomial is the sum over these of difference(steps) times the product
// of the binomials (size - first, steps).
class Fit {
 public:
  explicit Fit(const std::vector<std::vector<int64_t>>& points) : low_(points[0]) {
    const size_t count = points_for(low_.size());
    STRATA_CHECK(points.size() > count, Value,
                 "generalize: {} dimensions need {} captures and one to check them, found {}", low_.size(), count,
                 points.size());
    for (size_t k = 0; k < count; ++k) {
      Powers steps{};
      for (size_t d = 0; d < low_.size(); ++d) {
        const int64_t step = points[k][d] - low_[d];
        STRATA_CHECK(step >= 0 && step <= kMaxDegree, Value, "generalize: point {} is too far from the first one", k);
        steps[d] = static_cast<uint8_t>(step);
      }
      STRATA_CHECK(total(steps) <= kMaxDegree && capture_at_.emplace(steps, k).second, Value,
                   "generalize: point {} is given twice or too far from the first one", k);
    }
  }
  size_t captures() const { return capture_at_.size(); }  // the others check

  // value(k) is the number in capture k.
  template <class F> Size operator()(const F& value) const {
    static constexpr int64_t kFactorials[] = {1, 1, 2, 6};
    constexpr int64_t kDivisor = 6;
    Polynomial sum;  // times kDivisor
    for (const auto& [steps, unused] : capture_at_) {
      Checked factor = difference(steps, value) * Checked(kDivisor);
      Polynomial product{{Powers{}, 1}};
      for (size_t d = 0; d < low_.size(); ++d) {
        factor = factor.get() / kFactorials[steps[d]];  // exact: the factorials' product divides kDivisor
        for (int n = 0; n < steps[d]; ++n) product = times(product, d, low_[d] + n);
      }
      for (const auto& [powers, f] : product) sum.try_emplace(powers, 0).first->second += f * factor;
    }
    Size size;
    int64_t common = kDivisor;
    for (auto at = sum.rbegin(); at != sum.rend(); ++at)
      if (const int64_t factor = at->second.get()) {
        size.terms.push_back({factor, at->first});
        common = std::gcd(common, factor);
      }
    for (Size::Term& t : size.terms) t.factor /= common;
    size.divisor = size.terms.empty() ? 1 : kDivisor / common;
    return size;
  }

 private:
  // The number of steps with at most kMaxDegree in total.
  static size_t points_for(size_t dims) {
    size_t count = 1;
    for (size_t k = 1; k <= kMaxDegree; ++k) count = count * (dims + k) / k;
    return count;
  }
  // The mixed difference of the values, by `steps` in each direction.
  template <class F> Checked difference(const Powers& steps, const F& value) const {
    static constexpr int64_t kBinomials[4][4] = {{1}, {1, 1}, {1, 2, 1}, {1, 3, 3, 1}};
    Checked sum = 0;
    for (const auto& [other, k] : capture_at_) {
      Checked weight = 1;
      for (size_t d = 0; d < kMaxVarying; ++d)
        weight *= other[d] > steps[d] ? 0 : kBinomials[steps[d]][other[d]] * ((steps[d] - other[d]) % 2 ? -1 : 1);
      if (weight.get()) sum += weight * Checked(value(k));
    }
    return sum;
  }

  const std::vector<int64_t>& low_;
  std::map<Powers, size_t> capture_at_;  // by its steps
};

bool is_constant(const Size& s) { return s.terms.empty() || (s.terms.size() == 1 && total(s.terms[0].powers) == 0); }
bool is_constant(const Sizes& sizes) {
  return std::ranges::all_of(sizes, [](const Size& s) { return is_constant(s); });
}

// Of one graph in all captures: the whole, or a body.
class Generalization {
 public:
  using Captures = std::vector<const Graph*>;
  using Points = std::vector<std::vector<int64_t>>;
  // `g` is a copy of the first capture.
  Generalization(Captures captures, const Points& points, const Fit& fit, Graph& g)
      : captures_(std::move(captures)), points_(points), g_(g), fit_(fit), fitted_(fit.captures()) {}

  void run() {
    for (const Graph* c : captures_) check_structure(*c);
    for (ValueId id = 0; id < g_.values.size(); ++id) {
      Graph::Value& v = g_.values[id];
      v.shape = sizes(&ValueType::shape, id);
      v.strides = sizes(&ValueType::strides, id);
    }
    for (size_t n = 0; n < g_.nodes.size(); ++n) {
      for (size_t i = 0; i < g_.nodes[n].args.size(); ++i) generalize(n, i);
      for (size_t k = 0; k < g_.nodes[n].bodies.size(); ++k) {
        Captures bodies;
        for (const Graph* c : captures_) bodies.push_back(&c->nodes[n].bodies[k]);
        Generalization(std::move(bodies), points_, fit_, g_.nodes[n].bodies[k]).run();
      }
    }
  }

 private:
  [[noreturn]] static void differs(const Node& n, const char* what) {
    fail(ErrorKind::Runtime,
         fmt::format(
           "export: for other sizes, {} of {} differs{}. Its program may decide by sizes, or compute a number from "
           "them that is no sum of products",
           what, n.op->name, n.source.empty() ? "" : " at " + n.source));
  }

  void check_structure(const Graph& c) const {
    const size_t common = std::min(c.nodes.size(), g_.nodes.size());
    for (size_t n = 0; n < common; ++n) {
      const Node &a = g_.nodes[n], &b = c.nodes[n];
      if (a.op != b.op || a.form != b.form || a.results != b.results || a.no_grad != b.no_grad ||
          a.bodies.size() != b.bodies.size())
        differs(a, "the call");
    }
    if (c.nodes.size() != g_.nodes.size())
      differs((c.nodes.size() > common ? c : g_).nodes[common], "the number of calls after that");
    STRATA_CHECK(c.values.size() == g_.values.size() && c.outputs == g_.outputs && c.writes == g_.writes &&
                   c.inputs == g_.inputs && c.states.size() == g_.states.size(),
                 Runtime, "export: for other sizes the program returns or writes to other tensors");
    for (size_t i = 0; i < c.states.size(); ++i)
      STRATA_CHECK(
        c.states[i].id == g_.states[i].id && same_state(c.states[i].tensor, g_.states[i].tensor), Runtime,
        "export: for other sizes, the tensor {} that the program makes without ops differs; make it with ops, such as "
        "arange() and full()",
        g_.values[g_.states[i].id].name);
  }
  static bool same_state(const Tensor& a, const Tensor& b) {
    if (a.get() == b.get()) return true;
    if (type_of(*a) != type_of(*b)) return false;
    static const OpRecord &eq = find_op("eq"), &all = find_op("all");
    return call(all, Args(call(eq, Args(a, b)))).item<bool>();
  }

  // A value with the call that computes it.
  std::string name_of(ValueId id) const {
    for (const Node& n : g_.nodes)
      if (std::ranges::find(n.results, id) != n.results.end())
        return fmt::format("the result of {}{}", n.op->name, n.source.empty() ? "" : " at " + n.source);
    return g_.values[id].name;
  }
  // The shape or the strides of a value; empty if they do not vary.
  Sizes sizes(std::vector<int64_t> ValueType::*list, ValueId id) const {
    const auto type = [&](size_t k) -> const ValueType& { return captures_[k]->values[id].type; };
    const size_t count = type(0).shape.size();
    for (size_t k = 1; k < captures_.size(); ++k)
      STRATA_CHECK(type(k).shape.size() == count && type(k).dtype == type(0).dtype, Runtime,
                   "export: for other sizes, {} has another number of dimensions or dtype", name_of(id));
    Sizes all;
    for (size_t i = 0; i < count; ++i) {
      all.push_back(fit_([&](size_t k) { return (type(k).*list)[i]; }));
      for (size_t k = fitted_; k < captures_.size(); ++k)
        STRATA_CHECK(evaluate(all.back(), points_[k]) == (type(k).*list)[i] ||
                       (list == &ValueType::strides && has_any_strides(type(k), i)),
                     Runtime, "export: a size or stride of {} is no sum of products of the sizes that vary",
                     name_of(id));
    }
    return is_constant(all) ? Sizes{} : all;
  }

  void generalize(size_t n, size_t i) {
    Node& node = g_.nodes[n];
    Argument& first = node.args[i];
    const auto other = [&](size_t k) -> const Argument& { return captures_[k]->nodes[n].args[i]; };
    bool same = true;
    for (size_t k = 1; k < captures_.size(); ++k) {
      if (other(k).index() != first.index()) differs(node, "the kind of an argument");
      same &= other(k) == first;
    }
    if (same) return;
    const std::string what = fmt::format("argument '{}'", node.op->params[i].name);
    const auto checked = [&](Size size, const auto& value) {
      for (size_t k = fitted_; k < captures_.size(); ++k)
        if (evaluate(size, points_[k]) != value(k)) differs(node, what.c_str());
      return size;
    };
    if (std::holds_alternative<int64_t>(first)) {
      const auto value = [&](size_t k) { return std::get<int64_t>(other(k)); };
      const Size size = checked(fit_(value), value);
      if (is_constant(size)) differs(node, what.c_str());
      first = size;
    } else if (const auto* list = std::get_if<std::vector<int64_t>>(&first)) {
      const size_t count = list->size();
      for (size_t k = 0; k < captures_.size(); ++k)
        if (std::get<std::vector<int64_t>>(other(k)).size() != count) differs(node, what.c_str());
      Sizes all;
      for (size_t e = 0; e < count; ++e) {
        const auto value = [&](size_t k) { return std::get<std::vector<int64_t>>(other(k))[e]; };
        all.push_back(checked(fit_(value), value));
      }
      first = all;
    } else {
      differs(node, what.c_str());
    }
  }

  const Captures captures_;
  const Points& points_;
  Graph& g_;
  const Fit& fit_;
  const size_t fitted_;  // captures; the rest checks
};

}  // namespace

Size size_of_dim(size_t d) {
  Size s{{{1, {}}}};
  s.terms[0].powers.at(d) = 1;
  return s;
}

int64_t evaluate(const Size& size, const std::vector<int64_t>& dims) {
  Checked sum = 0;
  for (const Size::Term& t : size.terms) {
    Checked product = t.factor;
    for (size_t d = 0; d < kMaxVarying; ++d)
      for (int n = 0; n < t.powers[d]; ++n) product *= dims.at(d);
    sum += product;
  }
  return sum.get() / size.divisor;
}

Graph generalize(const std::vector<Graph>& captures, const std::vector<std::vector<int64_t>>& points,
                 const std::vector<Graph::Dim>& dims, const std::vector<Axis>& axes) {
  STRATA_CHECK(
    !captures.empty() && captures.size() == points.size() && !dims.empty() && dims.size() <= kMaxVarying, Value,
    "generalize: expected a point per capture and 1 to {} dimensions, found {} captures, {} points and {} dimensions",
    kMaxVarying, captures.size(), points.size(), dims.size());
  for (const std::vector<int64_t>& p : points)
    STRATA_CHECK(p.size() == dims.size(), Value, "generalize: a point has {} sizes; expected {}", p.size(),
                 dims.size());
  Graph g = captures[0];
  g.dims = dims;
  Generalization::Captures all;
  for (const Graph& c : captures) all.push_back(&c);
  Generalization(std::move(all), points, Fit(points), g).run();
  for (const Axis& a : axes)
    STRATA_CHECK(a.input < g.inputs.size() && a.dim < g.dims.size() &&
                   a.axis < g.values[g.inputs[a.input]].shape.size() &&
                   g.values[g.inputs[a.input]].shape[a.axis] == size_of_dim(a.dim),
                 Value, "generalize: axis {} of input {} does not vary with '{}'", a.axis, a.input,
                 a.dim < g.dims.size() ? g.dims[a.dim].name : "");
  verify(g);
  return g;
}

}  // namespace strata::graph
