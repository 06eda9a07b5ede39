#include "cuda/linalg/hopper_launch.h"

#include <algorithm>
#include <array>

#include "cuda/common/tensors.h"
#include "cuda/linalg/realign.h"
#include "cuda/linalg/tensor_map.h"

namespace strata::cuda {
namespace {

using hopper::GemmArgs;
using hopper::TileMemory;
using hopper::TileShape;

int64_t clusters_of(const TileShape& t, const GemmLayout& l) {
  return ceil_div(l.m, int64_t{t.m} * t.cluster) * ceil_div(l.n, t.n) * l.batch[0] * l.batch[1];
}

// A matrix of 16-bit elements as TMA sees it: x along the dense dimension, y along rows, then the batch.
struct Matrix {
  uint64_t address;
  int64_t x, y, ld;
  const int64_t (&sizes)[2], (&strides)[2];
};

driver::CUtensorMap map_of(const Gpu& gpu, DType dtype, const Matrix& m, int box_x, int box_y) {
  const int64_t sizes[] = {m.x, m.y, m.sizes[1], m.sizes[0]}, strides[] = {m.ld, m.strides[1], m.strides[0]};
  return tensor_map(gpu, dtype, m.address, sizes, strides, box_x, box_y);
}

GemmArgs arguments(const GemmLayout& l) {
  const auto moves = [](const int64_t(&strides)[2]) { return (strides[1] ? 1 : 0) + (strides[0] ? 2 : 0); };
  GemmArgs args{};
  args.m = static_cast<int32_t>(l.m);
  args.n = static_cast<int32_t>(l.n);
  args.k = static_cast<int32_t>(l.k);
  args.inner = static_cast<int32_t>(l.batch[1]);
  args.batches = static_cast<int32_t>(l.batch[0] * l.batch[1]);
  args.a_moves = moves(l.a_b);
  args.b_moves = moves(l.b_b);
  args.addend = l.addend == Addend::None  ? hopper::kAddNothing
                : l.addend == Addend::Row ? hopper::kAddRow
                                          : hopper::kAddMatrix;
  args.alpha = static_cast<float>(l.alpha);
  args.beta = static_cast<float>(l.beta);
  args.in = l.in;
  args.d = l.c;
  args.in_ld = l.in_m;
  args.d_ld = l.c_ld;
  std::copy_n(l.in_b, 2, args.in_b);
  std::copy_n(l.c_b, 2, args.d_b);
  return args;
}
}  // namespace

int64_t hopper_slots(const TileShape& t, int multiprocessors) { return multiprocessors * t.blocks_per_sm / t.cluster; }
int64_t hopper_waves(const TileShape& t, const GemmLayout& l, int multiprocessors) {
  return ceil_div(clusters_of(t, l), hopper_slots(t, multiprocessors));
}
bool fits_hopper(const GemmLayout& l, const TileShape& t) {
  return fits_32_bits(l) && clusters_of(t, l) <= INT32_MAX / 2;
}

HopperChoice choose_hopper_tiles(const GemmLayout& l, int multiprocessors, uint32_t allowed) {
  const int64_t steps = ceil_div(l.k, hopper::kTileK);
  if (l.m <= hopper::kFlat.load_m && l.a.along_k && (allowed >> kFlatTiles & 1)) {
    // Bound by the memory, or, with few columns, by the latency of a step.
    constexpr int64_t kOnceNs = 3000, kBytesPerNs = 2000, kStepNs = 125;
    const int64_t memory = 2 * l.n * l.k * l.batch[0] * l.batch[1] / kBytesPerNs;
    return {kFlatTiles, kOnceNs + std::max(memory, hopper_waves(hopper::kFlat, l, multiprocessors) * steps * kStepNs)};
  }
  HopperChoice best{0, INT64_MAX};
  for (size_t i = 0; i < kFlatTiles; ++i) {
    const HopperTiles& t = kHopperTiles[i];
    const int64_t time = t.once_ns + hopper_waves(t.shape, l, multiprocessors) * (t.wave_ns + steps * t.step_ns);
    if ((allowed >> i & 1) && time < best.time_ns) best = {i, time};
  }
  return best;
}

HopperLaunch describe_hopper(const Gpu& gpu, DType dtype, const GemmLayout& l, const TileShape& t, bool tma_stores) {
  const TileMemory memory(t, l.b.along_k);
  HopperLaunch launch{};
  launch.args = arguments(l);
  launch.args.tma_stores = tma_stores && rows_are_aligned(l.c, l.c_ld, l.c_b);
  const auto factor_map = [&](const Factor& f, int64_t size, const int64_t(&strides)[2], int box_y) {
    return map_of(gpu, dtype, {f.address, f.along_k ? l.k : size, f.along_k ? size : l.k, f.ld, l.batch, strides},
                  hopper::kTileK, box_y);
  };
  launch.a = factor_map(l.a, l.m, l.a_b, l.a.along_k ? t.load_m : hopper::kTileK);
  launch.b = factor_map(l.b, l.n, l.b_b, memory.slice_b);
  if (launch.args.tma_stores)
    launch.d = map_of(gpu, dtype, {l.c, l.n, l.m, l.c_ld, l.batch, l.c_b}, memory.store_columns, 64);
  const int64_t clusters = std::min(clusters_of(t, l), hopper_slots(t, gpu.properties.multiprocessors));
  launch.blocks = static_cast<uint32_t>(clusters * t.cluster);
  launch.shared_bytes = static_cast<uint32_t>(memory.total);
  return launch;
}

}  // namespace strata::cuda
