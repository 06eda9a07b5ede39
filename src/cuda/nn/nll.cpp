#include "cuda/nn/nll.h"

#include <algorithm>

#include "cuda/common/tensors.h"
#include "cuda/nn/nll_params.h"
#include "cuda/runtime/faults.h"
#include "cuda/runtime/stream.h"

namespace strata::cuda {
namespace {

constexpr int64_t kThreads = 256;

NllParams plan(const TensorImpl& x, const TensorImpl& target, const TensorImpl* weight, int64_t ignore, int64_t classes,
               int64_t inner) {
  NllParams p{};
  p.x = address(x);
  p.x_type = tag(x);
  p.target = address(target);
  p.target_type = tag(target);
  if (weight) {
    p.weight = address(*weight);
    p.weight_type = tag(*weight);
  }
  p.count = target.numel;
  p.classes = classes;
  p.inner = inner;
  p.ignore = ignore;
  return p;
}

void launch(const Function (&kernels)[2], NllParams& p, int64_t blocks, const TensorImpl& x) {
  const Stream stream = stream_of(x.device);
  p.faults = fault_sink(stream.gpu());
  stream.launch(kernels[x.dtype == DType::F64], {static_cast<uint32_t>(blocks)}, {kThreads}, 0, p);
}
}  // namespace

void nll(const TensorImpl& x, const TensorImpl& target, const TensorImpl* weight, int64_t ignore, int64_t classes,
         int64_t inner, bool mean, const TensorImpl& loss, const TensorImpl& total, Workspace& workspace) {
  static const Function kernels[] = {{"nll", "nll_f32"}, {"nll", "nll_f64"}};
  static const Function parts[] = {{"nll", "nll_parts_f32"}, {"nll", "nll_parts_f64"}};
  NllParams p = plan(x, target, weight, ignore, classes, inner);
  p.loss = address(loss);
  p.each = loss.ndim > 0;
  p.mean = mean;
  p.total = address(total);
  p.total_type = tag(total);
  const int64_t blocks = std::max<int64_t>(1, (p.count + kNllPart - 1) / kNllPart);
  Tensor partial;
  if (blocks > 1) {
    partial = workspace.take(blocks * 2, DType::F64);
    p.partial = address(*partial);
  }
  if (workspace.planning()) return;
  launch(kernels, p, blocks, x);
  if (blocks > 1) launch(parts, p, 1, x);
}

void nll_backward(const TensorImpl& grad, const TensorImpl& target, const TensorImpl* weight, int64_t ignore,
                  const TensorImpl* total, int64_t classes, int64_t inner, const TensorImpl& out) {
  static const Function kernels[] = {{"nll", "nll_backward_f32"}, {"nll", "nll_backward_f64"}};
  NllParams p = plan(out, target, weight, ignore, classes, inner);
  p.grad = address(grad);
  p.grad_type = tag(grad);
  p.each = grad.ndim > 0;
  if (total) {
    p.total = address(*total);
    p.total_type = tag(*total);
  }
  if (out.numel > 0) launch(kernels, p, (out.numel + kThreads - 1) / kThreads, out);
}

}  // namespace strata::cuda
