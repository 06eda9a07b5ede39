#include "cuda/movement/rows.h"

#include <algorithm>
#include <bit>

#include "cuda/common/axes.h"
#include "cuda/common/tensors.h"
#include "cuda/movement/rows_params.h"
#include "cuda/runtime/stream.h"

namespace strata::cuda {
namespace {
constexpr int64_t kThreads = 256, kWorthIt = 32;  // minimum bytes of a row
}

bool copy_rows(const Walk& w, Device device) {
  static const Function kernels[] = {
    {"rows", "copy_rows_2"}, {"rows", "copy_rows_4"}, {"rows", "copy_rows_8"}, {"rows", "copy_rows_16"}};
  const int last = w.ndim - 1;
  const auto bytes = static_cast<int64_t>(size_of(w.view[0].type));
  if (w.views != 2 || w.ndim < 2 || last > kRowAxes || w.view[0].step[last] != 1 || w.view[1].step[last] != 1 ||
      w.inner() * bytes < kWorthIt)
    return false;
  CopyRowsParams p{};
  p.to = reinterpret_cast<uint64_t>(w.view[0].data);
  p.from = reinterpret_cast<uint64_t>(w.view[1].data);
  auto bits = static_cast<uint64_t>(w.inner() * bytes) | p.to | p.from | 16;
  for (int d = 0; d < last; ++d)
    for (int k = 0; k < 2; ++k) bits |= static_cast<uint64_t>(w.view[k].step[d] * bytes);
  const auto unit = static_cast<int64_t>(bits & -bits);
  if (unit < 2 || w.total * bytes / unit > INT32_MAX) return false;
  p.total = static_cast<uint32_t>(w.total * bytes / unit);
  p.axes = last;
  p.by_row = divisor(static_cast<uint32_t>(w.inner() * bytes / unit));
  for (int d = 0; d < last; ++d) {
    const int from = last - 1 - d;
    p.size[d] = divisor(static_cast<uint32_t>(w.shape[from]));
    p.to_stride[d] = w.view[0].step[from] * bytes / unit;
    p.from_stride[d] = w.view[1].step[from] * bytes / unit;
  }
  stream_of(device).launch(kernels[std::countr_zero(static_cast<uint64_t>(unit)) - 1],
                           {blocks_for(p.total, kThreads * kRowItems)}, {kThreads}, 0, p);
  return true;
}

bool join_rows(const TensorImpl& out, int dim, std::span<const TensorImpl* const> parts) {
  static const Function kernels[] = {
    {"rows", "join_rows_2"}, {"rows", "join_rows_4"}, {"rows", "join_rows_8"}, {"rows", "join_rows_16"}};
  if (!out.contiguous || out.numel == 0 || parts.size() > kJoinMost) return false;
  int64_t rows = 1;
  for (int d = 0; d < dim; ++d) rows *= out.shape[d];
  const auto bytes = static_cast<int64_t>(size_of(out.dtype));
  uint64_t bits = address(out) | 16;
  for (const TensorImpl* t : parts) {
    const int64_t width = t->numel / rows * bytes;
    if (t->dtype != out.dtype || !t->contiguous || (rows > 1 && width < kWorthIt)) return false;
    bits |= address(*t) | static_cast<uint64_t>(width);
  }
  const auto unit = static_cast<int64_t>(bits & -bits);
  if (unit < 2 || out.numel * bytes / unit > INT32_MAX) return false;
  JoinParams p{};
  p.to = address(out);
  p.pitch = out.numel / rows * bytes / unit;
  int64_t offset = 0, longest = 0;
  for (size_t k = 0; k < parts.size(); ++k) {
    const int64_t total = parts[k]->numel * bytes / unit, width = total / rows;
    p.source[k] = {address(*parts[k]), static_cast<uint32_t>(total), divisor(static_cast<uint32_t>(width)), offset};
    offset += width;
    longest = std::max(longest, total);
  }
  const Grid grid{blocks_for(longest, kThreads * kRowItems), static_cast<uint32_t>(parts.size())};
  stream_of(out.device).launch(kernels[std::countr_zero(static_cast<uint64_t>(unit)) - 1], grid, {kThreads}, 0, p);
  return true;
}

}  // namespace strata::cuda
