// The kernels of an op that is one reduction, for all back ends, from a function that describes the call as a
// Reduction.
#pragma once
#include "cpu/reduce/reduce.h"
#include "cuda/reduce/reduce.h"
#include "ops/transfer.h"
#include "record/op.h"

namespace strata {

using Describe = Reduction (*)(const Call&);

namespace detail {
// Reductions start from the minimum or maximum of a type, which are not valid bool results for uint8.
inline bool fills_truth(const Reduction& r) {
  const bool truth = r.fold == Fold::Any || r.fold == Fold::All;
  if (!truth || r.x.numel) return false;
  fill_values(r.out, r.fold == Fold::All ? 1 : 0);
  return true;
}
template <Describe describe, auto engine> void run_reduction(const Call& c) {
  const Reduction r = describe(c);
  if (!fills_truth(r)) engine(r.fold, r.x, r.reduced, r.cast, r.out, r.finish);
}
template <Describe describe> void run_reduction_plan(const Call& c, const Plan& plan) {
  const Reduction r = describe(c);
  if (!fills_truth(r)) cuda::run_reduce(r, c, plan);
}
template <Describe describe, cuda::ReduceMethod method> const char* plan_reduction(const Call& c, Plan& plan) {
  return cuda::plan_reduce(describe(c), method, plan);
}
template <Describe describe> std::optional<RowOp> describe_rows(const Call& c) {
  return cpu::rows_of_reduction(describe(c));
}
template <Describe describe> std::optional<RowOp> describe_gpu_rows(const Call& c) {
  return cuda::reduce_in_group(describe(c));
}
}  // namespace detail

template <Describe describe> void add_reduction(OpRecord& op) {
  computes_rows<detail::describe_rows<describe>>(op);
  computes_rows<detail::describe_gpu_rows<describe>, Backend::Cuda>(op);
  op.kernel("simd", detail::run_reduction<describe, cpu::reduce>)
    .kernel("reference", detail::run_reduction<describe, cpu::reduce_reference>)
    .planned(Backend::Cuda, "columns", detail::plan_reduction<describe, cuda::ReduceMethod::Columns>,
             detail::run_reduction_plan<describe>)
    .planned(Backend::Cuda, "rows", detail::plan_reduction<describe, cuda::ReduceMethod::Rows>,
             detail::run_reduction_plan<describe>)
    .planned(Backend::Cuda, "strided", detail::plan_reduction<describe, cuda::ReduceMethod::Strided>,
             detail::run_reduction_plan<describe>);
}

}  // namespace strata
