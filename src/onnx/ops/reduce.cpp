// Reductions, the largest elements and where they are.
#include <limits>

#include "onnx/ops/common.h"

namespace strata::onnx {
namespace {

using Reduce = Tensor (*)(const Tensor& x, const Ints& axes, bool keep);

// The axes to reduce: an attribute, since version `as_input` an input. Empty and nothing to do: returns false.
bool reduced_axes(const NodeCall& c, int64_t dims, int as_input, Ints& axes) {
  if (c.version() < as_input) axes = c.ints("axes");
  else if (c.has(size_t{1})) axes = c.ints(size_t{1});
  axes = axes_of(axes, dims);
  if (!axes.empty()) return true;
  if (c.flag("noop_with_empty_axes")) return false;
  for (int64_t d = 0; d < dims; ++d) axes.push_back(d);
  return true;
}
// `prepare`: what reductions of an element alone do, if there is nothing to reduce.
template <Reduce f, int as_input> Values reduce(NodeCall& c) {
  const Tensor x = c.tensor(0);
  Ints axes;
  if (!reduced_axes(c, x.dim(), as_input, axes)) {
    const Tensor apart = f(unsqueeze(x, 0), {0}, false);
    return one(apart);
  }
  return one(f(x, axes, c.flag("keepdims", true)));
}

Tensor total(const Tensor& x, const Ints& axes, bool keep) { return axes.empty() ? x : sum(x, axes, keep, x.dtype()); }
Tensor average(const Tensor& x, const Ints& axes, bool keep) {
  if (is_floating(x.dtype())) return axes.empty() ? x : mean(x, axes, keep);
  int64_t n = 1;
  for (const int64_t a : axes) n *= x.size(a);
  return div(total(x, axes, keep), n, "trunc");
}
Tensor product(const Tensor& x, const Ints& axes, bool keep) {
  Ints order = axes;
  std::sort(order.rbegin(), order.rend());
  Tensor out = x;
  for (const int64_t a : order) out = prod(out, a, keep, x.dtype());
  return out;
}
// Of nothing: the smallest (or largest) value of the dtype.
Tensor extreme(const Tensor& x, const Ints& axes, bool keep, bool largest) {
  if (x.dtype() == DType::Bool) return cast(extreme(cast(x, DType::U8), axes, keep, largest), DType::Bool);
  if (axes.empty()) return x;
  const bool empty = std::any_of(axes.begin(), axes.end(), [&](int64_t a) { return x.size(a) == 0; });
  if (!empty) return largest ? amax(x, axes, keep) : amin(x, axes, keep);
  const Tensor shaped = sum(cast(x, DType::F32), axes, keep);
  const double infinity = largest ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
  if (is_floating(x.dtype())) return full(shaped.shape(), infinity, like(x));
  const bool is_signed = info_of(x.dtype()).kind == DTypeKind::Signed;
  const int bits = 8 * static_cast<int>(x.element_size()) - (is_signed ? 1 : 0);
  const int64_t most = bits >= 63 ? INT64_MAX : (int64_t{1} << bits) - 1;
  return full(shaped.shape(), largest ? (is_signed ? -most - 1 : 0) : most, like(x));
}
Tensor maximum_of(const Tensor& x, const Ints& axes, bool keep) { return extreme(x, axes, keep, true); }
Tensor minimum_of(const Tensor& x, const Ints& axes, bool keep) { return extreme(x, axes, keep, false); }
Tensor absolute_sum(const Tensor& x, const Ints& axes, bool keep) { return total(abs(x), axes, keep); }
Tensor square_sum(const Tensor& x, const Ints& axes, bool keep) { return total(mul(x, x), axes, keep); }
Tensor root_sum(const Tensor& x, const Ints& axes, bool keep) {
  const DType wide = is_floating(x.dtype()) ? wide_type(x.dtype()) : DType::F64;
  return cast(sqrt(square_sum(cast(x, wide), axes, keep)), x.dtype());
}
Tensor log_sum(const Tensor& x, const Ints& axes, bool keep) {
  const DType wide = is_floating(x.dtype()) ? wide_type(x.dtype()) : DType::F64;
  return cast(log(total(cast(x, wide), axes, keep)), x.dtype());
}
Tensor log_sum_exp(const Tensor& x, const Ints& axes, bool keep) {
  if (axes.empty()) return x;
  const DType wide = is_floating(x.dtype()) ? wide_type(x.dtype()) : DType::F64;
  return cast(logsumexp(cast(x, wide), axes, keep), x.dtype());
}

template <bool largest> Values arg_extreme(NodeCall& c) {
  Tensor x = c.tensor(0);
  const int64_t axis = axis_of(c.integer("axis", 0), x.dim());
  const bool keep = c.flag("keepdims", true), last = c.flag("select_last_index");
  if (last) x = flip(x, {axis});
  const Tensor at = largest ? argmax(x, axis, keep) : argmin(x, axis, keep);
  return one(last ? rsub(at, x.size(axis) - 1) : at);
}

Values top_k(NodeCall& c) {
  const Tensor x = c.tensor(0);
  const int64_t k = c.version() < 10 ? c.integer("k") : c.integer(size_t{1});
  const int64_t axis = axis_of(c.integer("axis", -1), x.dim());
  STRATA_CHECK(k >= 0 && k <= x.size(axis), Value, "k is {}; expected 0 to {}", k, x.size(axis));
  // of equal elements the first ones, so by a stable sort
  const auto [values, indices] = sort(x, std::optional<bool>(true), axis, c.flag("largest", true));
  return {Value(narrow(values, axis, 0, k)), Value(narrow(indices, axis, 0, k))};
}

const OpEntry kReduce[] = {
  {"ReduceSum", 1, 1, 2, nullptr, reduce<total, 13>},
  {"ReduceMean", 1, 1, 2, nullptr, reduce<average, 18>},
  {"ReduceProd", 1, 1, 2, nullptr, reduce<product, 18>},
  {"ReduceMax", 1, 1, 2, nullptr, reduce<maximum_of, 18>},
  {"ReduceMin", 1, 1, 2, nullptr, reduce<minimum_of, 18>},
  {"ReduceL1", 1, 1, 2, nullptr, reduce<absolute_sum, 18>},
  {"ReduceL2", 1, 1, 2, nullptr, reduce<root_sum, 18>},
  {"ReduceSumSquare", 1, 1, 2, nullptr, reduce<square_sum, 18>},
  {"ReduceLogSum", 1, 1, 2, nullptr, reduce<log_sum, 18>},
  {"ReduceLogSumExp", 1, 1, 2, nullptr, reduce<log_sum_exp, 18>},
  {"ArgMax", 1, 1, 1, nullptr, arg_extreme<true>},
  {"ArgMin", 1, 1, 1, nullptr, arg_extreme<false>},
  {"TopK", 1, 1, 2, nullptr, top_k},
};
}  // namespace

OpTable reduce_ops() { return kReduce; }

}  // namespace strata::onnx
