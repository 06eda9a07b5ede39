// Attention that is written as two products and a softmax.
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

bool is_product(const Rewriter& r, size_t at) {
  return at != Rewriter::kNone && (r.node(at).op == &op_matmul || r.node(at).op == &op_bmm);
}
ValueId left(const Node& n) { return Rewriter::value(n, "input"); }
ValueId right(const Node& n) { return Rewriter::value(n, n.op == &op_matmul ? "other" : "mat2"); }

// Takes products and quotients with numbers off a value.
ValueId without_factors(const Rewriter& r, ValueId id, double& factor) {
  for (int depth = 0; depth < 4 && id != kNoValue; ++depth) {
    const size_t product = r.sole_producer(id, op_mul), quotient = r.sole_producer(id, op_div);
    if (product != Rewriter::kNone) {
      const Node& n = r.node(product);
      const auto a = r.number(n.args[0]), b = r.number(n.args[1]);
      if (!a && !b) break;
      factor *= b ? *b : *a;
      const auto* rest = std::get_if<ValueRef>(&n.args[b ? 0 : 1]);
      if (!rest) break;
      id = rest->id;
    } else if (quotient != Rewriter::kNone) {
      const Node& n = r.node(quotient);
      const auto by = r.number(n.args[1]);
      const auto* rest = std::get_if<ValueRef>(&n.args[0]);
      if (!by || *by == 0 || !rest || !std::holds_alternative<std::monostate>(r.arg(n, "rounding_mode"))) break;
      factor /= *by;
      id = rest->id;
    } else {
      break;
    }
  }
  return id;
}

// The value whose last two dimensions are exchanged; kNoValue if the value is no such view.
ValueId turned(const Rewriter& r, ValueId id) {
  const auto rank = static_cast<int64_t>(r.type(id).shape.size());
  const auto positive = [&](int64_t d) { return d < 0 ? d + rank : d; };
  if (const size_t at = r.producer(id, op_transpose); at != Rewriter::kNone) {
    const auto *a = std::get_if<int64_t>(&r.arg(r.node(at), "dim0")),
               *b = std::get_if<int64_t>(&r.arg(r.node(at), "dim1"));
    const bool last =
      a && b && std::min(positive(*a), positive(*b)) == rank - 2 && std::max(positive(*a), positive(*b)) == rank - 1;
    return last ? r.value(r.node(at), "input") : kNoValue;
  }
  if (const size_t at = r.producer(id, op_permute); at != Rewriter::kNone) {
    const auto* dims = std::get_if<std::vector<int64_t>>(&r.arg(r.node(at), "dims"));
    bool last = dims && static_cast<int64_t>(dims->size()) == rank;
    for (int64_t d = 0; last && d < rank; ++d)
      last = positive((*dims)[static_cast<size_t>(d)]) == (d < rank - 2 ? d : 2 * rank - 3 - d);
    return last ? r.value(r.node(at), "input") : kNoValue;
  }
  return kNoValue;
}

bool join(Rewriter& r, size_t at) {
  const Node& n = r.node(at);
  if (!is_product(r, at)) return false;
  const ValueId v = right(n);
  const size_t softmax = r.sole_producer(left(n), op_softmax);
  if (v == kNoValue || softmax == Rewriter::kNone) return false;
  const size_t rank = r.type(v).shape.size();
  const auto dim = r.number(r.arg(r.node(softmax), "dim"));
  if (rank < 3 || rank > 4 || !dim || (*dim != -1 && *dim != static_cast<double>(rank) - 1) ||
      !std::holds_alternative<std::monostate>(r.arg(r.node(softmax), "dtype")))
    return false;
  ValueId scores = r.value(r.node(softmax), "input"), mask = kNoValue;
  double scale = 1;
  if (const size_t sum = r.sole_producer(scores, op_add);
      sum != Rewriter::kNone && r.is_number(r.arg(r.node(sum), "alpha"), 1, 0)) {
    const Node& s = r.node(sum);
    for (const size_t k : {0, 1}) {
      const auto *a = std::get_if<ValueRef>(&s.args[k]), *b = std::get_if<ValueRef>(&s.args[1 - k]);
      if (!a || !b || mask != kNoValue) continue;
      double factor = 1;
      const ValueId inner = without_factors(r, a->id, factor);
      const bool keeps_shape =
        r.type(a->id).shape == r.type(scores).shape && r.type(b->id).dtype == r.type(scores).dtype;
      if (inner == kNoValue || !is_product(r, r.producer(inner)) || r.uses(inner) != 1 || !keeps_shape) continue;
      mask = b->id;
      scores = a->id;
    }
    if (mask == kNoValue) return false;
  }
  scores = without_factors(r, scores, scale);
  const size_t product = scores == kNoValue || r.uses(scores) != 1 ? Rewriter::kNone : r.producer(scores);
  if (!is_product(r, product)) return false;
  const ValueId q = without_factors(r, left(r.node(product)), scale);
  const ValueId k_turned = without_factors(r, right(r.node(product)), scale);
  if (q == kNoValue || k_turned == kNoValue || r.type(q).shape.size() != rank ||
      r.type(k_turned).shape.size() != rank || !is_floating(r.type(q).dtype))
    return false;
  for (size_t d = 0; d + 2 < rank; ++d)
    if (r.type(q).shape[d] != r.type(k_turned).shape[d] || r.type(q).shape[d] != r.type(v).shape[d]) return false;
  bool turns = false;
  ValueId k = turned(r, k_turned);
  if (k == kNoValue) {
    graph::ValueType type = r.type(k_turned);
    std::swap(type.shape[rank - 1], type.shape[rank - 2]);
    std::swap(type.strides[rank - 1], type.strides[rank - 2]);
    k = r.add_value(type, r.graph().values[k_turned].name + ".rows");
    turns = true;
  }
  const Argument mask_arg = mask == kNoValue ? Argument() : Argument(ValueRef{mask});
  Node joined =
    Rewriter::make(op_scaled_dot_product_attention,
                   {ValueRef{q}, ValueRef{k}, ValueRef{v}, mask_arg, 0.0, false, scale, false}, n.results, n);
  if (turns) r.insert_before(at, Rewriter::make(op_transpose, {ValueRef{k_turned}, int64_t{-2}, int64_t{-1}}, {k}, n));
  r.applied(at, "two products and a softmax are scaled_dot_product_attention", 6 * r.bytes(scores));
  r.replace(at, std::move(joined), {softmax});
  return true;
}
}  // namespace

size_t join_attention(graph::Graph& g, const PassOptions& options) {
  const autograd::NoGrad off;
  graph::Graph before = g;
  const size_t decided = options.decisions ? options.decisions->size() : 0;
  Rewriter r(g, options, "join_attention");
  bool any = false;
  for (size_t at = 0; at < r.size(); ++at)
    if (!r.dead(at) && r.node(at).form == Form::Plain) any |= join(r, at);
  const size_t removed = r.finish();
  if (!any) return removed;
  try {
    infer_again(g);  // the heads of its results may be adjacent
  } catch (const Error& e) {
    g = std::move(before);
    if (options.decisions) {
      options.decisions->resize(decided);
      options.decisions->push_back({"join_attention", "the whole graph", e.what(), false});
    }
    return 0;
  }
  return removed;
}

}  // namespace strata::engine
