// Launches the kernels of cuda/creation/formulas.cu.
#include "cuda/creation/formulas.h"

#include "cuda/creation/formulas_params.h"
#include "cuda/movement/dense.h"
#include "cuda/runtime/stream.h"

namespace strata::cuda {
namespace {

constexpr int64_t kThreads = 256;

void launch(const Function& kernel, RangeParams p, const TensorImpl& out, Workspace& workspace) {
  if (out.numel == 0) return;
  const DenseOut to(out, workspace);
  if (workspace.planning()) return;
  p.out = address(*to);
  p.type = tag(out);
  p.count = out.numel;
  stream_of(out.device).launch(kernel, {blocks_for(out.numel, kThreads)}, {kThreads}, 0, p);
  to.finish();
}
const Function& in_double() {
  static const Function kernel("formulas", "range_f64");
  return kernel;
}
}  // namespace

void arange(const TensorImpl& out, Scalar start, Scalar step, Workspace& workspace) {
  static const Function whole("formulas", "range_i64");
  RangeParams p{};
  if (is_integral(out.dtype)) {
    p.start_whole = start.to<int64_t>();
    p.step_whole = step.to<int64_t>();
  } else {
    p.start = start.to_double();
    p.step = step.to_double();
  }
  launch(is_integral(out.dtype) ? whole : in_double(), p, out, workspace);
}

void linspace(const TensorImpl& out, double start, double end, double base, Workspace& workspace) {
  RangeParams p{};
  p.even = 1;
  p.start = start;
  p.end = end;
  p.base = base;
  if (out.numel > 1) p.step = (end - start) / static_cast<double>(out.numel - 1);
  launch(in_double(), p, out, workspace);
}

void frexp(const TensorImpl& x, const TensorImpl& mantissa, const TensorImpl& exponent, Workspace& workspace) {
  static const Function kernel("formulas", "split_number");
  if (x.numel == 0) return;
  const Tensor from = dense(x, workspace);
  const DenseOut to(mantissa, workspace), power(exponent, workspace);
  if (workspace.planning()) return;
  FrexpParams p{};
  p.x = address(*from);
  p.type = tag(x);
  p.mantissa = address(*to);
  p.exponent = address(*power);
  p.count = x.numel;
  stream_of(x.device).launch(kernel, {blocks_for(x.numel, kThreads)}, {kThreads}, 0, p);
  to.finish();
  power.finish();
}

}  // namespace strata::cuda
