// amax, amin, aminmax, the three overloads of max and min, argmax, argmin.
#include <fmt/core.h>

#include "autograd/autograd.h"
#include "cpu/lines.h"
#include "cpu/reduce/arg_reduce.h"
#include "cuda/movement/dense.h"
#include "ops/reduce/common.h"
#include "ops/reduce/kernels.h"
#include "strata/args/reduce/minmax.h"
#include "strata/ops.h"

namespace strata {
namespace {

void require_any(const Call& c, ErrorKind kind) {
  const args::amax a(c);
  if (a.input().numel == 0)
    fail(kind, fmt::format("{}(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction "
                           "dim with the 'dim' argument.",
                           c.op.name));
}

DimMask extreme_mask(const Call& c) {
  const args::amax a(c);
  return reduced_mask(a.input(), a.dim_value(), c.op.name.c_str());
}
void infer_extreme(const Call& c) {
  const args::amax a(c);
  const TensorImpl& x = a.input();
  const DimMask reduced = extreme_mask(c);
  if (a.dim_value().size == 0) require_any(c, ErrorKind::Runtime);
  require_elements(x, reduced, c.op.name.c_str());
  set_reduced_shape(*c.out(), x, reduced, a.keepdim());
  c.out()->dtype = x.dtype;
}
template <Fold fold> Reduction describe_extreme(const Call& c) {
  const args::amax a(c);
  return {fold, a.input(), extreme_mask(c), c.out().dtype(), *c.out()};
}
Grads grad_extreme(const GradContext& c, const Tensor& g) {
  const grads::amax a(c);
  const DimMask reduced = reduced_mask(a.meta_of_input(), a.dim_value(), "amax");
  const auto [mask, share] = spread_evenly(g, a.input(), c.result(), reduced, a.keepdim());
  return {mul(to(mask, share.dtype()), share)};  // NaN goes to all elements, as in PyTorch
}

void infer_full(const Call& c) {
  const args::max a(c);
  require_any(c, ErrorKind::Runtime);
  c.out()->dtype = a.input().dtype;
}
template <Fold fold> Reduction describe_full(const Call& c) {
  const args::max a(c);
  return {fold, a.input(), all_dims(kMaxDims), c.out().dtype(), *c.out()};
}
Grads grad_full(const GradContext& c, const Tensor& g) {
  const grads::max a(c);
  return {grad_of_one_value(g, a.input(), c.result())};
}

void infer_with_places(const Call& c) {
  const args::max_dim a(c);
  const TensorImpl& x = a.input();
  const DimMask reduced = dim_bit(normalize_dim(a.dim(), x.ndim, c.op.name.c_str()));
  require_elements(x, reduced, c.op.name.c_str());
  for (int o = 0; o < 2; ++o) set_reduced_shape(*c.outs[o], x, reduced, a.keepdim());
  c.outs[0]->dtype = x.dtype;
  c.outs[1]->dtype = DType::I64;
}
using Arg = void (*)(bool, const TensorImpl&, int, const TensorImpl*, const TensorImpl&);
// A zero-dimensional tensor is a row of one element.
Tensor as_row(const TensorImpl& x) {
  Tensor row = alias(x);
  if (x.ndim == 0) {
    row->ndim = 1;
    row->shape[0] = row->strides[0] = 1;
  }
  return row;
}
template <bool largest, Arg arg> void run_with_places(const Call& c) {
  const args::max_dim a(c);
  if (c.outs[0].numel() == 0) return;
  const TensorImpl& x = a.input();
  arg(largest, *as_row(x), normalize_dim(a.dim(), x.ndim, "max"), c.outs[0].get(), *c.outs[1]);
}
template <bool largest> void with_places_on_device(const Call& c, Workspace& workspace) {
  const args::max_dim a(c);
  if (c.outs[0].numel() == 0) return;
  const TensorImpl& x = a.input();
  cuda::arg_reduce(largest, *as_row(x), normalize_dim(a.dim(), x.ndim, "max"), c.outs[0].get(), *c.outs[1], workspace);
}

void infer_arg(const Call& c) {
  const args::argmax a(c);
  const TensorImpl& x = a.input();
  const bool given = static_cast<bool>(a.dim_value()), keepdim = a.keepdim();
  if (!given) require_any(c, ErrorKind::Index);
  const DimMask reduced = reduced_mask(x, a.dim_value(), c.op.name.c_str());
  require_elements(x, reduced, c.op.name.c_str());
  set_reduced_shape(*c.out(), x, reduced, keepdim);
  c.out()->dtype = DType::I64;
}
template <bool largest, Arg arg> void run_arg(const Call& c) {
  const args::argmax a(c);
  if (c.out().numel() == 0) return;
  const TensorImpl& x = a.input();
  if (a.dim() && x.ndim > 0) return arg(largest, x, normalize_dim(*a.dim(), x.ndim, "argmax"), nullptr, *c.out());
  Tensor line = cpu::packed(x);
  line->ndim = 1;
  line->shape[0] = x.numel;
  line->strides[0] = 1;
  arg(largest, *line, 0, nullptr, *c.out());
}
template <bool largest> void arg_on_device(const Call& c, Workspace& workspace) {
  const args::argmax a(c);
  if (c.out().numel() == 0) return;
  const TensorImpl& x = a.input();
  const bool along = a.dim() && x.ndim > 0;
  const Tensor from = along ? alias(x) : cuda::flattened(*cuda::dense(x, workspace));
  cuda::arg_reduce(largest, *from, along ? normalize_dim(*a.dim(), x.ndim, "argmax") : 0, nullptr, *c.out(), workspace);
}
}  // namespace

Spread spread_evenly(const Tensor& g, const Tensor& x, const Tensor& result, DimMask reduced, bool keepdim) {
  const Tensor best = with_kept_dims(result, x.shape(), reduced, keepdim);
  const Tensor mask = logical_or(eq(x, best), logical_and(isnan(x), isnan(best)));  // NaN is equal to NaN here
  std::vector<int64_t> dims;
  for (int d = 0; d < x.dim(); ++d)
    if (reduced >> d & 1) dims.push_back(d);
  return {mask, div(with_kept_dims(g, x.shape(), reduced, keepdim),
                    dims.empty() ? to(mask, x.dtype()) : to(sum(mask, dims, true), x.dtype()))};
}
Tensor grad_of_one_value(const Tensor& g, const Tensor& x, const Tensor& result) {
  const auto [mask, share] = spread_evenly(g, x, result, all_dims(x.dim()), false);
  return where(mask, share, 0);
}

Tensor scatter_into_zeros(const TensorImpl& like, int64_t dim, const Tensor& index, const Tensor& values) {
  return scatter_add_(autograd::zeros_for(like), dim, index, values);
}

Tensor grad_of_selection(const GradContext& c, const Tensor& g, bool keepdim) {
  const grads::max_dim a(c);
  const int ndim = a.meta_of_input().ndim, dim = normalize_dim(a.dim(), ndim, "grad");
  if (ndim == 0) return g;
  const Tensor index = autograd::detach(c.result(1));
  return scatter_into_zeros(a.meta_of_input(), dim, keepdim ? index : unsqueeze(index, dim),
                            keepdim ? g : unsqueeze(g, dim));
}

STRATA_OP(amax, "amax(Tensor input, int[] dim=[], bool keepdim=False) -> Tensor")
  .doc("The largest value along the given dimensions (all when the list is empty). Equal values share the gradient.")
  .infer(infer_extreme)
  .with(add_reduction<describe_extreme<Fold::Max>>)
  .saves({"input"})
  .saves_result()
  .grad(grad_extreme)
  .orders_uint64()
  .samples({"f(3,4)", "f(3,4), 0", "f(3,4), -1, True", "f(2,3,4), [0,2]", "f()", "i5(3,4), 1", "b(3,4), 0",
            "f(3,0), [0]"})
  .error("f(0,3), [0]", ErrorKind::Index, "non-zero size")
  .error("f(3), 1", ErrorKind::Index, "out of range");

STRATA_OP(amin, "amin(Tensor input, int[] dim=[], bool keepdim=False) -> Tensor")
  .doc("The smallest value along the given dimensions (all when the list is empty). Equal values share the gradient.")
  .infer(infer_extreme)
  .with(add_reduction<describe_extreme<Fold::Min>>)
  .saves({"input"})
  .saves_result()
  .grad(grad_extreme)
  .orders_uint64()
  .samples({"f(3,4)", "f(3,4), 0", "f(3,4), -1, True", "f(2,3,4), [0,2]", "f()", "i5(3,4), 1", "b(3,4), 0",
            "f(3,0), [0]"})
  .error("f(0,3), [0]", ErrorKind::Index, "non-zero size")
  .error("f(3), 1", ErrorKind::Index, "out of range");

STRATA_OP(aminmax, "aminmax(Tensor input, *, int? dim=None, bool keepdim=False) -> (Tensor min, Tensor max)")
  .doc("The smallest and the largest value along a dimension, or of the whole tensor.")
  .composite([](const Tensor& input, std::optional<int64_t> dim, bool keepdim) {
    if (!dim) {
      STRATA_CHECK(input.numel() > 0, Runtime,
                   "aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity");
      return std::tuple(amin(input, {}, keepdim), amax(input, {}, keepdim));
    }
    return std::tuple(amin(input, *dim, keepdim), amax(input, *dim, keepdim));
  })
  .samples({"f(3,4)", "f(3,4), dim=0", "f(3,4), dim=-1, keepdim=True", "i5(3,4), dim=1"})
  .error("f(0)", ErrorKind::Runtime, "no identity");

STRATA_OP(max, "max(Tensor input) -> Tensor")
  .doc("The largest value. Equal values share the gradient.")
  .infer(infer_full)
  .with(add_reduction<describe_full<Fold::Max>>)
  .saves({"input"})
  .saves_result()
  .grad(grad_full)
  .orders_uint64()
  .samples({"f(3,4)", "f()", "i5(3,4)", "b(4)"})
  .error("f(0)", ErrorKind::Runtime, "numel() == 0");

STRATA_OP(min, "min(Tensor input) -> Tensor")
  .doc("The smallest value. Equal values share the gradient.")
  .infer(infer_full)
  .with(add_reduction<describe_full<Fold::Min>>)
  .saves({"input"})
  .saves_result()
  .grad(grad_full)
  .orders_uint64()
  .samples({"f(3,4)", "f()", "i5(3,4)", "b(4)"})
  .error("f(0)", ErrorKind::Runtime, "numel() == 0");

STRATA_OP(max_other, "max.other(Tensor input, Tensor other) -> Tensor")
  .doc("The elementwise maximum; the same as maximum.")
  .composite([](const Tensor& input, const Tensor& other) { return maximum(input, other); })
  .samples({"f(3,4), f(3,4)", "f(3,4), f(4)", "i5(3), i5(3)"})
  .error("f(3), f(4)", ErrorKind::Runtime, "");

STRATA_OP(max_dim, "max.dim(Tensor input, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)")
  .doc("The largest value along a dimension and its first index. NaN counts as the largest.")
  .infer(infer_with_places)
  .kernel("simd", run_with_places<true, cpu::arg_reduce>)
  .kernel("reference", run_with_places<true, cpu::arg_reduce_reference>)
  .cuda("reduce", with_places_on_device<true>)
  .saves_result({1})
  .no_grad_outputs({1})
  .grad([](const grads::max_dim& c, const Tensor& g) -> Grads { return {grad_of_selection(c, g, c.keepdim())}; })
  .orders_uint64()
  .samples({"f(3,4), 0", "f(3,4), -1, True", "f(2,3,4), 1", "f(), 0", "i5(3,4), 1", "b(3,4), 0"})
  .error("f(3,0), 1", ErrorKind::Index, "non-zero size")
  .error("f(3), 1", ErrorKind::Index, "out of range");

STRATA_OP(min_other, "min.other(Tensor input, Tensor other) -> Tensor")
  .doc("The elementwise minimum; the same as minimum.")
  .composite([](const Tensor& input, const Tensor& other) { return minimum(input, other); })
  .samples({"f(3,4), f(3,4)", "f(3,4), f(4)", "i5(3), i5(3)"})
  .error("f(3), f(4)", ErrorKind::Runtime, "");

STRATA_OP(min_dim, "min.dim(Tensor input, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)")
  .doc("The smallest value along a dimension and its first index. NaN counts as the smallest.")
  .infer(infer_with_places)
  .kernel("simd", run_with_places<false, cpu::arg_reduce>)
  .kernel("reference", run_with_places<false, cpu::arg_reduce_reference>)
  .cuda("reduce", with_places_on_device<false>)
  .saves_result({1})
  .no_grad_outputs({1})
  .grad([](const grads::min_dim& c, const Tensor& g) -> Grads { return {grad_of_selection(c, g, c.keepdim())}; })
  .orders_uint64()
  .samples({"f(3,4), 0", "f(3,4), -1, True", "f(2,3,4), 1", "f(), 0", "i5(3,4), 1", "b(3,4), 0"})
  .error("f(3,0), 1", ErrorKind::Index, "non-zero size")
  .error("f(3), 1", ErrorKind::Index, "out of range");

STRATA_OP(argmax, "argmax(Tensor input, int? dim=None, bool keepdim=False) -> Tensor")
  .doc("The first index of the largest value along a dimension, or in the flattened tensor.")
  .infer(infer_arg)
  .kernel("simd", run_arg<true, cpu::arg_reduce>)
  .kernel("reference", run_arg<true, cpu::arg_reduce_reference>)
  .cuda("reduce", arg_on_device<true>)
  .orders_uint64()
  .samples({"f(3,4)", "f(3,4), 0", "f(3,4), -1, True", "f(2,3,4), None, True", "f()", "i5(3,4), 1"})
  .error("f(0)", ErrorKind::Index, "numel() == 0")
  .error("f(3), 1", ErrorKind::Index, "out of range");

STRATA_OP(argmin, "argmin(Tensor input, int? dim=None, bool keepdim=False) -> Tensor")
  .doc("The first index of the smallest value along a dimension, or in the flattened tensor.")
  .infer(infer_arg)
  .kernel("simd", run_arg<false, cpu::arg_reduce>)
  .kernel("reference", run_arg<false, cpu::arg_reduce_reference>)
  .cuda("reduce", arg_on_device<false>)
  .orders_uint64()
  .samples({"f(3,4)", "f(3,4), 0", "f(3,4), -1, True", "f(2,3,4), None, True", "f()", "i5(3,4), 1"})
  .error("f(0)", ErrorKind::Index, "numel() == 0")
  .error("f(3), 1", ErrorKind::Index, "out of range");

}  // namespace strata
