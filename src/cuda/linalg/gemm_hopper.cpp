#include "cuda/linalg/gemm_hopper.h"

#include <algorithm>
#include <array>

#include "cuda/common/tensors.h"
#include "cuda/linalg/gemm_hopper_params.h"
#include "cuda/linalg/realign.h"
#include "cuda/linalg/tensor_map.h"

namespace strata::cuda {
namespace {

using hopper::GemmArgs;
using hopper::TileMemory;
using hopper::TileShape;

// A tile shape and its cost: once per launch, per wave of tiles, and per step of k in a wave. Fitted to 260
// measurements on an H200; the chosen shape is on average 2% slower than the best one. Only ratios matter, so other
// clock rates give the same choice.
struct Tiles {
  const char* name;
  TileShape shape;
  int once_ns, wave_ns, step_ns;
};
constexpr Tiles kTiles[] = {
  {"huge", hopper::kHuge, 2973, 1729, 602},  {"wide", hopper::kWide, 3744, 1150, 455},
  {"large", hopper::kLarge, 3131, 871, 333}, {"medium", hopper::kMedium, 1777, 568, 260},
  {"small", hopper::kSmall, 1911, 530, 310}, {"flat", hopper::kFlat, 0, 0, 0},  // always used for few rows
};
constexpr size_t kFlatTiles = std::size(kTiles) - 1;

const Function& kernel_of(DType dtype, size_t tiles, bool a_along_k, bool b_along_k) {
#define STRATA_FOUR(file, name)                 \
  {                                             \
    {{file, name "_tt"}, {file, name "_tn"}}, { \
      {file, name "_nt"}, { file, name "_nn" }  \
    }                                           \
  }
#define STRATA_FILE(file)                                                                                          \
  {                                                                                                                \
    STRATA_FOUR(file, "huge"), STRATA_FOUR(file, "wide"), STRATA_FOUR(file, "large"), STRATA_FOUR(file, "medium"), \
      STRATA_FOUR(file, "small"), STRATA_FOUR(file, "flat")                                                        \
  }
  static const Function kernels[2][std::size(kTiles)][2][2] = {STRATA_FILE("gemm_hopper_f16"),
                                                               STRATA_FILE("gemm_hopper_bf16")};
#undef STRATA_FILE
#undef STRATA_FOUR
  return kernels[dtype == DType::BF16][tiles][a_along_k][b_along_k];
}

int64_t clusters_of(const TileShape& t, const GemmLayout& l) {
  return ceil_div(l.m, int64_t{t.m} * t.cluster) * ceil_div(l.n, t.n) * l.batch[0] * l.batch[1];
}

int64_t slots_of(const TileShape& t, int multiprocessors) { return multiprocessors * t.blocks_per_sm / t.cluster; }
int64_t waves_of(const TileShape& t, const GemmLayout& l, int multiprocessors) {
  return ceil_div(clusters_of(t, l), slots_of(t, multiprocessors));
}

struct Choice {
  size_t tiles;
  int64_t time_ns;
};
Choice choose_tiles(const GemmLayout& l, int multiprocessors) {
  constexpr int64_t kFlatOnce = 3000, kFlatBytesPerNs = 2000;
  if (l.m <= hopper::kFlat.load_m && l.a.along_k)
    return {kFlatTiles, kFlatOnce + 2 * l.n * l.k * l.batch[0] * l.batch[1] / kFlatBytesPerNs};
  const int64_t steps = ceil_div(l.k, hopper::kTileK);
  Choice best{0, INT64_MAX};
  for (size_t i = 0; i < kFlatTiles; ++i) {
    const Tiles& t = kTiles[i];
    const int64_t time = t.once_ns + waves_of(t.shape, l, multiprocessors) * (t.wave_ns + steps * t.step_ns);
    if (time < best.time_ns) best = {i, time};
  }
  return best;
}

// Whether it was faster than cuBLASLt on an H200.
bool beats_cublaslt(const GemmLayout& l, Choice choice, int multiprocessors) {
  constexpr int64_t kLaunchBoundNs = 12000;  // cuBLASLt takes longer to launch
  const TileShape& t = kTiles[choice.tiles].shape;
  const int64_t batches = l.batch[0] * l.batch[1];
  const bool few_rows = l.m <= hopper::kFlat.load_m;
  const bool aligned = rows_are_aligned(l.a.address, l.a.ld, l.a_b) && rows_are_aligned(l.b.address, l.b.ld, l.b_b) &&
                       rows_are_aligned(l.c, l.c_ld, l.c_b);
  // cuBLASLt has no fast kernels for misaligned rows. With few rows the copy costs more than the product.
  if (!aligned) return !few_rows || 3 * choice.time_ns <= kLaunchBoundNs;
  if (choice.time_ns <= kLaunchBoundNs) return true;
  if (few_rows) return l.a.along_k && l.b.along_k;
  if (l.batch[0] > 1) return true;  // cuBLASLt would need a launch for each of the outer batch
  if (l.m <= 64 && l.n <= 64) return l.k <= 128 && batches >= 1024;
  // Many full waves, or short sums, for which writing the result takes most of the time.
  const int64_t waves = waves_of(t, l, multiprocessors), tile = int64_t{t.m} * t.n * t.cluster;
  const bool full = 20 * l.m * l.n * batches >= 19 * waves * slots_of(t, multiprocessors) * tile;
  return batches == 1 && full && (waves >= 7 || (l.k <= 128 && waves >= 4));
}

struct HopperPlan {
  Choice choice;
  bool copies;  // copy_addend first
};

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
  args.tma_stores = rows_are_aligned(l.c, l.c_ld, l.c_b);
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

const char* plan_gemm_hopper_ahead(const GemmCall& g, Plan& plan) {
  if (const char* reason = plan_gemm_hopper(g, plan)) return reason;
  GemmLayout l;
  lay_out(g, l);
  const int multiprocessors = Runtime::gpu(g.c->device).properties.multiprocessors;
  return beats_cublaslt(l, plan.get<HopperPlan>().choice, multiprocessors) ? nullptr
                                                                           : "cuBLASLt is faster for this shape";
}

const char* plan_gemm_hopper(const GemmCall& g, Plan& plan) {
  const TensorImpl& c = *g.c;
  if (c.device.type != DeviceType::Cuda) return "the virtual GPU has no wgmma and no TMA";
  if (c.dtype != DType::F16 && c.dtype != DType::BF16) return "for float16 and bfloat16";
  const Properties& device = Runtime::gpu(c.device).properties;
  if (device.major != 9) return "for GPUs of compute capability 9.0 (Hopper)";
  GemmLayout l;
  if (const char* reason = lay_out(g, l)) return reason;
  const Choice choice = choose_tiles(l, device.multiprocessors);
  if (!fits_32_bits(l) || clusters_of(kTiles[choice.tiles].shape, l) > INT32_MAX / 2)
    return "a size is too large for 32 bits";
  plan.keep(HopperPlan{choice, l.addend == Addend::General});
  plan.variant = kTiles[choice.tiles].name;
  realign_factors(l, Workspace(plan), nullptr);
  return nullptr;
}

void run_gemm_hopper(const GemmCall& g, const Call& call, const Plan& plan) {
  const auto p = plan.get<HopperPlan>();
  const DType dtype = g.c->dtype;
  const Stream stream = stream_of(g.c->device);
  Gpu& gpu = stream.gpu();
  gpu.activate();
  GemmLayout l;
  lay_out(g, l);
  if (p.copies) copy_addend(g, l);
  realign_factors(l, Workspace(call), &stream);
  const TileShape& t = kTiles[p.choice.tiles].shape;
  const TileMemory memory(t, l.b.along_k);
  const GemmArgs args = arguments(l);
  const auto factor_map = [&](const Factor& f, int64_t size, const int64_t(&strides)[2], int box_y) {
    return map_of(gpu, dtype, {f.address, f.along_k ? l.k : size, f.along_k ? size : l.k, f.ld, l.batch, strides},
                  hopper::kTileK, box_y);
  };
  const driver::CUtensorMap a = factor_map(l.a, l.m, l.a_b, l.a.along_k ? t.load_m : hopper::kTileK),
                            b = factor_map(l.b, l.n, l.b_b, memory.slice_b);
  driver::CUtensorMap d{};
  if (args.tma_stores) d = map_of(gpu, dtype, {l.c, l.n, l.m, l.c_ld, l.batch, l.c_b}, memory.store_columns, 64);
  const int64_t clusters = std::min(clusters_of(t, l), slots_of(t, gpu.properties.multiprocessors));
  const auto blocks = static_cast<uint32_t>(clusters * t.cluster);
  stream.launch(kernel_of(dtype, p.choice.tiles, l.a.along_k, l.b.along_k), {blocks}, {hopper::kThreads},
                static_cast<uint32_t>(memory.total), a, b, d, args);
}

}  // namespace strata::cuda
