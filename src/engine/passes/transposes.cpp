// Transposes of transposes.
#include <algorithm>
#include <numeric>

#include "autograd/autograd.h"
#include "engine/passes/inference.h"
#include "engine/passes/rewriter.h"
#include "strata/ops.h"

namespace strata::engine {
namespace {

using graph::kNoValue;
using graph::Node;
using graph::ValueRef;
using Order = std::vector<int64_t>;

// Where each dimension of the result comes from.
std::optional<Order> order_of(const Rewriter& r, const Node& n) {
  if (n.form != Form::Plain || n.results.size() != 1 || (n.op != &op_permute && n.op != &op_transpose)) return {};
  const graph::ValueId input = r.value(n, "input");
  if (input == kNoValue) return {};
  const auto rank = static_cast<int64_t>(r.type(input).shape.size());
  const auto positive = [&](int64_t d) { return d < 0 ? d + rank : d; };
  Order order(static_cast<size_t>(rank));
  if (n.op == &op_transpose) {
    const auto *a = std::get_if<int64_t>(&r.arg(n, "dim0")), *b = std::get_if<int64_t>(&r.arg(n, "dim1"));
    if (!a || !b || rank == 0) return {};
    std::iota(order.begin(), order.end(), 0);
    std::swap(order[static_cast<size_t>(positive(*a))], order[static_cast<size_t>(positive(*b))]);
    return order;
  }
  const auto* dims = std::get_if<Order>(&r.arg(n, "dims"));
  if (!dims || dims->size() != order.size()) return {};
  std::ranges::transform(*dims, order.begin(), positive);
  return order;
}

bool join(Rewriter& r, size_t at) {
  const Node& n = r.node(at);
  const std::optional<Order> second = order_of(r, n);
  if (!second) return false;
  const size_t before = r.producer(r.value(n, "input"));
  const std::optional<Order> first = before == Rewriter::kNone ? std::nullopt : order_of(r, r.node(before));
  if (!first) return false;
  Order both;
  for (const int64_t d : *second) both.push_back((*first)[static_cast<size_t>(d)]);
  const graph::ValueId input = r.value(r.node(before), "input");
  if (std::ranges::is_sorted(both) && !r.returned(n.results[0]) && r.type(input) == r.type(n.results[0])) {
    r.applied(at, "two transposes cancel");
    r.redirect(n.results[0], input);
    return true;
  }
  r.applied(at, "two transposes are one");
  r.replace(at, Rewriter::make(op_permute, {ValueRef{input}, both}, {n.results[0]}, n));
  return true;
}
}  // namespace

size_t cancel_transposes(graph::Graph& g, const PassOptions& options) {
  const autograd::NoGrad off;
  Rewriter r(g, options, "cancel_transposes");
  for (size_t at = 0; at < r.size(); ++at)
    if (!r.dead(at)) join(r, at);
  return r.finish();
}

}  // namespace strata::engine
