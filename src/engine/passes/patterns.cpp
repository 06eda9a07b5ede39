// Activations and norms that exporters write as several ops.
#include <algorithm>
#include <cmath>

#include "autograd/autograd.h"
#include "engine/passes/inference.h"
#include "engine/passes/retype.h"
#include "engine/passes/rewriter.h"
#include "strata/ops.h"

namespace strata::engine {
namespace {

using graph::Argument;
using graph::kNoValue;
using graph::Node;
using graph::ValueId;
using graph::ValueRef;

ValueId id_of(const Argument& a) {
  const auto* ref = std::get_if<ValueRef>(&a);
  return ref ? ref->id : kNoValue;
}
bool is(const Rewriter& r, ValueId id, const OpRecord& op) { return r.producer(id, op) != Rewriter::kNone; }
const Node& of(const Rewriter& r, ValueId id) { return r.node(r.producer(id)); }

// A value as a constant times other values.
struct Product {
  double constant = 1;
  std::vector<ValueId> values;
};
constexpr int kMostNested = 6;
void collect(const Rewriter& r, const Argument& a, Product& p, int depth = 0) {
  if (const auto number = r.number(a)) {
    p.constant *= *number;
    return;
  }
  const ValueId id = id_of(a);
  if (id == kNoValue) return;
  if (depth < kMostNested && is(r, id, op_mul)) {
    collect(r, r.arg(of(r, id), "input"), p, depth + 1);
    collect(r, r.arg(of(r, id), "other"), p, depth + 1);
  } else if (const size_t at = r.producer(id, op_div);
             depth < kMostNested && at != Rewriter::kNone && r.number(r.arg(r.node(at), "other")) &&
             std::holds_alternative<std::monostate>(r.arg(r.node(at), "rounding_mode"))) {
    p.constant /= *r.number(r.arg(r.node(at), "other"));
    collect(r, r.arg(r.node(at), "input"), p, depth + 1);
  } else if (depth < kMostNested && is(r, id, op_square)) {
    for (int k = 0; k < 2; ++k) collect(r, r.arg(of(r, id), "input"), p, depth + 1);
  } else if (const size_t power = r.producer(id, op_pow); power != Rewriter::kNone) {
    const auto exponent = r.number(r.arg(r.node(power), "exponent"));
    const bool small = exponent && (*exponent == 2 || *exponent == 3) && depth < kMostNested;
    if (!small) return p.values.push_back(id);
    for (int k = 0; k < static_cast<int>(*exponent); ++k) collect(r, r.arg(r.node(power), "input"), p, depth + 1);
  } else {
    p.values.push_back(id);
  }
}
Product product_of(const Rewriter& r, ValueId id) {
  Product p;
  collect(r, ValueRef{id}, p);
  return p;
}
bool near(double a, double b) { return std::abs(a - b) <= 1e-4 * std::max(std::abs(b), 1e-3); }

// The other addend, if a value is a sum with this number.
ValueId plus_number(const Rewriter& r, ValueId id, double number) {
  const size_t at = r.producer(id, op_add);
  if (at == Rewriter::kNone || !r.is_number(r.arg(r.node(at), "alpha"), 1, 0)) return kNoValue;
  const Node& n = r.node(at);
  if (r.is_number(n.args[1], number)) return id_of(n.args[0]);
  return r.is_number(n.args[0], number) ? id_of(n.args[1]) : kNoValue;
}
bool is_only(const Product& p, ValueId x, size_t times, double constant) {
  return p.values.size() == times && near(p.constant, constant) &&
         std::ranges::all_of(p.values, [&](ValueId id) { return id == x; });
}

// sqrt(2 / pi) * (x + 0.044715 * x^3)
bool is_tanh_argument(const Rewriter& r, ValueId id, ValueId x) {
  constexpr double kOuter = 0.7978845608, kInner = 0.044715;
  const Product p = product_of(r, id);
  if (!near(p.constant, kOuter)) return false;
  if (p.values.size() == 1) {
    const size_t at = r.producer(p.values[0], op_add);
    if (at == Rewriter::kNone || !r.is_number(r.arg(r.node(at), "alpha"), 1, 0)) return false;
    const ValueId a = id_of(r.node(at).args[0]), b = id_of(r.node(at).args[1]);
    if (a == kNoValue || b == kNoValue) return false;
    return (a == x && is_only(product_of(r, b), x, 3, kInner)) || (b == x && is_only(product_of(r, a), x, 3, kInner));
  }
  if (p.values.size() != 2 || (p.values[0] != x && p.values[1] != x)) return false;
  const ValueId sum = plus_number(r, p.values[p.values[0] == x ? 1 : 0], 1);
  return sum != kNoValue && is_only(product_of(r, sum), x, 2, kInner);
}

// --- activations --------------------------------------------------------------------------------------------------------
// x times a function of x that makes one of the known activations.
std::optional<Node> gated(const Rewriter& r, const Node& root, double constant, ValueId x, ValueId gate) {
  const auto call = [&](const OpRecord& op, std::vector<Argument> args) {
    return Rewriter::make(op, std::move(args), root.results, root);
  };
  const auto takes_x = [&](const OpRecord& op) { return is(r, gate, op) && r.value(of(r, gate), "input") == x; };
  if (near(constant, 1) && takes_x(op_sigmoid)) return call(op_silu, {ValueRef{x}});
  if (near(constant, 1) && takes_x(op_hardsigmoid)) return call(op_hardswish, {ValueRef{x}});
  if (near(constant, 1) && is(r, gate, op_tanh)) {
    const ValueId inner = r.value(of(r, gate), "input");
    if (is(r, inner, op_softplus) && r.value(of(r, inner), "input") == x && r.is_number(r.arg(of(r, inner), "beta"), 1))
      return call(op_mish, {ValueRef{x}});
  }
  const bool clamps = is(r, gate, op_clamp) || is(r, gate, op_relu6);
  if (clamps && x != kNoValue) {
    const Node& n = of(r, gate);
    const ValueId inner = r.value(n, "input");
    const double high = n.op == &op_relu6 ? 6 : r.number(r.arg(n, "max")).value_or(0);
    const bool from_zero = n.op == &op_relu6 || r.is_number(r.arg(n, "min"), 0, 0);
    // clamp(x + 3, 0, 6) / 6, or clamp(x / 6 + 1/2, 0, 1)
    if (from_zero && high == 6 && near(constant, 1.0 / 6) && plus_number(r, inner, 3) == x)
      return call(op_hardswish, {ValueRef{x}});
    if (from_zero && high == 1 && near(constant, 1))
      if (const ValueId scaled = plus_number(r, inner, 0.5);
          scaled != kNoValue && is_only(product_of(r, scaled), x, 1, 1.0 / 6))
        return call(op_hardswish, {ValueRef{x}});
  }
  const ValueId bell = plus_number(r, gate, 1);
  if (bell == kNoValue || !near(constant, 0.5)) return {};
  if (is(r, bell, op_erf) && is_only(product_of(r, r.value(of(r, bell), "input")), x, 1, std::sqrt(0.5)))
    return call(op_gelu, {ValueRef{x}, std::string("none")});
  if (is(r, bell, op_tanh) && is_tanh_argument(r, r.value(of(r, bell), "input"), x))
    return call(op_gelu, {ValueRef{x}, std::string("tanh")});
  return {};
}

// minimum(maximum(x, low), high), or the other way around.
bool join_clamp(Rewriter& r, size_t at) {
  const Node& n = r.node(at);
  const bool lowest = n.op == &op_minimum;
  if (!lowest && n.op != &op_maximum) return false;
  const auto split = [&](const Node& node, ValueId& x) -> std::optional<double> {
    for (const size_t k : {0, 1})
      if (const auto number = r.number(node.args[k])) {
        x = id_of(node.args[1 - k]);
        return x == kNoValue ? std::nullopt : number;
      }
    return {};
  };
  ValueId inner = kNoValue, x = kNoValue;
  const auto outer_limit = split(n, inner);
  const size_t before = outer_limit ? r.producer(inner, lowest ? op_maximum : op_minimum) : Rewriter::kNone;
  const auto inner_limit = before == Rewriter::kNone ? std::nullopt : split(r.node(before), x);
  if (!inner_limit || !(r.type(x) == r.type(n.results[0]))) return false;
  const double low = lowest ? *inner_limit : *outer_limit, high = lowest ? *outer_limit : *inner_limit;
  if (!(low <= high) || r.type(x).dtype != DType::F32) return false;
  r.applied(at, "two ops are clamp", 2 * r.bytes(x));
  r.replace(at, Rewriter::make(op_clamp, {ValueRef{x}, low, high}, n.results, n));
  return true;
}

bool join_activation(Rewriter& r, size_t at) {
  const Node& n = r.node(at);
  if ((n.op != &op_mul && n.op != &op_div) || n.form != Form::Plain) return false;
  const ValueId result = n.results[0];
  if (!is_floating(r.type(result).dtype)) return false;
  const Product p = product_of(r, result);
  if (p.values.size() != 2) return false;
  for (const auto& [x, gate] : {std::pair(p.values[0], p.values[1]), std::pair(p.values[1], p.values[0])}) {
    if (!(r.type(x) == r.type(result))) continue;
    std::optional<Node> joined = gated(r, n, p.constant, x, gate);
    if (!joined) continue;
    r.applied(at, std::string("several ops are ") + joined->op->name, 4 * r.bytes(result));
    r.replace(at, std::move(*joined));
    return true;
  }
  return false;
}

// --- norms --------------------------------------------------------------------------------------------------------------
// How many last dimensions a mean with keepdim is over; 0 if it is something else.
size_t mean_of(const Rewriter& r, ValueId id, ValueId& input) {
  const size_t at = r.producer(id, op_mean_dim);
  if (at == Rewriter::kNone) return 0;
  const Node& n = r.node(at);
  const auto* dims = std::get_if<std::vector<int64_t>>(&r.arg(n, "dim"));
  const auto* keep = std::get_if<bool>(&r.arg(n, "keepdim"));
  input = r.value(n, "input");
  if (!dims || !keep || !*keep || input == kNoValue || dims->empty()) return 0;
  const auto rank = static_cast<int64_t>(r.type(input).shape.size());
  std::vector<int64_t> sorted;
  for (const int64_t d : *dims) sorted.push_back(d < 0 ? d + rank : d);
  std::ranges::sort(sorted);
  for (size_t i = 0; i < sorted.size(); ++i)
    if (sorted[i] != rank - static_cast<int64_t>(sorted.size() - i)) return 0;
  return sorted.size();
}

// numerator * 1 / sqrt(mean(squared^2) + eps): the parts, or nothing.
struct Normalized {
  ValueId numerator = kNoValue;
  ValueId squared = kNoValue;
  size_t dims = 0;
  double eps = 0;
};
bool read_scale(const Rewriter& r, ValueId root_of, Normalized& n) {  // root_of: mean(...) + eps
  const size_t at = r.producer(root_of, op_add);
  if (at == Rewriter::kNone) return false;
  const Node& sum = r.node(at);
  const bool second = r.number(sum.args[1]).has_value();
  const auto eps = r.number(sum.args[second ? 1 : 0]);
  ValueId squares = kNoValue;
  n.dims = eps ? mean_of(r, id_of(sum.args[second ? 0 : 1]), squares) : 0;
  if (!n.dims || *eps < 0) return false;
  n.eps = *eps;
  const Product p = product_of(r, squares);
  if (p.values.size() != 2 || p.values[0] != p.values[1] || p.constant != 1) return false;
  n.squared = p.values[0];
  return true;
}
std::optional<Normalized> normalized(const Rewriter& r, const Node& node) {
  Normalized n;
  if (node.op == &op_div) {
    n.numerator = id_of(node.args[0]);
    const ValueId root = id_of(node.args[1]);
    if (n.numerator == kNoValue || !is(r, root, op_sqrt)) return {};
    return read_scale(r, r.value(of(r, root), "input"), n) ? std::optional(n) : std::nullopt;
  }
  if (node.op != &op_mul) return {};
  for (const size_t k : {0, 1}) {
    n.numerator = id_of(node.args[k]);
    const ValueId factor = id_of(node.args[1 - k]);
    if (n.numerator == kNoValue || factor == kNoValue) continue;
    ValueId inner = kNoValue;
    if (is(r, factor, op_rsqrt)) inner = r.value(of(r, factor), "input");
    if (is(r, factor, op_reciprocal))
      if (const ValueId root = r.value(of(r, factor), "input"); is(r, root, op_sqrt))
        inner = r.value(of(r, root), "input");
    if (inner != kNoValue && read_scale(r, inner, n)) return n;
  }
  return {};
}

// x - mean(x) over the last dimensions: x.
ValueId centred_input(const Rewriter& r, ValueId id, size_t dims) {
  const size_t at = r.producer(id, op_sub);
  if (at == Rewriter::kNone || !r.is_number(r.arg(r.node(at), "alpha"), 1, 0)) return kNoValue;
  const ValueId x = id_of(r.node(at).args[0]), mean = id_of(r.node(at).args[1]);
  ValueId of_mean = kNoValue;
  return x != kNoValue && mean != kNoValue && mean_of(r, mean, of_mean) == dims && of_mean == x ? x : kNoValue;
}

// The constant that a value alone is multiplied with or added to, of the shape of the last dimensions.
ValueId affine_constant(Rewriter& r, size_t at, const OpRecord& op, ValueId v, const std::vector<int64_t>& shape) {
  const Node& n = r.node(at);
  if (n.op != &op || !(r.type(n.results[0]) == r.type(v))) return kNoValue;
  if (&op == &op_add && !r.is_number(r.arg(n, "alpha"), 1, 0)) return kNoValue;
  const ValueId id = id_of(n.args[id_of(n.args[0]) == v ? 1 : 0]);
  const Tensor t = r.constant(id);
  return t && t.dtype() == r.type(v).dtype && std::ranges::equal(t.shape(), shape) ? id : kNoValue;
}

bool join_norm(Rewriter& r, size_t at) {
  const Node& n = r.node(at);
  if (n.form != Form::Plain || n.results.size() != 1) return false;
  const std::optional<Normalized> norm = normalized(r, n);
  if (!norm) return false;
  ValueId x = centred_input(r, norm->numerator, norm->dims);
  const bool centres = x != kNoValue && norm->squared == norm->numerator;
  if (!centres) x = norm->numerator;
  if (!centres && norm->squared != x) return false;
  const graph::ValueType type = r.type(x);
  if (!(type == r.type(n.results[0])) || (type.dtype != DType::F32 && type.dtype != DType::F64)) return false;
  const std::vector<int64_t> shape(type.shape.end() - static_cast<ptrdiff_t>(norm->dims), type.shape.end());
  size_t last = at;
  ValueId weight = kNoValue, bias = kNoValue, result = n.results[0];
  const auto absorb = [&](const OpRecord& op, ValueId& constant) {
    const size_t user = r.sole_user(result);
    if (user == Rewriter::kNone) return;
    constant = affine_constant(r, user, op, result, shape);
    if (constant == kNoValue) return;
    last = user;
    result = r.node(user).results[0];
  };
  absorb(op_mul, weight);
  if (centres) absorb(op_add, bias);
  const auto maybe = [](ValueId id) { return id == kNoValue ? Argument() : Argument(ValueRef{id}); };
  if (!centres) {
    Node joined = Rewriter::make(op_rms_norm, {ValueRef{x}, shape, maybe(weight), norm->eps}, {result}, n);
    if (!keeps_type(r.graph(), joined)) return false;
    r.applied(at, "several ops are rms_norm", 8 * r.bytes(x));
    r.replace(last, std::move(joined));
    return true;
  }
  graph::ValueType statistics = type;
  int64_t step = 1;
  for (size_t d = type.shape.size(); d-- > 0;) {
    if (d >= type.shape.size() - norm->dims) statistics.shape[d] = 1;
    statistics.strides[d] = step;
    step *= statistics.shape[d];
  }
  const std::string name = r.graph().values[result].name;
  const ValueId mean = r.add_value(statistics, name + ".mean"), rstd = r.add_value(statistics, name + ".rstd");
  Node joined = Rewriter::make(op_layer_norm_core, {ValueRef{x}, shape, maybe(weight), maybe(bias), norm->eps},
                               {result, mean, rstd}, n);
  if (!keeps_type(r.graph(), joined)) return false;
  r.applied(at, "several ops are layer_norm", 8 * r.bytes(x));
  r.replace(last, std::move(joined));
  return true;
}
}  // namespace

size_t join_patterns(graph::Graph& g, const PassOptions& options) {
  const autograd::NoGrad off;
  Rewriter r(g, options, "join_patterns");
  for (size_t at = 0; at < r.size(); ++at) {
    if (r.dead(at) || r.node(at).results.size() != 1 || !r.node(at).bodies.empty()) continue;
    if (!join_clamp(r, at) && !join_activation(r, at)) join_norm(r, at);
  }
  return r.finish();
}

}  // namespace strata::engine
