// Launches the kernels of cuda/order/histogram.cu.
#include "cuda/order/histogram.h"

#include <algorithm>
#include <array>

#include "cuda/movement/dense.h"
#include "cuda/order/histogram_params.h"
#include "cuda/runtime/stream.h"

namespace strata::cuda {
namespace {

constexpr int64_t kThreads = 256;

// Launches a kernel over the parts of x.
void launch(const Function& kernel, const TensorImpl& x, HistogramParams p, const TensorImpl& counts) {
  constexpr int64_t kPart = 1 << 14;
  const Tensor from = dense(x);
  p.x = address(*from);
  p.type = tag(x);
  p.n = x.numel;
  p.part = std::max(kPart, p.bins <= kSharedBins ? 4 * p.bins : 0);  // adding a block's counts is a small part of it
  p.counts = address(counts);
  if (p.n > 0) stream_of(x.device).launch(kernel, {blocks_for(p.n, p.part)}, {kThreads}, 0, p);
}
}  // namespace

IntegerRange integer_range(const TensorImpl& x) {
  static const Function kernel("histogram", "integer_range");
  const Tensor range = make_tensor(Shape(std::array{int64_t{2}}), DType::I64, x.device);
  fill(*range, INT64_MIN);
  launch(kernel, x, {}, *range);
  const Tensor host = to_host(*range);
  return {~host.data<int64_t>()[1], host.data<int64_t>()[0]};
}

void count_integers(const TensorImpl& x, const TensorImpl& counts) {
  static const Function kernel("histogram", "count_integers");
  HistogramParams p{};
  p.bins = counts.numel;
  fill(counts, 0);
  launch(kernel, x, p, counts);
}

void count_bins(const TensorImpl& x, double low, double high, const TensorImpl& counts) {
  static const Function kernels[] = {
    {"histogram", "count_bins_f32"}, {"histogram", "count_bins_f64"}, {"histogram", "count_bins_i64"}};
  HistogramParams p{};
  p.bins = counts.numel;
  p.low = low;
  p.high = high;
  fill(counts, 0);
  launch(kernels[kernel_index(x.dtype)], x, p, counts);
}

}  // namespace strata::cuda
