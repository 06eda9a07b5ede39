#include "cuda/optim/clip.h"

#include <cmath>
#include <vector>

#include "cuda/movement/dense.h"
#include "cuda/optim/clip_params.h"
#include "cuda/runtime/stream.h"

namespace strata::cuda {
namespace {

constexpr int64_t kPiece = 16384;  // elements per block
constexpr Grid kThreads = {256};

// The order of the elements does not matter, but there must be no gaps.
Tensor without_gaps(const Tensor& t, Workspace& workspace) { return t->is_dense() ? t : dense(*t, workspace); }
int64_t blocks_of(const Tensor& t) { return (t.numel() + kPiece - 1) / kPiece; }

// Calls launch(params, blocks) for the nonempty tensors, kClippedPerLaunch at a time.
template <class Launch> void in_lists(std::span<const Tensor> tensors, ClipParams p, Launch launch) {
  uint32_t blocks = 0;
  p.tensors = 0;
  p.piece = kPiece;
  for (const Tensor& t : tensors) {
    if (t.numel() == 0) continue;
    const auto data = address(*t);
    const uint64_t vector = t.dtype() == DType::F64 ? 16 : 4 * size_of(t.dtype());
    p.tensor[p.tensors] = {data, t.numel(), tag(*t), data % vector == 0};
    p.first_block[p.tensors] = blocks;
    blocks += static_cast<uint32_t>(blocks_of(t));
    if (++p.tensors == kClippedPerLaunch) {
      launch(p, blocks);
      p.tensors = 0;
      blocks = 0;
    }
  }
  if (p.tensors > 0) launch(p, blocks);
}

NormKind kind_of(double norm_type) {
  if (norm_type == 2) return kSumOfSquares;
  if (norm_type == 1) return kSumOfSizes;
  if (norm_type == 0) return kCount;
  if (std::isinf(norm_type)) return norm_type > 0 ? kLargest : kSmallest;
  return kSumOfPowers;
}
}  // namespace

void total_norm(std::span<const Tensor> tensors, double norm_type, const TensorImpl& out, Workspace& workspace) {
  static const Function pieces("clip", "norm_of_pieces"), all("clip", "norm_of_all");
  std::vector<Tensor> whole;
  int64_t count = 0;
  for (const Tensor& t : tensors) {
    whole.push_back(without_gaps(t, workspace));
    count += blocks_of(t);
  }
  const Tensor partials = workspace.take(count, DType::F64);
  if (workspace.planning()) return;
  if (count == 0) return fill(out, 0.0);
  const Stream stream = stream_of(out.device);
  ClipParams p{};
  p.kind = kind_of(norm_type);
  p.power = norm_type;
  p.partial = address(*partials);
  in_lists(whole, p, [&](ClipParams& list, uint32_t blocks) {
    stream.launch(pieces, {blocks}, kThreads, 0, list);
    list.partial += sizeof(double) * blocks;
  });
  const TotalNormParams total{address(*partials), address(out), count, p.kind, tag(out), norm_type};
  stream.launch(all, {1}, kThreads, 0, total);
}

// Launches the kernel on all elements of the tensors; those with gaps are copied first and back afterwards.
static void change_in_place(const Function& kernel, std::span<const Tensor> tensors, const ClipParams& p, Device device,
                            Workspace& workspace) {
  std::vector<Tensor> whole;
  for (const Tensor& t : tensors) whole.push_back(without_gaps(t, workspace));
  if (workspace.planning()) return;
  const Stream stream = stream_of(device);
  in_lists(whole, p,
           [&](const ClipParams& list, uint32_t blocks) { stream.launch(kernel, {blocks}, kThreads, 0, list); });
  for (size_t i = 0; i < tensors.size(); ++i)
    if (whole[i].bytes() != tensors[i].bytes()) copy(*tensors[i], *whole[i]);
}

void scale_to_norm(std::span<const Tensor> tensors, double max_norm, const TensorImpl& total, Workspace& workspace) {
  static const Function scale("clip", "scale_to_norm");
  ClipParams p{};
  p.max_norm = max_norm;
  p.total = address(total);
  p.total_type = tag(total);
  change_in_place(scale, tensors, p, total.device, workspace);
}

void scale_and_check(std::span<const Tensor> tensors, const TensorImpl& found_inf, const TensorImpl& factor,
                     Workspace& workspace) {
  static const Function scale("clip", "scale_and_check");
  ClipParams p{};
  p.total = address(factor);
  p.total_type = tag(factor);
  p.partial = address(found_inf);
  p.kind = tag(found_inf);
  change_in_place(scale, tensors, p, found_inf.device, workspace);
}

void update_scale(const TensorImpl& scale, const TensorImpl& growth_tracker, const TensorImpl& found_inf, double growth,
                  double backoff, int64_t interval) {
  static const Function update("clip", "update_scale");
  const ScaleParams p{address(scale),
                      address(growth_tracker),
                      address(found_inf),
                      tag(scale),
                      tag(growth_tracker),
                      tag(found_inf),
                      growth,
                      backoff,
                      interval};
  stream_of(scale.device).launch(update, {1}, {1}, 0, p);
}

}  // namespace strata::cuda
