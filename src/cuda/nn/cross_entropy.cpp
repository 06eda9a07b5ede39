// Launches the kernels of cuda/nn/cross_entropy.cu.
#include "cuda/nn/cross_entropy.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>

#include "cuda/common/tensors.h"
#include "cuda/custom/elementwise_source.h"
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

// --- in groups ---------------------------------------------------------------------------------------------------------------
namespace {

// Nothing: the kernels above have other bits, or the logits of a row do not fit the registers.
std::optional<RowOp> rows_in_group(const CrossEntropyInputs& in) {
  const TensorImpl &x = in.x, &target = in.target;
  if (in.weight || x.numel == 0 || x.shape[1] % 8 != 0 || compute_type(x.dtype) != DType::F32 ||
      target.dtype != DType::I64 || !target.contiguous)
    return {};
  if (x.contiguous ? !reads_in_pieces(x, false) : !reads_in_pieces(x.dtype, false)) return {};
  const int64_t threads = plan(in, x, x).threads, most = size_of(x.dtype) == 2 ? 2 * kGpuRowVectors : kGpuRowVectors;
  if (ceil_div(x.shape[1], 8 * threads) > most) return {};
  RowOp op{.compute = DType::F32, .shape = x.sizes(), .row = x.shape[1], .in = {{{}, &x}}};
  op.gpu = std::make_shared<GpuRows>(GpuRows{.header = "cuda/nn/cross_entropy.cuh", .functor = {}, .threads = threads});
  return op;
}
const char* is_coarse(const TensorImpl& x) { return size_of(x.dtype) == 2 ? "true" : "false"; }

std::vector<uint64_t> target_words(const TensorImpl& target, int64_t ignored) {
  const FaultSink sink = fault_sink(stream_of(target.device).gpu());
  return {address(target), static_cast<uint64_t>(ignored), sink.report, static_cast<uint64_t>(sink.op)};
}

// The sum over rows of the losses in `stats`, if it is given, and the number of rows that count.
void sum_losses(CrossEntropyParams p, const TensorImpl* stats, std::byte* loss, const TensorImpl& total) {
  static const Function sums("cross_entropy", "cross_entropy_sums_f32");
  p.stats = address(stats);
  p.loss = reinterpret_cast<uint64_t>(loss);
  p.total = address(total);
  stream_of(total.device).launch(sums, {1}, {256}, 0, p);
}
}  // namespace

std::optional<RowOp> cross_entropy_in_group(const CrossEntropyInputs& in) {
  std::optional<RowOp> op = rows_in_group(in);
  if (!op) return {};
  op->gpu->functor = fmt::format("CrossEntropyRow<{}>", is_coarse(in.x));
  op->out[0] = {RowExtent::Whole};
  op->out[1] = {RowExtent::Whole, 1, true};
  op->out[2] = {RowExtent::Rows, kCrossEntropyStats};
  struct Held {
    Tensor target, total, stats;
  };
  const auto held = std::make_shared<Held>(Held{alias(in.target), {}, {}});
  const CrossEntropyParams params = plan(in, in.x, in.x);
  op->prepare = [held, params, ignored = in.ignore, gpu = op->gpu](const Call& c) {
    held->total = alias(*c.outs[1]);
    held->stats = alias(*c.outs[2]);
    gpu->words = target_words(*held->target, ignored);
    sum_losses(params, nullptr, nullptr, *held->total);
  };
  op->finish = [held, params](std::byte* const* outs) {
    if (outs[0]) sum_losses(params, held->stats.get(), outs[0], *held->total);
  };
  return op;
}

std::optional<RowOp> cross_entropy_backward_in_group(const CrossEntropyInputs& in, const TensorImpl& stats,
                                                     const TensorImpl& total, const TensorImpl& grad) {
  std::optional<RowOp> op = rows_in_group(in);
  if (!op || !reads_in_pieces(grad.dtype, false) || total.dtype != DType::F32) return {};
  op->gpu->functor = fmt::format("CrossEntropyRowGradient<{}, {}>", is_coarse(in.x), c_type(grad.dtype, true));
  op->in.push_back({{RowExtent::Rows, kCrossEntropyStats}, &stats});
  std::vector<uint64_t>& words = op->gpu->words;
  words = target_words(in.target, in.ignore);
  words.push_back(address(grad));
  words.push_back(in.mean ? address(total) : 0);
  return op;
}

}  // namespace strata::cuda
