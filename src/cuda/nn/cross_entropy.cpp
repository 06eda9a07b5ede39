// Launches the kernels of cuda/nn/cross_entropy.cu.
#include "cuda/nn/cross_entropy.h"

#include <algorithm>
#include <bit>

#include "cuda/common/tensors.h"
#include "cuda/nn/cross_entropy_params.h"
#include "cuda/runtime/faults.h"
#include "cuda/runtime/stream.h"

namespace strata::cuda {
namespace {

constexpr int64_t kRowThreads = 512;  // at most, and those of a block of short rows
constexpr int64_t kPerThread = 32;    // elements that are worth a thread

CrossEntropyParams plan(const CrossEntropyInputs& in, const TensorImpl& stats, const TensorImpl& total) {
  CrossEntropyParams p{};
  p.x = address(in.x);
  p.type = tag(in.x);
  p.target = address(in.target);
  p.target_type = tag(in.target);
  p.weight = address(in.weight);
  p.weight_type = tag(in.weight);
  p.stats = address(stats);
  p.total = address(total);
  p.ignore = in.ignore;
  p.mean = in.mean;
  p.rows = in.x.shape[0];
  p.classes = in.x.shape[1];
  const int64_t wanted = std::clamp<int64_t>(ceil_div(p.classes, kPerThread), 1, kRowThreads);
  p.threads = static_cast<int32_t>(std::bit_ceil(static_cast<uint64_t>(wanted)));
  return p;
}

void launch(const Function& kernel, CrossEntropyParams& p, const TensorImpl& x) {
  const Stream stream = stream_of(x.device);
  p.faults = fault_sink(stream.gpu());
  stream.launch(kernel, {blocks_for(p.rows, kRowThreads / p.threads)}, {kRowThreads}, 0, p);
}
}  // namespace

void cross_entropy(const CrossEntropyInputs& in, const TensorImpl& stats, const TensorImpl& loss,
                   const TensorImpl& total) {
  static const Function rows[] = {{"cross_entropy", "cross_entropy_f32"}, {"cross_entropy", "cross_entropy_f64"}};
  static const Function sums[] = {{"cross_entropy", "cross_entropy_sums_f32"},
                                  {"cross_entropy", "cross_entropy_sums_f64"}};
  CrossEntropyParams p = plan(in, stats, total);
  p.loss = address(loss);
  p.each = loss.ndim > 0;
  if (p.rows > 0) launch(rows[in.x.dtype == DType::F64], p, in.x);
  stream_of(in.x.device).launch(sums[in.x.dtype == DType::F64], {1}, {256}, 0, p);
}

void cross_entropy_backward(const CrossEntropyInputs& in, const TensorImpl& stats, const TensorImpl& total,
                            const TensorImpl& grad, const TensorImpl& out) {
  static const Function rows[] = {{"cross_entropy", "cross_entropy_backward_narrow"},
                                  {"cross_entropy", "cross_entropy_backward_f32"},
                                  {"cross_entropy", "cross_entropy_backward_f64"}};
  CrossEntropyParams p = plan(in, stats, total);
  p.grad = address(grad);
  p.grad_type = tag(grad);
  p.each = grad.ndim > 0;
  p.out = address(out);
  p.singly = (p.x - p.out) % 16 != 0;
  if (out.numel > 0) launch(rows[size_of(in.x.dtype) / 4], p, in.x);
}

}  // namespace strata::cuda
