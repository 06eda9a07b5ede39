#include "cuda/movement/transpose.h"

#include <algorithm>
#include <bit>

#include "cuda/movement/transpose_params.h"
#include "cuda/runtime/stream.h"

namespace strata::cuda {
namespace {

constexpr int64_t kMostY = 65535, kWorthIt = 16;  // minimum number of rows and columns for tiles

// The walk is in the order of the output. Its last dimension must be contiguous there, another one in the input.
bool plan(const Walk& w, TransposeParams& p) {
  if (w.views != 2 || w.ndim < 2 || w.ndim > 3 || w.view[0].step[w.ndim - 1] != 1) return false;
  const int r = w.ndim - 1;
  int c = -1;
  for (int d = 0; d < r; ++d)
    if (w.view[1].step[d] == 1 && w.shape[d] >= kWorthIt) c = d;
  if (c < 0 || w.shape[r] < kWorthIt || w.view[1].step[r] < w.shape[c]) return false;
  p.rows = w.shape[r];
  p.columns = w.shape[c];
  p.x_row = w.view[1].step[r];
  p.y_column = w.view[0].step[c];
  p.batches = 1;
  if (w.ndim == 3) {
    const int b = c == 0 ? 1 : 0;
    p.batches = w.shape[b];
    p.x_batch = w.view[1].step[b];
    p.y_batch = w.view[0].step[b];
  }
  p.x = reinterpret_cast<uint64_t>(w.view[1].data);
  p.y = reinterpret_cast<uint64_t>(w.view[0].data);
  return true;
}
}  // namespace

bool transpose(const Walk& w, Device device) {
  static const Function kernels[4][2] = {{{"transpose", "transpose_1"}, {"transpose", "transpose_1_vectors"}},
                                         {{"transpose", "transpose_2"}, {"transpose", "transpose_2_vectors"}},
                                         {{"transpose", "transpose_4"}, {"transpose", "transpose_4_vectors"}},
                                         {{"transpose", "transpose_8"}, {"transpose", "transpose_8_vectors"}}};
  TransposeParams p{};
  if (!plan(w, p)) return false;
  const auto bytes = static_cast<int64_t>(size_of(w.view[0].type));
  const int64_t vector = 16 / bytes;
  bool vectors = p.x % 16 == 0 && p.y % 16 == 0;
  for (const int64_t n : {p.rows, p.columns, p.x_row, p.y_column, p.x_batch, p.y_batch}) vectors &= n % vector == 0;
  const TransposeTile tile = transpose_tile(static_cast<int>(bytes), vectors);
  const int64_t across = (p.columns + tile.columns - 1) / tile.columns, down = (p.rows + tile.rows - 1) / tile.rows;
  if (down > kMostY) return false;
  const Grid grid{static_cast<uint32_t>(across), static_cast<uint32_t>(down),
                  static_cast<uint32_t>(std::min<int64_t>(p.batches, 65535))};
  stream_of(device).launch(kernels[std::countr_zero(static_cast<uint64_t>(bytes))][vectors], grid, {256}, 0, p);
  return true;
}

}  // namespace strata::cuda
