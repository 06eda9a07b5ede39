#include "cuda/nn/ctc.h"

#include "cuda/common/upload.h"
#include "cuda/nn/ctc_params.h"
#include "cuda/pointwise/pointwise.h"
#include "cuda/runtime/stream.h"

namespace strata::cuda {

std::optional<int64_t> ctc_loss(const TensorImpl& log_probs, const TensorImpl& targets, std::span<const int64_t> starts,
                                IntList input_lengths, IntList target_lengths, int64_t blank, bool zero_infinity,
                                const TensorImpl& loss, const TensorImpl& grad, Workspace& workspace) {
  static const Function kernels[] = {{"ctc", "ctc_f32"}, {"ctc", "ctc_f64"}};
  if (loss.numel == 0) return {};
  std::vector<CtcSequence> sequences;
  int64_t cells = 0;
  for (size_t i = 0; i < starts.size(); ++i) {
    sequences.push_back({input_lengths[i], target_lengths[i], starts[i], cells});
    cells += input_lengths[i] * (2 * target_lengths[i] + 1);
  }
  const Tensor list = upload(sequences, workspace), memory = workspace.take(2 * cells, loss.dtype),
               failed = workspace.take(Shape(), DType::I64);
  if (workspace.planning()) return {};
  fill(*failed, 0);
  CtcParams p{};
  p.log_probs = reinterpret_cast<uint64_t>(log_probs.data);
  p.targets = reinterpret_cast<uint64_t>(targets.data);
  p.loss = reinterpret_cast<uint64_t>(loss.data);
  p.grad = reinterpret_cast<uint64_t>(grad.data);
  p.sequences = reinterpret_cast<uint64_t>(list.bytes());
  p.alpha = reinterpret_cast<uint64_t>(memory.bytes());
  p.beta = p.alpha + static_cast<uint64_t>(cells) * size_of(loss.dtype);
  p.failed = reinterpret_cast<uint64_t>(failed.bytes());
  p.n = loss.numel;
  p.classes = log_probs.shape[2];
  p.blank = blank;
  p.most_steps = log_probs.shape[0];
  p.zero_infinity = zero_infinity;
  stream_of(loss.device).launch(kernels[loss.dtype == DType::F64], {static_cast<uint32_t>(loss.numel)}, {128}, 0, p);
  const int64_t found = failed.item<int64_t>();
  if (found == 0) return {};
  return found > 0 ? found - 1 : found;
}

}  // namespace strata::cuda
