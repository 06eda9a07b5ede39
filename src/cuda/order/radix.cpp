// Launches the kernels of cuda/order/radix.cu and line_sort.cu.
#include "cuda/order/radix.h"

#include <algorithm>
#include <bit>

#include "cuda/common/tensors.h"
#include "cuda/order/sort_params.h"
#include "cuda/pointwise/pointwise.h"
#include "cuda/runtime/stream.h"

namespace strata::cuda {
namespace {

constexpr int64_t kRadixBlockThreads = 256, kPart = 1 << 14;
constexpr int64_t kShortLine = int64_t{kRadixThreads} * kRadixItemsWide;

size_t log_size(const TensorImpl& x) { return static_cast<size_t>(std::countr_zero(size_of(x.dtype))); }

int64_t tile_of(const TensorImpl& x) {
  return int64_t{kRadixThreads} * (size_of(x.dtype) == 8 ? kRadixItemsWide : kRadixItems);
}

void sort_lines(const RadixSort& s, const TensorImpl& x, const TensorImpl* values, const TensorImpl* indices) {
  static const Function kernels[][4] = {{{"line_sort", "sort_line_u8"},
                                         {"line_sort", "sort_line_u16"},
                                         {"line_sort", "sort_line_u32"},
                                         {"line_sort", "sort_short_line_u64"}},
                                        {{"line_sort", "sort_short_line_u8"},
                                         {"line_sort", "sort_short_line_u16"},
                                         {"line_sort", "sort_short_line_u32"},
                                         {"line_sort", "sort_short_line_u64"}}};
  LineSortParams p{};
  p.x = address(x);
  p.values = address(values);
  p.indices = address(indices);
  p.type = tag(x);
  p.flip = s.descending;
  p.wide_indices = indices && size_of(indices->dtype) == 8;
  p.n = s.n;
  p.keep = s.keep;
  stream_of(x.device).launch(kernels[s.n <= kShortLine][log_size(x)], {static_cast<uint32_t>(s.lines)}, {kRadixThreads},
                             0, p);
}
}  // namespace

void radix_sort(const RadixSort& s, const TensorImpl& x, const TensorImpl* values, const TensorImpl* indices,
                Workspace& workspace) {
  static const Function count[] = {{"radix", "radix_count_u8"},
                                   {"radix", "radix_count_u16"},
                                   {"radix", "radix_count_u32"},
                                   {"radix", "radix_count_u64"}};
  static const Function pass[] = {
    {"radix", "radix_pass_u8"}, {"radix", "radix_pass_u16"}, {"radix", "radix_pass_u32"}, {"radix", "radix_pass_u64"}};
  static const Function plan("radix", "radix_plan");
  const bool wide = indices && size_of(indices->dtype) == 8;
  if (s.n <= tile_of(x) && !s.payload && s.bits == 0) {
    if (!workspace.planning()) sort_lines(s, x, values, indices);
    return;
  }
  RadixParams p{};
  p.x = address(x);
  p.values = address(values);
  p.indices = address(indices);
  p.payload = address(s.payload);
  p.type = s.bits ? static_cast<int32_t>(DType::U32) : tag(x);
  p.flip = s.descending;
  p.passes = s.bits ? (s.bits + 7) / 8 : static_cast<int32_t>(size_of(x.dtype));
  p.wide_indices = wide;
  p.n = s.n;
  p.tiles = ceil_div(s.n, tile_of(x));
  p.part = std::min(kPart, s.n);
  p.parts = ceil_div(s.n, p.part);
  p.keep = s.keep;

  // Cleared: counts and plans of the lines, words of look-back, tickets.
  const int64_t tiles = s.lines * p.tiles, states = tiles * kRadixDigits,
                plans = s.lines * static_cast<int64_t>(sizeof(RadixLine) / 8);
  const Tensor control = workspace.take(states + plans + kRadixPassesMost, DType::I64);
  p.states = address(*control);
  p.lines = p.states + static_cast<uint64_t>(states) * 8;
  p.tickets = p.lines + static_cast<uint64_t>(plans) * 8;
  Tensor keys[2], places[2];  // one pass needs no buffers, two need one
  for (int k = 0; k < std::min(p.passes - 1, 2); ++k) {
    keys[k] = workspace.take(s.lines * s.n, x.dtype);
    p.keys[k] = address(*keys[k]);
    if (!indices) continue;
    places[k] = workspace.take(s.lines * s.n, DType::I32);
    p.places[k] = address(*places[k]);
  }
  if (workspace.planning()) return;
  fill(*control, 0);
  const Stream stream = stream_of(x.device);
  stream.launch(count[log_size(x)], {static_cast<uint32_t>(s.lines * p.parts)}, {kRadixBlockThreads}, 0, p);
  stream.launch(plan, {static_cast<uint32_t>(s.lines)}, {kRadixBlockThreads}, 0, p);
  for (p.pass = 0; p.pass < p.passes; ++p.pass, p.shift += 8)
    stream.launch(pass[log_size(x)], {static_cast<uint32_t>(tiles)}, {kRadixThreads}, 0, p);
}

}  // namespace strata::cuda
